"""A daemon's API around a bench, for a command line that asks over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from matins.model.principal import OWNER
from matins.service.requests import Requests
from matins.service.tokens import Keys
from matins.surfaces.client import Client
from matins.surfaces.http.app import build_app
from matins.surfaces.http.health import Health
from matins.surfaces.http.logins import Logins
from matins.surfaces.http.server import Server, bind
from matins.testing import Bench


@contextmanager
def served(bench: Bench) -> Iterator[Client]:
    """Its owner's client. The token leaves its trace in the events."""
    listening = bind("127.0.0.1", 0)
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    app = build_app(
        bench,
        Keys(bench.store, bench.clock),
        Requests(bench.store, bench.clock),
        hosts=[host],
        origins=[f"http://{host}"],
        health=Health(bench, bench.clock, 30_000),
        logins=Logins(bench.clock),
    )
    server = Server(app, listening)
    server.start()
    token = bench.call_as(OWNER, "create_token", "owner", "owner").token
    with Client(f"http://{host}", token) as client:
        yield client
    server.stop()
