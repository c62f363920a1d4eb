"""Events as they happen: nothing lost, nothing twice, whoever listens and however slowly."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

from matins.errors import StoreUnavailable
from matins.records.file_settings import HttpServer as HttpSettings
from matins.surfaces.client import Client
from matins.surfaces.http.server import bind
from matins.surfaces.http.stream import Feed


@contextmanager
def listening(server: HttpServer, query: str = "", **headers: str) -> Generator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    sent = {"Authorization": f"Bearer {server.token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    with closing(connection):
        connection.request("GET", f"/v1/events/stream{query}", headers=sent)
        yield connection.getresponse()


def lines(response: http.client.HTTPResponse) -> list[str]:
    """Up to the next empty line."""
    found: list[str] = []
    while line := response.readline().decode().rstrip("\n"):
        found.append(line)
    return found


def add(server: HttpServer, *names: str) -> None:
    for name in names:
        server.client.add(name=name, when=YEARLY, job="work")


def names(server: HttpServer, count: int, **options: Any) -> list[str]:
    with closing(server.client.events.follow(**options)) as events:
        return [next(events).data["name"] for _ in range(count)]


def test_the_form_of_the_stream(server: HttpServer) -> None:
    with listening(server) as response:
        assert (response.status, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert response.headers["cache-control"] == "no-store"
        begin = lines(response)
        assert [begin[0].split(":")[0], begin[1]] == ["id", "retry: 1000"]
        add(server, "a")
        event = lines(response)
        assert (event[1], event[2][:6]) == ("event: schedule.created", "data: ")
        assert int(event[0].removeprefix("id: ")) > int(begin[0].removeprefix("id: "))


def test_from_the_last_event_on(each_server: HttpServer) -> None:
    """By Last-Event-ID, or by `after`; what has happened since comes first, then what happens."""
    server = each_server
    add(server, "a", "b", "c")
    with closing(server.client.events.follow(after="0", types="schedule.created")) as events:
        ids = [next(events).id for _ in range(3)]  # on PostgreSQL they come when no older transaction is open
    with listening(server, "?types=schedule.created", Last_Event_ID=ids[0]) as response:
        lines(response)
        assert [lines(response)[0], lines(response)[0]] == [f"id: {ids[1]}", f"id: {ids[2]}"]
        add(server, "d")
        assert '"name":"d"' in lines(response)[2]
    assert names(server, 2, after=ids[1], types="schedule.created") == ["c", "d"]


def test_only_the_types_that_are_wanted(server: HttpServer) -> None:
    """By our names, and by those of other systems."""
    with listening(server, "?types=schedule.paused,schedule:created&types=schedule.resumed") as response:
        lines(response)
        add(server, "a")
        server.client.pause(name="a")
        server.client.edit(name="a", retries=1)
        server.client.resume(name="a")
        told = [lines(response)[1] for _ in range(3)]
    assert told == ["event: schedule.created", "event: schedule.paused", "event: schedule.resumed"]


def test_more_than_a_page_has_happened(server: HttpServer) -> None:
    """Catching up takes several pages, and joins what happens meanwhile."""
    many = [f"s{n}" for n in range(1_300)]
    server.client.add_many(schedules=[{"name": name, "when": YEARLY, "job": "work"} for name in many])
    with closing(server.client.events.follow(after="0", types="schedule.created")) as events:
        first = [next(events).data["name"] for _ in range(700)]
        add(server, "later")
        assert first + [next(events).data["name"] for _ in range(601)] == [*many, "later"]


def test_a_heartbeat_while_nothing_happens(make_server: Callable[..., HttpServer]) -> None:
    server = make_server(heartbeat_s=0.05)
    with listening(server) as response:
        lines(response)
        assert [lines(response), lines(response)] == [[": still here"], [": still here"]]


def test_a_listener_whose_token_is_revoked_is_sent_away_at_once(each_server: HttpServer) -> None:
    """Long before the next heartbeat, whatever types it wants."""
    server = each_server
    made = server.client.tokens.create(name="short", role="viewer")
    with listening(server, "?types=run.failed", Authorization=f"Bearer {made.token}") as response:
        lines(response)
        server.client.tokens.revoke(token_id=made.id)
        with pytest.raises(http.client.IncompleteRead):
            response.read()


def test_a_revoked_token_is_sent_away_also_while_much_happens(make_server: Callable[..., HttpServer]) -> None:
    """Nothing that happened after the revocation is sent."""
    server = make_server()
    made = server.client.tokens.create(name="short", role="viewer")
    with listening(server, "?types=schedule.created", Authorization=f"Bearer {made.token}") as response:
        lines(response)
        server.client.tokens.revoke(token_id=made.id)
        add(server, *(f"n{number}" for number in range(100)), "last")
        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
    assert cut.value.partial == b""


def test_a_token_follows_only_so_many_streams(make_server: Callable[..., HttpServer]) -> None:
    """Another token may still; when one ends, there is room again."""
    server = make_server(settings=HttpSettings(max_streams_per_token=2))
    other = server.new_token("viewer", "other")
    with listening(server), listening(server) as second:
        refused = server.ask("GET", "/v1/events/stream")
        assert (refused.status, refused.json["code"]) == (429, "too_many_streams")
        with listening(server, Authorization=f"Bearer {other}") as third:
            assert (second.status, third.status) == (200, 200)
    while server.app.stream.feed._listeners:
        threading.Event().wait(0.01)
    with listening(server) as again:
        assert again.status == 200


@pytest.mark.parametrize("query", ["?after=abc", "?after=-1", "?types=nothing", "?other=1", "?types="])
def test_nonsense_is_refused_before_it_begins(server: HttpServer, query: str) -> None:
    assert server.ask("GET", f"/v1/events/stream{query}").status == 422
    assert server.ask("GET", "/v1/events/stream", token=None).status == 401


def test_streams_end_when_the_server_stops(make_server: Callable[..., HttpServer]) -> None:
    server = make_server()
    with listening(server) as response:
        lines(response)
        server.close()
        assert response.read() == b""


def free_port() -> int:
    """Not one of those that the system gives to whoever asks: nobody takes it while nobody listens."""
    for port in range(20_000 + os.getpid() % 5_000, 30_000):
        with suppress(OSError), bind("127.0.0.1", port):
            return port
    raise AssertionError("there is none")


def test_the_client_goes_on_where_it_stood_after_a_restart(make_server: Callable[..., HttpServer]) -> None:
    """Also when it was cut off before the first event, and things happened while nobody answered."""
    server = make_server(port=free_port())
    add(server, "before")
    client = Client(server.url, server.token)
    told: list[str] = []
    there, done = threading.Event(), threading.Event()

    def listen() -> None:
        with closing(client.events.follow(types="schedule.created")) as events:
            for event in events:
                told.append(event.data["name"])
                if len(told) == 3:
                    break
        done.set()

    thread = threading.Thread(target=listen)
    thread.start()
    while not server.app.stream.feed._listeners:
        there.wait(0.01)
    port = server.port
    server.close()
    again = make_server(port=port)
    add(again, "a", "b", "c")
    assert done.wait(90)
    thread.join()
    again.close()
    assert told == ["a", "b", "c"]


def test_the_client_gives_up_a_daemon_that_accepts_and_says_nothing(
    make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that hangs, or another program on its port: not thirty times the silence of a heartbeat."""
    monkeypatch.setattr("matins.surfaces.transports.http_client.SILENCE_S", 3.0)
    monkeypatch.setattr("matins.surfaces.transports.http_client._MAX_SILENCE_S", 5.0)
    server = make_server(port=free_port(), heartbeat_s=0.05)
    port, client = server.port, Client(server.url, server.token)
    add(server, "a")
    events = client.events.follow(after="0", types="schedule.created")
    assert next(events).schedule == "a"
    server.close()
    with bind("127.0.0.1", port) as silent, closing(client):
        with pytest.raises(StoreUnavailable):
            next(events)
        silent.setblocking(False)
        accepted = []
        with suppress(BlockingIOError):
            while True:
                accepted.append(silent.accept()[0])
        assert 1 <= len(accepted) <= 5
        for each in accepted:
            each.close()


def test_followers_of_a_daemon_that_was_stopped_end_soon(
    make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7"""
    monkeypatch.setattr("matins.surfaces.transports.http_client._MAX_ABSENCE_S", 0.5)
    server = make_server(port=free_port())
    add(server, "a")
    with closing(Client(server.url, server.token)) as client:
        events = client.events.follow(after="0", types="schedule.created")
        assert next(events).schedule == "a"
        server.close()
        with pytest.raises(StoreUnavailable, match="has stopped"):
            next(events)


def test_a_hundred_listeners_cost_one_look(
    make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they are told is read and written out once."""
    server = make_server(settings=HttpSettings(max_streams_per_token=100))
    looks: list[int] = []
    read = server.app.stream.feed._read

    async def counted(after: int | None, limit: int, types: tuple[str, ...]) -> list[dict[str, Any]]:
        events = await read(after, limit, types)
        looks.append(len(events))
        return events

    monkeypatch.setattr(server.app.stream.feed, "_read", counted)
    sockets = [socket.create_connection(("127.0.0.1", server.port), timeout=90) for _ in range(100)]
    headers = f"Host: {server.host}\r\nAuthorization: Bearer {server.token}\r\n"
    for each in sockets:
        each.sendall(f"GET /v1/events/stream HTTP/1.1\r\n{headers}\r\n".encode())
    files = [each.makefile("rb") for each in sockets]
    for file in files:
        while not file.readline().startswith(b"retry"):
            pass
    add(server, "a")
    for file in files:
        while b"schedule.created" not in file.readline():
            pass
    assert [count for count in looks if count] == [1, 1]  # where it begins, and what happened
    for file, each in zip(files, sockets, strict=True):
        file.close()
        each.close()


class Shelf:
    """Events without a store."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def happen(self, count: int) -> None:
        start = len(self.events) + 1
        self.events += [{"id": str(n), "type": "t" if n % 2 else "u"} for n in range(start, start + count)]

    async def read(self, after: int | None, limit: int, types: tuple[str, ...]) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        found = [
            e for e in self.events if (after is None or int(e["id"]) > after) and (not types or e["type"] in types)
        ]
        return found[-limit:] if after is None else found[:limit]


def test_who_cannot_keep_up_reads_again_and_loses_nothing() -> None:
    """Memory is bounded: what has not been fetched is forgotten, and read from the store later."""

    async def scene() -> None:
        shelf = Shelf()
        shelf.happen(10)
        feed = Feed(shelf.read, poll_s=0.001)
        slow, quick = await feed.listen(None, ()), await feed.listen(None, ("t",))
        told: list[int] = []
        for _ in range(20):
            shelf.happen(450)
            while feed._head < len(shelf.events):
                await asyncio.sleep(0)
            told += [frame.number for frame in quick.take()]
        assert told == [n for n in range(11, 9_011) if n % 2]
        assert slow.behind
        assert len(slow._waiting) <= 2_000
        caught: list[int] = []
        async for frames in feed.frames(slow, shelf.read, 1.0):
            caught += [frame.number for frame in frames]
            if len(caught) >= 9_000:
                break
        assert caught == list(range(11, 9_011))
        feed.leave(slow)
        feed.leave(quick)

    asyncio.run(scene())
