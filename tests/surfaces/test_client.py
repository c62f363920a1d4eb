"""The Python client: against a server that answers, lies, hangs up, or is not there."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

import matins
from matins import errors
from matins.errors import Conflict, InvalidInput, MatinsError, NotAllowed, NotFound, Stale, StoreUnavailable
from matins.surfaces.client import Client

Answer = Callable[[str], bytes]


class Scripted:
    """Answers one request after the other as it is told, and notes them; b"" hangs up."""

    def __init__(self, *answers: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self._answers = list(answers)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # close() woke it
            self.connections += 1
            with connection, connection.makefile("rb") as file:
                while self._answers and self._take(file):
                    answer = self._answers.pop(0)
                    connection.sendall(answer)
                    if not answer or b"Connection: close" in answer:
                        break

    def _take(self, file: Any) -> bool:
        line = file.readline().decode().strip()
        if not line:
            return False
        headers = dict(iter(lambda: tuple(file.readline().decode().strip().lower().partition(": ")[::2]), ("", "")))
        self.asked.append((line, headers, file.read(int(headers.get("content-length", 0)))))
        return True

    def close(self) -> None:
        """Woken and gone before its number is: a closed socket's number soon belongs to another test."""
        with suppress(OSError):  # nobody listens any more
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(90)
        self._socket.close()
        assert not self._thread.is_alive()


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(*answers: bytes) -> Scripted:
        made.append(Scripted(*answers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def said(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def problem(status: int, code: str, **more: str) -> bytes:
    import orjson

    told = {"detail": f"it is {code}", "code": code, "status": status, **more}
    return said(orjson.dumps(told), f"{status} X")


def test_a_cut_off_post_is_asked_again_with_the_same_key(scripted: Callable[..., Scripted]) -> None:
    server = scripted(b"", b"", said(b'{"id": "1"}'))
    with Client(server.url, "t") as client:
        assert client.add(name="a", when="5m", do="work") == {"id": "1"}
    keys = [headers["idempotency-key"] for _, headers, _ in server.asked]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_posts_have_two_keys(scripted: Callable[..., Scripted]) -> None:
    server = scripted(said(b"{}"), said(b"{}"))
    with Client(server.url) as client:
        client.add(name="a", when="5m", do="work")
        client.add(name="a", when="5m", do="work")
    assert len({headers["idempotency-key"] for _, headers, _ in server.asked}) == 2
    assert server.connections == 1  # it keeps its connection


def test_it_waits_while_its_own_request_is_being_answered(scripted: Callable[..., Scripted]) -> None:
    server = scripted(b"", problem(409, "conflict", field="Idempotency-Key"), said(b'{"id": "1"}'))
    with Client(server.url) as client:
        assert client.add(name="a", when="5m", do="work") == {"id": "1"}


def test_an_edit_is_not_repeated_on_a_new_connection(scripted: Callable[..., Scripted]) -> None:
    """It may have been done: only who looks can tell."""
    server = scripted(b"", said(b"{}"))
    with Client(server.url) as client, pytest.raises(StoreUnavailable, match="No daemon answers"):
        client.edit(name="a", retries=1)
    assert len(server.asked) == 1


@pytest.mark.parametrize("token", ["mtn_abc\n", "mtn_abc\r\nX: y", "mtn_ä"])
def test_a_token_that_no_header_takes_is_not_repeated(token: str) -> None:
    with pytest.raises(InvalidInput, match="The token holds") as refused:
        Client("http://127.0.0.1:1", token)
    assert "abc" not in f"{refused.value} {refused.value.value}"


def test_nobody_there() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen, and nobody else can
        with Client(f"http://127.0.0.1:{silent.getsockname()[1]}") as client:
            with pytest.raises(StoreUnavailable, match="No daemon answers at") as caught:
                client.whoami()
            assert caught.value.hint == "start it: matins up"
            with pytest.raises(StoreUnavailable, match="No daemon answers at"):
                next(client.events())


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
        client.stats()
    assert (type(caught.value), caught.value.message, caught.value.hint) == (kind, f"it is {code}", "so")
    if isinstance(caught.value, InvalidInput):
        assert (caught.value.field, caught.value.value, caught.value.allowed) == ("x", "5", "y")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b""])
def test_a_server_that_is_not_matins(scripted: Callable[..., Scripted], body: bytes) -> None:
    server = scripted(said(body, "502 Bad Gateway"))
    with Client(server.url) as client, pytest.raises(StoreUnavailable, match="not as Matins does"):
        client.stats()


def test_names_stand_whole_in_the_path(scripted: Callable[..., Scripted]) -> None:
    server = scripted(said(b"{}"), said(b'{"items": [], "next": null}'))
    with Client(server.url) as client:
        client.look(name="a/b ?#é", agent=None)
        client.runs(name="x/runs", agent="scout", limit=5)
    lines = [line for line, _, _ in server.asked]
    assert lines[0] == "GET /v1/schedules/a%2Fb%20%3F%23%C3%A9 HTTP/1.1"
    assert lines[1] == "GET /v1/schedules/x%2Fruns/runs?agent=scout&limit=5 HTTP/1.1"


def test_wrong_arguments_are_told_before_anything_is_sent() -> None:
    client = Client("http://127.0.0.1:9")
    for call, match in (
        (lambda: client.look(), '"name" is missing'),
        (lambda: client.call("fly"), 'no use case "fly"'),
        (lambda: client.add(name="a", when="5m", payload=object()), "cannot be said in JSON"),
    ):
        with pytest.raises(InvalidInput, match=match):
            call()
    with pytest.raises(InvalidInput, match="is not an address"):
        Client("127.0.0.1:7411")


def test_events_go_on_after_the_last_one(scripted: Callable[..., Scripted]) -> None:
    """Also after one that only said where one stands; comments are no events."""
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    server = scripted(
        head + b"id: 7\nretry: 1000\n\n: still here\n\n",
        b"",
        head + b'id: 8\nevent: t\ndata: {"id": "8"}\n\nid: 9\nevent: t\ndata: {"id": ',
        b"",
        head + b'id: 9\nevent: t\ndata: {"id": "9"}\n\n',
    )
    client = Client(server.url, "t")
    with closing(client.events(types=["a", "b"])) as events:
        assert [next(events), next(events)] == [{"id": "8"}, {"id": "9"}]
    assert server.asked[0][0] == "GET /v1/events/stream?types=a&types=b HTTP/1.1"
    assert [headers.get("last-event-id") for _, headers, _ in server.asked] == [None, "7", "7", "8", "8"]


def test_the_token_is_not_shown() -> None:
    client = Client("http://127.0.0.1:9", "mtn_secret")
    assert "mtn_secret" not in repr(client) + client.whereabouts + str(vars(type(client)))


def test_it_is_part_of_the_package_and_quick_to_load() -> None:
    """Neither FastAPI nor pydantic are loaded for it."""
    assert matins.Client is Client
    code = (
        "import sys, matins; matins.Client; print([m for m in ('fastapi', 'pydantic', 'uvicorn') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"
