"""The page in other programs, as docs/embedding.md mounts it: FastAPI, Django, a script. Row B19."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, expect
from starlette.types import Receive, Scope, Send

from matins import Matins
from matins.daemon.demonstration import demo_file
from matins.surfaces.http.server import Server, bind

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
ROOT = "/ops/matins"
PATIENCE = 90
_ATTRIBUTES = (
    "href",
    "action",
    "src",
    "hx-get",
    "hx-post",
    "hx-patch",
    "hx-delete",
    "data-to",
    "data-call",
    "data-href",
)
_METHOD = re.compile(r"^(?:GET|POST|PUT|PATCH|DELETE) ")


class Served(NamedTuple):
    process: subprocess.Popen[str]
    url: str


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Runs a program of the page under uvicorn, in a folder with all of them."""
    begun: list[subprocess.Popen[str]] = []

    def serve(application: str, files: dict[str, str] | None = None, **environment: str) -> Served:
        for name, text in {**PROGRAMS, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            line = [sys.executable, "-m", "uvicorn", application, "--fd", str(listening.fileno())]
            given = {**os.environ, "HOME": str(tmp_path), **environment}
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            process = subprocess.Popen(line, cwd=tmp_path, env=given, pass_fds=[listening.fileno()], **pipes)
            begun.append(process)
            return Served(process, f"http://127.0.0.1:{listening.getsockname()[1]}")

    yield serve
    for process in begun:
        process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str


def ask(url: str, method: str, path: str, body: str | None = None, **headers: str) -> Reply:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
        connection.request(method, path, body, given)
        response = connection.getresponse()
        return Reply(response.status, response.headers, response.read().decode("utf-8", "replace"))


def walk_through(browser: Browser, url: str, sign_in: Callable[[Any], None], name: str) -> Callable[[], None]:
    """Sign in at the program, use the page, and stay live. Returns what closes the browser: the page is still open."""
    context = browser.new_context(base_url=url, timezone_id="Pacific/Chatham")
    context.set_default_timeout(30_000)
    problems: list[str] = []
    asked: set[str] = set()
    sign_in(context)
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.add(request.url))
    with page.expect_response(lambda response: urlsplit(response.url).path == f"{ROOT}/ui/stream"):
        page.goto(f"{ROOT}/")
    page.goto(f"{ROOT}/schedules/{name}")
    page.get_by_role("button", name="Run now").click()
    page.wait_for_url(f"**{ROOT}/runs/*")
    expect(page.get_by_text("Succeeded").first).to_be_visible()
    assert problems == []
    assert [each for each in asked if not each.startswith(f"{url}{ROOT}/")] == []
    cookies = [cookie for cookie in context.cookies() if cookie.get("name", "").startswith("matins")]
    assert {cookie.get("path") for cookie in cookies} == {ROOT}
    return context.close


def ends(server: Served) -> str:
    """What the server said, when it was asked to stop."""
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.process.stdout is not None
    said = server.process.stdout.read()
    server.process.wait(PATIENCE)
    return said


def test_b19_the_page_in_fastapi(serve: Serve, browser: Browser) -> None:
    """B19: signed in by the program, live, and no reason for the server to stay when it is to stop"""
    server = serve("ops:app")
    first = ask(server.url, "GET", f"{ROOT}/schedules", Accept="text/html")
    assert (first.status, "Sign in" in first.text) == (200, False), "the page first asks for itself again"
    assert ask(server.url, "GET", f"{ROOT}/v1/schedules").status == 401
    bare = ask(server.url, "GET", ROOT)
    assert urlsplit(bare.headers["Location"]).path == f"{ROOT}/"

    def sign_in(context: Any) -> None:
        assert context.request.post("/sign-in").ok

    close = walk_through(browser, server.url, sign_in, "tidy")
    said = ends(server)
    assert "Application shutdown complete" in said
    assert "Traceback" not in said
    close()


def test_b19_who_is_signed_in_has_that_role_and_no_other_site_uses_it(serve: Serve) -> None:
    """B19: the rights of an operator; the header and the origin stay required; strangers are refused"""
    more = '\nsessions["x"] = "mallory"\nm.people.set("eve", role="viewer")\nsessions["e"] = "eve"\n'
    server = serve("ops:app", {"ops.py": PROGRAMS["ops.py"] + more})
    ada = ask(server.url, "POST", "/sign-in").headers["Set-Cookie"].partition(";")[0]
    run, person, api = f"{ROOT}/v1/schedules/tidy/run", f"{ROOT}/v1/people/eve", {"Content_Type": "application/json"}
    assert ask(server.url, "GET", f"{ROOT}/v1/schedules", Cookie=ada).status == 200
    assert json.loads(ask(server.url, "POST", run, "{}", Cookie=ada, **api).text)["code"] == "csrf"
    header = {**api, "X_Matins_CSRF": "1"}
    assert ask(server.url, "POST", run, "{}", Cookie=ada, **header).status == 201
    assert ask(server.url, "POST", run, "{}", Cookie=ada, Origin=server.url, **header).status == 201
    for origin in ("https://evil.example", "null", f"{server.url}.evil.example", "http://", ""):
        refused = ask(server.url, "POST", run, "{}", Cookie=ada, Origin=origin, **header)
        assert (refused.status, json.loads(refused.text)["code"]) == (403, "wrong_origin"), origin
    assert ask(server.url, "PUT", person, '{"role": "owner"}', Cookie=ada, **header).status == 403
    assert ask(server.url, "POST", run, "{}", Cookie="shop=e", **header).status == 403
    stranger = ask(server.url, "GET", f"{ROOT}/v1/schedules", Cookie="shop=x")
    told = json.loads(stranger.text)
    assert (stranger.status, told["code"], told["instance"]) == (403, "unknown_person", f"{ROOT}/v1/schedules")
    assert "matins people set mallory" in told["hint"]
    assert ask(server.url, "GET", f"{ROOT}/v1/schedules", Cookie="shop=none").status == 401
    basic = ask(server.url, "GET", f"{ROOT}/v1/schedules", Cookie=ada, Authorization="Basic YTpi")
    assert basic.status == 200, "what a proxy wants to know is none of ours"
    forged = ask(server.url, "GET", f"{ROOT}/v1/schedules", Cookie=ada, Authorization="Bearer mtn_aaaaaaaa_" + "a" * 32)
    assert forged.status == 401


def test_b19_who_may_wait_on_the_loop(serve: Serve) -> None:
    """B19: an `async def` is awaited where the requests are"""
    text = PROGRAMS["ops.py"].replace(
        "def who(request) -> str | None:",
        "async def who(request) -> str | None:\n    import asyncio\n    await asyncio.sleep(0)",
    )
    server = serve("ops:app", {"ops.py": text})
    cookie = ask(server.url, "POST", "/sign-in").headers["Set-Cookie"].partition(";")[0]
    assert ask(server.url, "GET", f"{ROOT}/v1/schedules", Cookie=cookie).status == 200


JOBS = """
from django.conf import settings
from matins import Matins
m = Matins(settings.MATINS_URL)
m.people.set("ada", role="owner")
@m.schedule("every hour")
def tidy():
    return "tidied"
"""
SETTINGS = """
MATINS_URL = "sqlite:///matins.db"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.db"}}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "shop"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware"]
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["127.0.0.1"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SECRET_KEY = "of a test"
"""
URLS = """
from django.contrib.auth import get_user_model, login
from django.http import HttpResponse
from django.urls import path

def sign_in(request, name):
    user = get_user_model().objects.get(username=name)
    login(request, user, "django.contrib.auth.backends.ModelBackend")
    return HttpResponse("hello")

urlpatterns = [path("sign-in/<name>", sign_in)]
"""
PEOPLE = """
import django
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
call_command("migrate", verbosity=0)
get_user_model().objects.create_user("ada", is_staff=True)
get_user_model().objects.create_user("eve")
"""


def test_b19_the_page_in_django(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    """B19: Django's own session says who it is; a user who is no member of the staff is not signed in"""
    files = {
        "settings.py": SETTINGS,
        "urls.py": URLS,
        "people.py": PEOPLE,
        "shop/__init__.py": "",
        "shop/jobs.py": JOBS,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings"}
    subprocess.run([sys.executable, "people.py"], cwd=tmp_path, env=environment, check=True, timeout=PATIENCE)
    server = serve("asgi:application", files)
    eve = ask(server.url, "GET", "/sign-in/eve").headers["Set-Cookie"].partition(";")[0]
    assert ask(server.url, "GET", f"{ROOT}/v1/schedules", Cookie=eve).status == 401

    def sign_in(context: Any) -> None:
        assert context.request.get("/sign-in/ada").ok

    close = walk_through(browser, server.url, sign_in, "tidy")
    said = ends(server)
    assert "Application shutdown complete" in said
    assert "Traceback" not in said
    close()


def test_b19_the_page_beside_a_script(tmp_path: Path, browser: Browser) -> None:
    """B19: a link that it prints signs in, once"""
    (tmp_path / "script.py").write_text(PROGRAMS["script.py"], encoding="utf-8")
    process = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, text=True, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        with closing(browser.new_context()) as context:
            page = context.new_page()
            page.goto(link)
            page.get_by_role("button").click()
            expect(page.get_by_role("link", name="Schedules").first).to_be_visible()
        with closing(browser.new_context()) as context:
            page = context.new_page()
            page.goto(link)
            page.get_by_role("button").click()
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


class Found(HTMLParser):
    """The addresses in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [given[name] or "" for name in _ATTRIBUTES if given.get(name)]
        if given.get("http-equiv") == "refresh":
            self.links.append((given["content"] or "").partition("url=")[2])


class InProcess:
    """A FastAPI program in this process, as a server takes it."""

    def __init__(self, app: FastAPI, close: Callable[[], None]) -> None:
        self._app = app
        self.close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def test_b19_no_address_of_the_demonstration_leaves_the_prefix(tmp_path: Path) -> None:
    """B19: every page that can be reached from the first one, with each address in it, and where it leads"""
    m = Matins(f"sqlite:///{tmp_path}/matins.db", home=tmp_path)
    (tmp_path / "matins.yaml").write_text(demo_file(tmp_path), encoding="utf-8")
    m.use_file(tmp_path / "matins.yaml")
    m.file.apply()
    m.people.set("ada", role="owner")
    m.inbound.set("hook", kind="github", secret="env:HOOK")
    m.start()
    for schedule in m.list():
        run = m.run(schedule.name, agent=schedule.agent)
        m.runs.wait(run.id, timeout=20)
    app = FastAPI()
    page = m.asgi(who=lambda request: request.cookies.get("name"))
    app.mount(ROOT, page)
    listening = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = Server(InProcess(app, page.close), listening)
    server.start()
    try:
        seen, outside, kinds = crawl(url)
        assert outside == []
        expected = (
            "/",
            "/schedules",
            "/runs",
            "/approvals",
            "/settings",
            "/events",
            "/agents",
            "/spend",
            "/schedules/new",
        )
        assert {f"{ROOT}{path}" for path in expected} <= seen
        assert len(seen) > 60, sorted(seen)
        assert {"text/html", "text/css", "text/javascript", "font/woff2", "image/svg+xml"} <= kinds
        cookie = "name=ada"
        document = json.loads(ask(url, "GET", f"{ROOT}/openapi.json", Cookie=cookie).text)
        assert document["servers"] == [{"url": ROOT}]
        lost = json.loads(ask(url, "GET", f"{ROOT}/v1/nothing", Cookie=cookie).text)
        assert (lost["status"], lost["instance"]) == (404, f"{ROOT}/v1/nothing")
        assert f"See {ROOT}/openapi.json." in lost["hint"]
        link = m.sessions.create().path or ""
        opened = ask(url, "POST", f"{ROOT}/login", link.partition("?")[2], Origin=url)
        assert (opened.status, opened.headers["Location"]) == (303, f"{ROOT}/")
        assert f"; Path={ROOT};" in opened.headers["Set-Cookie"]
    finally:
        server.stop()
        m.close()


def crawl(url: str) -> tuple[set[str], list[str], set[str]]:
    """The paths that were read, the addresses that lead outside, and the types of what was read."""
    queue, known = deque([f"{ROOT}/"]), {f"{ROOT}/"}
    outside: list[str] = []
    linked: dict[str, str] = {}
    kinds: set[str] = set()
    while queue and len(known) < 2_000:
        path = queue.popleft()
        reply = ask(url, "GET", path, Cookie="name=ada", Accept="text/html,*/*")
        if reply.status != 200:
            outside.append(f"{linked.get(path)}: {path} is {reply.status}")
        kind = reply.headers.get_content_type()
        kinds.add(kind)
        links = [value for name in ("Location", "Content-Location") if (value := reply.headers[name])]
        links += re.findall(r"<([^<>]*)>", reply.headers.get("Link", ""))
        if kind == "text/html":
            links += Found(reply.text).links
        elif kind == "text/css":
            links += re.findall(r"url\(['\"]?([^'\")]+)", reply.text)
        elif kind == "text/javascript":
            links += re.findall(r"(?:from|import)\s*\(?['\"]([./][^'\"]*)['\"]", reply.text)
        for link in links:
            target = urlsplit(urljoin(f"{url}{path}", _METHOD.sub("", link)))
            if target.scheme == "data":
                continue
            if f"{target.scheme}://{target.netloc}" != url or not f"{target.path}/".startswith(f"{ROOT}/"):
                outside.append(f"{path}: {link}")
                continue
            found = f"{target.path}?{target.query}" if target.query else target.path
            if _METHOD.match(link) or "{" in found or "/v1/" in found or "/ui/stream" in found:
                continue  # a call, or one that does not end
            linked.setdefault(found, path)
            if found not in known and sum(1 for one in known if urlsplit(one).path == target.path) < 6:
                known.add(found)
                queue.append(found)
    return {urlsplit(one).path for one in known}, outside, kinds
