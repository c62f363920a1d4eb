"""A real server on a real store, and ways to call it."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any, NamedTuple

from matins import JobContext, Matins
from matins.model.clock import Clock
from matins.records.file_settings import HttpServer as HttpSettings
from matins.service.calls import InboundReceiver
from matins.service.idempotency import IdempotencyStore
from matins.service.sign_in import SessionVerifier
from matins.service.tokens import TokenVerifier
from matins.surfaces.client import Client
from matins.surfaces.http.app import build_app
from matins.surfaces.http.connections import Connections
from matins.surfaces.http.server import Server, bind
from matins.surfaces.http.server_routes import Health

YEARLY = "0 0 1 1 *"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class HttpServer:
    """`work` does nothing, `block` waits until it may go on."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        start: bool = True,
        max_lag_ms: int = 30_000,
        port: int = 0,
        token: str | None = None,
        inbound: bool = False,
        settings: HttpSettings | None = None,
        **options: Any,
    ) -> None:
        self.closed = False
        self.matins = Matins(url, clock=clock)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.matins.job("work")(lambda run: None)
        self.matins.job("block")(self._block)
        if start:
            self.matins.start()
        self.token = token or self.new_token("owner")
        store, clock = self.matins.store, self.matins.clock
        self.idempotency = IdempotencyStore(store, clock)
        listening = bind("127.0.0.1", port)
        self.port = listening.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        self.health = Health(self.matins, clock, max_lag_ms)
        self.app = build_app(
            self.matins,
            TokenVerifier(store, clock),
            self.idempotency,
            hosts=[self.host],
            origins=[self.url],
            health=self.health,
            sessions=SessionVerifier(store, clock),
            inbound=InboundReceiver(self.matins, store, clock) if inbound else None,
            settings=settings,
            **options,
        )
        self.connections = Connections(settings or HttpSettings())
        self.server = Server(self.app, listening, connections=self.connections)
        self.server.start()
        self.client = Client(self.url, self.token)

    def _block(self, run: JobContext) -> None:
        self.begun.set()
        self.go_on.wait(90)

    def new_token(self, role: str, name: str | None = None, **options: Any) -> str:
        return self.matins.tokens.create(name or role, role=role, **options).token

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: dict[str, str] | None = None,
        **more: str,
    ) -> Reply:
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
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def close(self) -> None:
        """Once is enough."""
        if self.closed:
            return
        self.closed = True
        self.go_on.set()
        self.client.close()
        self.server.stop()
        self.matins.close()
