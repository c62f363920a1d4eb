"""A real server with the page on a real store, and a browser to see it with."""

from __future__ import annotations

import os
import shutil
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins import Matins
from matins.records.file_settings import HttpServer as HttpSettings
from matins.service.idempotency import IdempotencyStore
from matins.service.sign_in import SessionVerifier
from matins.service.tokens import TokenVerifier
from matins.surfaces.http.app import HttpApp, build_app
from matins.surfaces.http.authentication import COOKIE
from matins.surfaces.http.connections import Connections
from matins.surfaces.http.server import Server, bind
from matins.surfaces.http.server_routes import Health
from matins.web.app import Pages

CHROMIUM = os.environ.get("MATINS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
_WATCH = "addEventListener('securitypolicyviolation', e => console.error('CSP', e.violatedDirective, e.blockedURI))"


def launch(playwright: Playwright) -> Browser:
    assert CHROMIUM, "No Chromium is installed: make .venv/browser installs Debian's."
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


class Mounted:
    """The application below a root, as another one mounts it. Outside there is nothing."""

    def __init__(self, app: HttpApp, root: str) -> None:
        self._app, self._root = app, root
        self.close = app.close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if not scope["path"].startswith(f"{self._root}/"):
            return await Response(b"", 404)(scope, receive, send)
        return await self._app({**scope, "root_path": self._root}, receive, send)


class PageServer:
    def __init__(
        self, url: str, *, start: bool = True, port: int = 0, matins: Matins | None = None, root: str = ""
    ) -> None:
        self.matins = matins or Matins(url)
        self.matins.job("work")(lambda run: None)
        if start:
            self.matins.start()
        store, clock = self.matins.store, self.matins.clock
        self.sessions = SessionVerifier(store, clock)
        listening = bind("127.0.0.1", port)
        self.port = listening.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        app = build_app(
            self.matins,
            TokenVerifier(store, clock),
            IdempotencyStore(store, clock),
            hosts=[self.host],
            origins=[self.url],
            health=Health(self.matins, clock, 30_000),
            sessions=self.sessions,
            parts=[Pages(clock)],
        )
        self.matins.subscribe(lambda event: app.wake())
        self.root = root
        self.server = Server(Mounted(app, root), listening, connections=Connections(HttpSettings()))
        self.server.start()

    def session(self, token_id: str | None = None) -> str:
        """The secret of a new browser session."""
        path = self.matins.sessions.create(token_id=token_id).path
        assert path is not None
        opened = self.sessions.open(path.partition("=")[2])
        assert opened is not None
        return opened.secret

    def close(self) -> None:
        self.server.stop()
        self.matins.close()


class Browsing:
    """A browser context. Any error of a page or its policy is kept, and fails the test."""

    def __init__(self, browser: Browser, server: PageServer, **options: Any) -> None:
        given: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "timezone_id": "Europe/Berlin", **options}
        self.context: BrowserContext = browser.new_context(base_url=server.url, **given)
        self.context.set_default_timeout(30_000)
        self.context.add_init_script(_WATCH)
        self.server = server
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()

    def sign_in(self, token_id: str | None = None) -> Browsing:
        cookie = {"name": COOKIE, "value": self.server.session(token_id), "url": self.server.url, "sameSite": "Strict"}
        zone = {"name": "matins_zone", "value": "Europe%2FBerlin", "url": self.server.url}
        self.context.add_cookies([cookie, zone])  # type: ignore[list-item]
        return self

    def page(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("console", lambda message: self._heard(page.url, message.type, message.text))
        return page

    def _heard(self, url: str, kind: str, text: str) -> None:
        if kind == "error" and not any(part in text for part in self.expected):
            self.problems.append(f"{url}: {text}")

    def close(self) -> None:
        self.context.close()
        assert self.problems == [], self.problems
