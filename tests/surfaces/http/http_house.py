"""A real server on a real store, and ways to ask it."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any, NamedTuple

from matins import JobRun, Matins
from matins.model.principal import OWNER
from matins.ports import Clock
from matins.service.requests import Requests
from matins.service.tokens import Keys
from matins.surfaces.client import Client
from matins.surfaces.http.app import build_app
from matins.surfaces.http.health import Health
from matins.surfaces.http.logins import Logins
from matins.surfaces.http.server import Server, bind
from matins.surfaces.http.stream import Stream

YEARLY = "0 0 1 1 *"


class Said(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class House:
    """`work` does nothing, `block` waits until it may go on."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        start: bool = True,
        most_lag_ms: int = 30_000,
        port: int = 0,
        **options: Any,
    ) -> None:
        self.matins = Matins(url, clock=clock)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.matins.job("work")(lambda run: None)
        self.matins.job("block")(self._block)
        if start:
            self.matins.start()
        self.logins = Logins(self.matins.clock)
        self.token = self.new_token("owner")
        store = self.matins.store
        self.keys = Keys(store, self.matins.clock)
        self.requests = Requests(store, self.matins.clock)
        listening = bind("127.0.0.1", port)
        self.port = listening.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        self.app = build_app(
            self.matins,
            self.keys,
            self.requests,
            hosts=[self.host],
            origins=[self.url],
            health=Health(self.matins, self.matins.clock, most_lag_ms),
            logins=self.logins,
            **options,
        )
        self.stream: Stream = next(r.app for r in self.app.routes if r.path == "/v1/events/stream")  # type: ignore[attr-defined]
        self.server = Server(self.app, listening)
        self.server.start()
        self.client = Client(self.url, self.token)

    def _block(self, run: JobRun) -> None:
        self.begun.set()
        self.go_on.wait(90)

    def new_token(self, role: str, name: str | None = None, **options: Any) -> str:
        return self.matins.call_as(OWNER, "create_token", name or role, role, **options).token

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: dict[str, str] | None = None,
        **more: str,
    ) -> Said:
        """A request of its own connection; `Idempotency_Key="…"` and the like are headers."""
        sent = {name.replace("_", "-"): value for name, value in more.items()} | (headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Said(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def close(self) -> None:
        self.go_on.set()
        self.client.close()
        self.server.stop()
        self.matins.close()
