"""The Python client: against a server that answers, answers wrongly, closes its connection, or is not there."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest
from scripted_server import Scripted, said

import matins
from matins import errors
from matins.errors import Conflict, InvalidInput, MatinsError, NotAllowed, NotFound, Stale, StoreUnavailable
from matins.surfaces.client import Client
from matins.surfaces.http.connections import REFUSAL

Answer = Callable[[str], bytes]


def problem(status: int, code: str, **more: str) -> bytes:
    document = {"detail": f"it is {code}", "code": code, "status": status, **more}
    return said(orjson.dumps(document), f"{status} X")


TOKEN = said(
    orjson.dumps(
        {
            "id": "1",
            "token": "mtn_x",
            "name": "a",
            "role": "owner",
            "rights": None,
            "created_at": "2026-11-16T09:00:00Z",
            "created_by": "owner",
            "expires_at": None,
        }
    )
)


def test_a_cut_off_post_is_asked_again_with_the_same_key(scripted: Callable[..., Scripted]) -> None:
    """B19"""
    server = scripted(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntr", TOKEN)
    with Client(server.url, "t") as client:
        assert client.tokens.create("a").id == "1"
    keys = [headers["idempotency-key"] for _, headers, _ in server.asked]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert {headers["authorization"] for _, headers, _ in server.asked} == {"bearer t"}


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"ite\r\n16\r\nms": [], "next": null}\r\n0\r\n\r\n',
        b'HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n{"items": [], "next": null}',
    ],
)
def test_answers_of_proxies(scripted: Callable[..., Scripted], answer: bytes) -> None:
    """B19: in chunks, and without a length"""
    server = scripted(answer, said(b'{"items": [], "next": null}'))
    with Client(server.url) as client:
        assert [client.list(), client.list()] == [[], []]


def test_two_posts_have_two_keys(scripted: Callable[..., Scripted]) -> None:
    server = scripted(TOKEN, TOKEN)
    with Client(server.url) as client:
        client.tokens.create("a")
        client.tokens.create("a")
    assert len({headers["idempotency-key"] for _, headers, _ in server.asked}) == 2
    assert server.connections == 1  # it keeps its connection


def test_it_waits_while_its_own_request_is_being_answered(scripted: Callable[..., Scripted]) -> None:
    server = scripted(b"", problem(409, "conflict", field="Idempotency-Key"), TOKEN)
    with Client(server.url) as client:
        assert client.tokens.create("a").id == "1"


def test_an_edit_is_not_repeated_on_a_new_connection(scripted: Callable[..., Scripted]) -> None:
    """It may have been done: only who looks can tell."""
    server = scripted(b"", said(b"{}"))
    with Client(server.url) as client, pytest.raises(StoreUnavailable, match="No daemon answers"):
        client.edit("a", retries=1)
    assert len(server.asked) == 1


@pytest.mark.parametrize("token", ["mtn_abc\n", "mtn_abc\r\nX: y", "mtn_ä"])
def test_a_token_that_no_header_takes_is_not_repeated(token: str) -> None:
    with pytest.raises(InvalidInput, match="The token is malformed") as refused:
        Client("http://127.0.0.1:1", token)
    assert "abc" not in f"{refused.value} {refused.value.value}"


def test_nobody_there() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen, and nobody else can
        with Client(f"http://127.0.0.1:{silent.getsockname()[1]}") as client:
            with pytest.raises(StoreUnavailable, match="No daemon answers at") as caught:
                client.system.whoami()
            assert caught.value.hint == "Start it: matins up"
            with pytest.raises(StoreUnavailable, match="No daemon answers at"):
                next(client.events.follow())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (412, "stale", Stale),
        (403, "not_allowed", NotAllowed),
        (401, "unauthorized", NotAllowed),
        (403, "csrf", NotAllowed),
        (422, "cron_invalid", errors.CronParseError),
        (422, "something_new", InvalidInput),
        (413, "too_large", InvalidInput),
        (503, "store_unavailable", StoreUnavailable),
        (503, "store_busy", errors.StoreBusy),
        (500, "internal", MatinsError),
    ],
)
def test_errors_are_those_that_were_raised(
    scripted: Callable[..., Scripted], status: int, code: str, kind: type[MatinsError]
) -> None:
    server = scripted(problem(status, code, hint="so", field="x", value="5", allowed="y"))
    with Client(server.url) as client, pytest.raises(MatinsError) as caught:
        client.system.stats()
    assert (type(caught.value), caught.value.message, caught.value.hint) == (kind, f"it is {code}", "so")
    if isinstance(caught.value, InvalidInput):
        assert (caught.value.field, caught.value.value, caught.value.allowed) == ("x", "5", "y")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b""])
def test_a_server_that_is_not_matins(scripted: Callable[..., Scripted], body: bytes) -> None:
    server = scripted(said(body, "502 Bad Gateway"))
    with Client(server.url) as client, pytest.raises(StoreUnavailable, match="not as Matins does"):
        client.system.stats()


def test_a_refused_connection_is_told_as_the_daemon_says_it(scripted: Callable[..., Scripted]) -> None:
    """B1: it called the daemon's own answer that of another program"""
    server = scripted(REFUSAL)
    with Client(server.url) as client, pytest.raises(StoreUnavailable, match="has too many connections") as caught:
        client.system.stats()
    assert caught.value.hint == "Try again in a second."


def test_names_are_quoted_in_the_path(scripted: Callable[..., Scripted]) -> None:
    server = scripted(said(b"{}"), said(b'{"items": [], "next": null}'))
    with Client(server.url) as client:
        client.document("schedules.get", name="a/b ?#é", agent=None)
        assert client.runs.list(schedule="x/runs", agent="scout", limit=5) == []
    lines = [line for line, _, _ in server.asked]
    assert lines[0] == "GET /v1/schedules/a%2Fb%20%3F%23%C3%A9 HTTP/1.1"
    assert lines[1] == "GET /v1/runs?schedule=x%2Fruns&agent=scout&limit=5 HTTP/1.1"


def test_arguments_are_written_as_json(scripted: Callable[..., Scripted]) -> None:
    """Instants, sets, tuples, triggers and paths too; None in an edit resets a setting"""
    server = scripted(*[said(b"{}")] * 3, said(b'{"items": [], "next": null}'))
    at = datetime(2026, 11, 16, 9, tzinfo=timezone(timedelta(hours=1)))
    with Client(server.url) as client:
        client.document("schedules.edit", name="a", if_rev=3, retries=None, approvers={"ada"}, ends_at=at)
        client.document("schedules.add", when=matins.parse_trigger("0 9 * * *"), job="work", payload=[1, None])
        client.document("system.backup", path=Path("/tmp/x"))
        client.events.list(types=("a", "b"), after=7)
    first, second, third, fourth = server.asked
    assert (first[0], first[1]["if-match"]) == ("PATCH /v1/schedules/a HTTP/1.1", '"3"')
    assert orjson.loads(first[2]) == {"retries": None, "approvers": ["ada"], "ends_at": "2026-11-16T09:00:00+01:00"}
    assert orjson.loads(second[2])["when"]["kind"] == "cron"
    assert orjson.loads(second[2])["payload"] == [1, None]
    assert orjson.loads(third[2]) == {"path": "/tmp/x"}
    assert fourth[0] == "GET /v1/events?types=a&types=b&after=7 HTTP/1.1"


def test_wrong_arguments_are_refused_before_anything_is_sent() -> None:
    client = Client("http://127.0.0.1:9")
    calls: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: client.document("schedules.get"), '"name" is missing'),
        (lambda: client.document("fly"), 'no use case "fly"'),
        (lambda: client.add("a", when="5m", payload=object()), "which JSON does not have"),
        (lambda: client.document("schedules.edit", name="a", labels=object()), "cannot be written as JSON"),
        (lambda: client.get("\ud800"), "not valid Unicode"),
    )
    for call, match in calls:
        with pytest.raises(InvalidInput, match=match):
            call()
    with pytest.raises(InvalidInput, match="is not a URL of a daemon"):
        Client("127.0.0.1:7411")


def test_a_server_of_another_version_is_an_error_of_its_own(scripted: Callable[..., Scripted]) -> None:
    """Not a traceback of the decoder"""
    server = scripted(said(b'{"role": "owner"}'))
    with Client(server.url) as client, pytest.raises(StoreUnavailable, match="cannot be read") as caught:
        client.system.whoami()
    assert caught.value.hint == "Use the same version of Matins on both sides."


def frame(number: int) -> bytes:
    names = ("schedule_id", "schedule", "agent", "run_id")
    event = {"id": str(number), "at": "2026-11-16T09:00:00Z", "type": "t", **dict.fromkeys(names), "data": {}}
    return b"id: %d\nevent: t\ndata: %b\n\n" % (number, orjson.dumps(event))


def test_events_go_on_after_the_last_one(scripted: Callable[..., Scripted]) -> None:
    """Also after a frame that has a position only; comments are no events."""
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    server = scripted(
        head + b"id: 7\nretry: 1000\n\n: still here\n\n",
        b"",
        head + frame(8) + frame(9)[:30],
        b"",
        head + frame(9),
    )
    client = Client(server.url, "t")
    with closing(client.events.follow(types=["a", "b"])) as events:  # type: ignore[type-var]
        assert [next(events).id, next(events).id] == ["8", "9"]
    assert server.asked[0][0] == "GET /v1/events/stream?types=a&types=b HTTP/1.1"
    assert [headers.get("last-event-id") for _, headers, _ in server.asked] == [None, "7", "7", "8", "8"]


def test_a_listener_that_takes_its_time_is_not_a_silent_daemon(
    scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7: the daemon cuts off who does not read, who then goes on"""
    head, now = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", [1_000.0]
    monkeypatch.setattr("matins.surfaces.transports.http_client.time.monotonic", lambda: now[0])
    server = scripted(head + frame(8), b"", head + frame(9))
    with closing(Client(server.url, "t").events.follow()) as events:  # type: ignore[type-var]
        assert next(events).id == "8"
        now[0] += 600
        assert next(events).id == "9"


def test_the_token_is_not_shown() -> None:
    client = Client("http://127.0.0.1:9", "mtn_secret")
    assert "mtn_secret" not in repr(client) + client.url + repr(client._http) + client._http.described


def test_it_is_part_of_the_package_and_quick_to_load() -> None:
    """Neither a server nor the service is loaded for it."""
    assert matins.Client is Client
    heavy = ("starlette", "pydantic", "uvicorn", "msgspec", "matins.service", "matins.store", "matins.runtime")
    code = f"import sys, matins; matins.Client; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"
