"""A daemon's API around a bench, for a command line that asks over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from matins.service.idempotency import IdempotencyStore
from matins.service.sign_in import SessionVerifier
from matins.service.tokens import TokenVerifier
from matins.surfaces.http.app import build_app
from matins.surfaces.http.server import Server, bind
from matins.surfaces.http.server_routes import Health
from matins.surfaces.transports.http_client import Http
from matins.testing import Sandbox


@contextmanager
def served(bench: Sandbox) -> Iterator[Http]:
    """Its owner's way to it. The token leaves its trace in the events."""
    listening = bind("127.0.0.1", 0)
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    app = build_app(
        bench,
        TokenVerifier(bench.store, bench.clock),
        IdempotencyStore(bench.store, bench.clock),
        hosts=[host],
        origins=[f"http://{host}"],
        health=Health(bench, bench.clock, 30_000),
        sessions=SessionVerifier(bench.store, bench.clock),
    )
    server = Server(app, listening)
    server.start()
    token = bench.tokens.create("owner").token
    transport = Http(f"http://{host}", token)
    yield transport
    transport.close()
    server.stop()
