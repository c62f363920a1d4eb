"""Short reads are answered by the event loop itself. They show what is committed, to whom it may be shown."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

from http_server import YEARLY, HttpServer

from matins.surfaces.http.app import THREADS
from matins.surfaces.http.endpoint import Endpoint

PATH = "/v1/schedules/report"


def endpoint(server: HttpServer) -> Endpoint:
    found = next(route.app for route in server.app.routes if route.path == "/v1/schedules/{name:path}")
    assert isinstance(found, Endpoint)
    return found


def test_a_short_read_needs_no_thread_of_the_pool(server: HttpServer) -> None:
    server.matins.add("report", when=YEARLY, job="work")
    assert server.ask("GET", PATH).status == 200  # the first use of a token in a minute is written, in the pool
    go_on = threading.Event()
    waiting = [endpoint(server)._context.pool.submit(go_on.wait, 60) for _ in range(THREADS)]
    try:
        assert server.ask("GET", PATH).json["name"] == "report"
    finally:
        go_on.set()
    assert all(each.result() for each in waiting)


def test_a_change_of_another_process_is_read_at_once(server: HttpServer) -> None:
    server.matins.add("report", when=YEARLY, job="work")
    assert server.ask("GET", PATH).json["note"] is None
    statement = "UPDATE schedules SET note = 'by another process' WHERE name = 'report'"
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
    subprocess.run([sys.executable, "-c", program, str(server.matins.store.path), statement], check=True)
    assert server.ask("GET", PATH).json["note"] == "by another process"


def test_a_change_of_another_server_is_read_at_once(postgres_url: str, make_server: Callable[..., HttpServer]) -> None:
    one, other = make_server(postgres_url), make_server(postgres_url, start=False)
    one.matins.add("report", when=YEARLY, job="work")
    for note in ("first", "second"):
        other.matins.pause("report", note=note)
        assert one.ask("GET", PATH).json["note"] == note
        other.matins.resume("report")
        assert one.ask("GET", PATH).json["state"] == "active"


def test_a_revoked_token_reads_nothing_more(each_server: HttpServer) -> None:
    each_server.matins.add("report", when=YEARLY, job="work")
    token = each_server.new_token("viewer")
    (mine,) = [each.id for each in each_server.matins.tokens.list() if each.name == "viewer"]
    assert each_server.ask("GET", PATH, token=token).status == 200
    assert each_server.ask("GET", PATH, token=token).status == 200
    each_server.matins.tokens.revoke(mine)
    assert each_server.ask("GET", PATH, token=token).status == 401


def test_each_principal_sees_its_own_view(make_server: Callable[..., HttpServer]) -> None:
    """The owner and a limited agent ask in turn: the content is the owner's only."""
    server = make_server()
    server.matins.agents.set("scout", runner="demo")
    server.matins.agent_rules.set("scout", sees="own")
    server.matins.add("report", when=YEARLY, job="work", description="a secret plan")
    agent = server.new_token("agent", "scout")
    no_rights = server.new_token("operator", "blind", rights=["run"])
    for _ in range(3):
        assert server.ask("GET", PATH).json["description"] == "a secret plan"
        seen = server.ask("GET", PATH, token=agent)
        assert (seen.status, seen.json["description"]) == (200, None)
        assert server.ask("GET", PATH, token=no_rights).status == 403
