"""The page below a root, as where another application mounts it: every address stays there."""

from __future__ import annotations

import http.client
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Browser, expect
from scene import fill, more_views, views

from matins.surfaces.http.authentication import COOKIE

ROOT = "/matins"
_ATTRIBUTES = ("href", "action", "src", "hx-get", "data-to", "data-call")
_BELOW = re.compile(rf"(?:(?:POST|PATCH|DELETE|PUT|PATCH) )?{ROOT}(?:/.*)?|#.*")
"""An address below the root, or a place on the same page."""


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str


class Found(HTMLParser):
    """The addresses in a page, by attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [(name, value) for name, value in attrs if name in _ATTRIBUTES and value]
        given = dict(attrs)
        if given.get("http-equiv") == "refresh":
            self.addresses.append(("refresh", (given["content"] or "").partition("url=")[2]))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PageServer, dict[str, str]]]:
    server = PageServer(f"sqlite:///{tmp_path_factory.mktemp('page')}/matins.db", root=ROOT)
    yield server, fill(server)
    server.close()


def ask(server: PageServer, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(server.host, timeout=90)) as connection:
        connection.request(method, f"{ROOT}{path}", body, {"Accept": "text/html", **given})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read().decode())


def test_no_address_of_a_view_leaves_the_root(scene: tuple[PageServer, dict[str, str]]) -> None:
    server, started = scene
    cookie = f"{COOKIE}={server.session()}"
    parts = ["/ui/palette?q=re", "/ui/reads?when=every+day", f"/ui/output/{started['report']}"]
    counts, outside = Counter[str](), list[str]()
    for path in [*views(started), *more_views(started), *parts, "/nothing"]:
        answer = ask(server, "GET", path, Cookie=cookie)
        assert answer.status == (404 if path == "/nothing" else 200), path
        found = Found(answer.text).addresses
        counts.update(name for name, _ in found)
        outside += [f"{path}: {name}={value}" for name, value in found if not _BELOW.fullmatch(value)]
    assert outside == []
    assert all(counts[name] for name in _ATTRIBUTES), counts


def test_sign_in_stays_below_the_root(scene: tuple[PageServer, dict[str, str]]) -> None:
    """The page that asks for itself again, the form, where it leads, and the cookie."""
    server, _ = scene
    link = server.matins.sessions.create().path
    assert link is not None
    for path in ("/schedules", link):
        found = Found(ask(server, "GET", path).text).addresses
        assert {name for name, _ in found} & {"refresh", "action"}, path
        assert [value for _, value in found if not _BELOW.fullmatch(value)] == [], path
    form = "application/x-www-form-urlencoded"
    refused = ask(server, "POST", "/login", "code=x", Content_Type=form)
    assert refused.status == 403
    assert [value for _, value in Found(refused.text).addresses if not _BELOW.fullmatch(value)] == []
    opened = ask(server, "POST", "/login", link.partition("?")[2], Content_Type=form)
    assert (opened.status, opened.headers["Location"]) == (303, f"{ROOT}/")
    assert f"; Path={ROOT};" in opened.headers["Set-Cookie"]


def test_the_api_names_addresses_below_the_root(scene: tuple[PageServer, dict[str, str]]) -> None:
    server, _ = scene
    token = f"Bearer {server.matins.tokens.create('owner').token}"
    listed = ask(server, "GET", "/v1/schedules?limit=1", Authorization=token)
    assert listed.headers["Link"].startswith(f"<{ROOT}/v1/schedules?")
    body = '{"name": "located", "when": "0 0 1 1 *", "job": "work"}'
    made = ask(server, "POST", "/v1/schedules", body, Authorization=token, Content_Type="application/json")
    assert (made.status, made.headers["Location"]) == (201, f"{ROOT}/v1/schedules/located")


def test_scripts_stay_below_the_root(scene: tuple[PageServer, dict[str, str]], browser: Browser) -> None:
    """Keys, the palette, the form with its preview, a run that is followed, the stream, and actions on many."""
    server, _ = scene
    browsing = Browsing(browser, server).sign_in()
    page, asked = browsing.page(), set[str]()
    page.on("request", lambda request: asked.add(urlsplit(request.url).path))
    page.goto(f"{ROOT}/")
    page.keyboard.press("c")
    page.wait_for_url(f"**{ROOT}/schedules/new")
    page.get_by_label("When", exact=True).fill("0 0 1 1 *")
    page.get_by_label("Agent to wake").select_option("demo")
    page.get_by_label("Name (empty: from the prompt)").fill("rooted")
    page.locator("textarea[name=prompt]").fill("Say what day it is")
    expect(page.locator("#prev .fire-list li")).to_have_count(5)
    page.get_by_role("button", name="Create schedule").click()
    page.wait_for_url(f"**{ROOT}/schedules/demo/rooted")
    page.get_by_role("button", name="Run now").click()
    page.wait_for_url(f"**{ROOT}/runs/*")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("rooted")
    expect(page.get_by_role("option", name="demo/rooted active", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{ROOT}/schedules/demo/rooted")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url(f"**{ROOT}/schedules")
    page.get_by_role("checkbox", name="Select demo/rooted").check()
    page.get_by_role("region", name="Selected schedules").get_by_role("button", name="Run now").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator("#toast")).to_have_text("1 done.")
    assert {path for path in asked if not path.startswith(f"{ROOT}/")} == set()
    expected = ("/ui/stream", "/ui/palette", "/ui/reads", "/v1/schedules", "/v1/schedules/demo/rooted/run")
    assert {f"{ROOT}{path}" for path in expected} <= asked
    browsing.close()
