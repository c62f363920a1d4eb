"""A principal without rights learns and writes nothing; a client that is slow or endless is cut off."""

from __future__ import annotations

import http.client
import json
import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

from matins.records.file_settings import HttpServer as HttpSettings
from matins.surfaces.http.connections import Connections

GO = threading.Event()
KEY = {"Idempotency-Key": "one"}
WEBHOOK = {"name": "w", "url": "https://example.com/services/KEY"}


def test_what_was_answered_is_only_for_those_who_may_ask(server: HttpServer) -> None:
    """A key of the same name with fewer rights does not get what the other was told."""
    whole, less = server.new_token("owner", "ada"), server.new_token("owner", "ada", rights=["read"])
    assert server.ask("POST", "/v1/webhooks", WEBHOOK, token=whole, headers=KEY).status == 201
    said = server.ask("POST", "/v1/webhooks", WEBHOOK, token=less, headers=KEY)
    assert (said.status, b"services" in said.body) == (403, False)


def test_a_secret_that_cannot_be_used_is_not_repeated(server: HttpServer) -> None:
    """The answer is kept."""
    said = server.ask("POST", "/v1/webhooks", {**WEBHOOK, "secret": ["hunter2"]}, headers=KEY)
    assert (said.status, said.json["field"], b"hunter2" in said.body) == (422, "secret", False)


def test_who_may_not_leaves_nothing_in_the_store(server: HttpServer) -> None:
    viewer = server.new_token("viewer")
    for _ in range(2):
        said = server.ask(
            "POST", "/v1/schedules", {"name": "a", "when": YEARLY, "job": "work"}, token=viewer, headers=KEY
        )
        assert (said.status, said.headers.get("idempotency-replayed")) == (403, None)


def test_a_condition_tells_nobody_what_is_there(server: HttpServer) -> None:
    """Refused alike, whether there is one or not."""
    server.client.agents.set("scout", runner="demo")
    for rights in (["read"], ["run"]):
        token = server.new_token("operator", "ada", rights=rights)
        for name in ("scout", "nobody"):
            said = server.ask("PUT", f"/v1/agents/{name}", {}, token=token, headers={"If-None-Match": "*"})
            assert said.status == 403


def test_much_is_only_taken_in_from_those_who_may(server: HttpServer) -> None:
    """Nobody waits for a body that is refused anyway."""
    viewer = server.new_token("viewer")
    lines = [f"POST /v1/schedules/batch HTTP/1.1\r\nHost: {server.host}", f"Authorization: Bearer {viewer}"]
    said = hung_up(server, "\r\n".join([*lines, "Content-Length: 60000000", "Connection: close", "", ""]).encode())
    assert said.split(b" ")[1] == b"403"


def hung_up(server: HttpServer, *parts: bytes) -> bytes:
    """All that is answered until the server hangs up."""
    said = b""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=90)) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            while part := connection.recv(65536):
                said += part
        except ConnectionError:
            pass  # it did not even wait for the rest
    return said


def head(server: HttpServer, *lines: str) -> bytes:
    return "\r\n".join([f"POST /v1/schedules HTTP/1.1\r\nHost: {server.host}", *lines, ""]).encode()


def test_a_head_without_end_is_cut_off(server: HttpServer) -> None:
    endless = (b"X-Long: " + b"a" * 65_000 if n == 0 else b"a" * 65_000 for n in range(2_000))
    assert hung_up(server, head(server), *endless).split(b" ")[1:2] in ([b"431"], [])


@pytest.mark.parametrize("began", [b"", b"GET /li", b"GET /livez HTTP/1.1\r\nX: "])
def test_a_head_that_does_not_come_is_not_waited_for(make_server: Callable[..., HttpServer], began: bytes) -> None:
    server = make_server(settings=HttpSettings(header_timeout_ms=50))
    assert hung_up(server, *([began] if began else [])) == b""


def test_a_body_that_does_not_come_is_not_waited_for(make_server: Callable[..., HttpServer]) -> None:
    server = make_server(settings=HttpSettings(body_timeout_ms=50))
    said = hung_up(server, head(server, f"Authorization: Bearer {server.token}", "Content-Length: 10", "") + b"{")
    assert (said.split(b" ")[1], b"body_timeout" in said) == (b"408", True)


@pytest.mark.parametrize("part", ["head", "body"])
def test_what_comes_byte_by_byte_is_not_waited_for(make_server: Callable[..., HttpServer], part: str) -> None:
    """The limits are for the whole of it: each byte does not begin them again."""
    server = make_server(settings=HttpSettings(header_timeout_ms=200, body_timeout_ms=200))
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=90)) as connection:
        if part == "head":
            connection.sendall(f"GET /livez HTTP/1.1\r\nHost: {server.host}\r\nX: ".encode())
        else:
            connection.sendall(
                head(server, f"Authorization: Bearer {server.token}", "Content-Length: 99999", "") + b"{"
            )
        connection.settimeout(0.02)
        deadline, answered = time.monotonic() + 60, False
        with suppress(ConnectionError):
            while time.monotonic() < deadline and not answered:
                connection.sendall(b" ")
                with suppress(TimeoutError):
                    answered = connection.recv(65536)[:12] in (b"", b"HTTP/1.1 408")
    assert time.monotonic() < deadline


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_a_client_that_reads_nothing_does_not_keep_its_connection(
    make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    """Neither while a response is sent, nor when it is complete and the connection is to be closed."""
    monkeypatch.setattr("matins.surfaces.http.server._UNREAD_S", 0.1)
    server = make_server()
    server.server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    lines = [f"GET /openapi.json HTTP/1.1\r\nHost: {server.host}", f"Authorization: Bearer {server.token}"]
    text = "\r\n".join([*lines, f"Connection: {connection}", "", ""]).encode()
    with closing(socket.socket()) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(text * 3)
        deadline = time.monotonic() + 60
        while not server.connections._unfinished and not server.connections._count and time.monotonic() < deadline:
            time.sleep(0.01)  # until it is accepted
        while server.connections._count and time.monotonic() < deadline:
            time.sleep(0.01)
    assert time.monotonic() < deadline


def test_a_client_that_reads_slowly_gets_everything(
    make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matins.surfaces.http.server._UNREAD_S", 1.0)
    server = make_server()
    whole = server.ask("GET", "/openapi.json").body
    server.server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    text = head(server, f"Authorization: Bearer {server.token}", "Connection: close", "").replace(
        b"POST /v1/schedules", b"GET /openapi.json"
    )
    said = b""
    with closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(text)
        began = time.monotonic()
        while part := slow.recv(65536):
            said += part
            if time.monotonic() - began < 3.0:  # longer than the limit
                time.sleep(0.05)
    assert said.endswith(whole)


def test_the_token_is_looked_at_before_the_body_is_read(server: HttpServer) -> None:
    """Without it, one is answered at once, and not asked for the rest."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=90)) as connection:
        connection.sendall(head(server, "Content-Length: 10", "Expect: 100-continue", "") + b"{")
        assert connection.recv(65536).split(b" ")[1] == b"401"


def test_a_body_that_nobody_reads_does_not_keep_the_connection(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a body after the response is waited for briefly: a client that writes may not have read yet."""
    monkeypatch.setattr("matins.surfaces.http.server._LINGER_S", 0.05)
    text = f"GET /livez HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 10\r\n\r\nab".encode()
    assert hung_up(server, text).endswith(b"alive\n")


def test_a_head_above_the_limit_is_refused_however_fast_it_comes(server: HttpServer) -> None:
    """In one packet, in one header or in many, and with another request behind it."""
    many = [f"X-{number}: {'a' * 100}" for number in range(700)]
    for lines in (many, ["X: " + "a" * 70_000]):
        said = hung_up(server, head(server, *lines, "", "").replace(b"POST", b"GET") + head(server, "", ""))
        assert (said.split(b" ")[1], said.count(b"HTTP/1.1")) == (b"431", 1)


def begun(server: HttpServer, count: int) -> list[socket.socket]:
    """Connections of 127.0.0.1 with half a request each."""
    found = [socket.create_connection(("127.0.0.1", server.port), timeout=90) for _ in range(count)]
    for each in found:
        with suppress(OSError):
            each.sendall(b"GET /livez HTTP/1.1\r\nX: ")
    return found


def is_refused(connection: socket.socket) -> bool:
    """Whether the server has closed it; one that waits for the rest of the request is not."""
    connection.settimeout(0)
    try:
        said = connection.recv(65536)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    assert said == b"" or said.startswith(b"HTTP/1.1 503")
    return True


def test_requests_that_are_half_sent_are_counted_by_address(make_server: Callable[..., HttpServer]) -> None:
    """Above the limit the oldest makes room: a program that sends nothing does not lock the others out."""
    server = make_server(settings=HttpSettings(max_unfinished_per_address=3))
    connections = begun(server, 10)
    assert server.ask("GET", "/livez").status == 200  # the queue before it is worked off
    assert [is_refused(each) for each in connections] == [True] * 8 + [False] * 2
    connections[9].settimeout(90)
    connections[9].sendall(f"\r\nHost: {server.host}\r\n\r\n".encode())
    assert b"200" in connections[9].recv(65536)
    for each in connections:
        each.close()


def test_connections_are_counted_in_all_and_by_address(make_server: Callable[..., HttpServer]) -> None:
    """Also those that are at rest between two requests; the one that rests longest makes room."""
    settings = HttpSettings(max_connections=20, max_connections_per_address=4)
    server = make_server(settings=settings)
    resting = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=90) for _ in range(4)]
    for each in resting:
        each.request("GET", "/livez")
        each.getresponse().read()
    assert server.ask("GET", "/livez").status == 200
    assert [is_refused(each.sock) for each in resting] == [True] + [False] * 3
    for each in resting:
        each.close()


def test_b16_the_owner_s_commands_work_among_thousands_of_connections(make_server: Callable[..., HttpServer]) -> None:
    """B16: from many addresses of this machine, without a word or with half a request"""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))  # both ends of each are here
    server = make_server()
    found = [
        socket.create_connection(("127.0.0.1", server.port), 90, (f"127.0.0.{2 + number % 8}", 0))
        for number in range(3_000)
    ]
    for each in found[::2]:
        with suppress(OSError):
            each.sendall(b"GET /livez HTTP/1.1\r\nX: ")
    assert [server.ask("GET", "/v1/whoami").status for _ in range(20)] == [200] * 20
    assert not is_refused(found[-1])
    for each in found:
        each.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_is_being_answered_makes_no_room(make_server: Callable[..., HttpServer]) -> None:
    """A stream is followed on; where all are being answered, the next connection is refused."""
    server = make_server(settings=HttpSettings(max_connections_per_address=4))
    streams = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=90) for _ in range(4)]
    for each in streams:
        each.request("GET", "/v1/events/stream", headers={"Authorization": f"Bearer {server.token}"})
        assert each.getresponse().status == 200
    assert hung_up(server).startswith(b"HTTP/1.1 503")
    assert all(each.sock.recv(65536) for each in streams)  # the first event, not the end
    for each in streams:
        each.close()


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Callable[[HttpServer, bytes], socket.socket]:
    """Sends a request to a server that accepts nothing until GO is set, so that others can line up behind it."""

    def send(server: HttpServer, text: bytes) -> socket.socket:
        held, admit = threading.Event(), server.connections.admit
        GO.clear()

        def admit_later(*arguments: Any) -> Any:
            held.set()
            assert GO.wait(90)
            return admit(*arguments)

        monkeypatch.setattr(server.connections, "admit", admit_later)
        first = socket.create_connection(("127.0.0.1", server.port), timeout=90)
        assert held.wait(90)
        first.sendall(text)
        return first

    return send


def test_a_request_whose_connection_made_room_changes_nothing(
    make_server: Callable[..., HttpServer], hold: Callable[[HttpServer, bytes], socket.socket]
) -> None:
    """It had arrived, but was not read yet. Its client gets no answer, so it must be able to send it again."""
    server = make_server(settings=HttpSettings(max_unfinished_per_address=3))
    schedule = {"name": "a", "when": YEARLY, "job": "work"}
    body = json.dumps(schedule).encode()
    lines = ["Content-Type: application/json", f"Content-Length: {len(body)}", f"Authorization: Bearer {server.token}"]
    with closing(hold(server, head(server, *lines, "") + body)) as first:
        others = begun(server, 5)
        GO.set()
        with suppress(ConnectionError):
            assert first.recv(65536) == b""
    for _ in range(10):
        assert server.ask("GET", "/livez").status == 200
    assert server.ask("POST", "/v1/schedules", schedule).status == 201
    for each in others:
        each.close()


def test_b16_a_request_is_read_before_many_later_connections_displace_it(
    make_server: Callable[..., HttpServer], hold: Callable[[HttpServer, bytes], socket.socket]
) -> None:
    """B16: a program that connects again and again would have the owner's requests closed unread"""
    server = make_server(settings=HttpSettings(max_unfinished_per_address=80))
    with closing(hold(server, f"GET /livez HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())) as first:
        others = begun(server, 120)
        GO.set()
        assert b"200" in first.recv(65536)
    for each in others:
        each.close()


def test_a_connection_that_rested_does_not_make_room_first_when_it_sends_again() -> None:
    """It waits from then on, like those that have just begun."""
    closed: list[str] = []
    counted = Connections(HttpSettings(max_connections_per_address=3))
    found = {name: counted.admit("10.1.1.1", partial(closed.append, name)) for name in ("first", "second", "third")}
    for each in found.values():
        assert each is not None
        counted.complete(each)
        counted.rest(each)
    assert found["first"] is not None
    counted.begin(found["first"])
    counted.admit("10.1.1.1")
    counted.admit("10.1.1.1")
    assert closed == ["second", "third"]


def admitted(counted: Connections, address: str) -> bool:
    """Whether a connection of an address is admitted; its request is then being answered."""
    found = counted.admit(address)
    if found is not None:
        counted.complete(found)
    return found is not None


def test_connections_that_are_being_answered_have_limits() -> None:
    """A trusted proxy speaks for many."""
    settings = HttpSettings(max_connections=20, max_connections_per_address=4)
    counted = Connections(replace(settings, trusted_proxies=("10.0.0.0/8",)))
    assert [admitted(counted, "10.1.1.1") for _ in range(21)] == [True] * 20 + [False]
    counted = Connections(settings)
    assert [admitted(counted, "10.1.1.1") for _ in range(5)] == [True] * 4 + [False]
    assert admitted(counted, "10.1.1.2")


def test_the_addresses_of_one_ipv6_network_count_as_one() -> None:
    """H8: one machine has 2**64 of them"""
    counted = Connections(HttpSettings(max_connections_per_address=2))
    first = counted.admit("2001:db8:0:1::1")
    assert first is not None
    counted.complete(first)
    assert [admitted(counted, f"2001:db8:0:1::{n}") for n in (2, 3)] == [True, False]
    assert admitted(counted, "2001:db8:0:2::1")
    counted.close(first)
    counted.close(first)  # it counts once
    assert [admitted(counted, "2001:db8:0:1::9%eth0") for _ in range(2)] == [True, False]


def test_an_ipv4_address_is_the_same_on_a_listener_for_ipv6() -> None:
    """H8: addresses of IPv4 do not count together, and proxies are known"""
    counted = Connections(HttpSettings(max_connections_per_address=1, trusted_proxies=("10.0.0.0/8",)))
    found = [admitted(counted, address) for address in ("192.0.2.1", "::ffff:192.0.2.2", "::ffff:192.0.2.1")]
    assert found == [True, True, False]
    assert [admitted(counted, "::ffff:10.0.0.1") for _ in range(2)] == [True, True]


def chunked(server: HttpServer, token: str) -> bytes:
    lines = [f"Authorization: Bearer {token}", "Content-Type: application/json", "Transfer-Encoding: chunked"]
    return "\r\n".join([f"POST /v1/schedules HTTP/1.1\r\nHost: {server.host}", *lines, "", ""]).encode()


@pytest.mark.parametrize("role", ["owner", "viewer"])
@pytest.mark.parametrize(
    ("begin", "endless"),
    [
        (b"2\r\n{}\r\n0\r\n", b"X-Trailer: " + b"a" * 10_000 + b"\r\n"),
        (b"2\r\n{}\r\n0\r\nX-Trailer: ", b"a" * 10_000),
        (b"2;extension=", b"a" * 10_000),
        (b"", b"1;extension=" + b"a" * 10_000 + b"\r\n \r\n"),
    ],
    ids=["trailers", "trailer", "extension", "extensions"],
)
def test_what_surrounds_a_body_has_an_end(server: HttpServer, role: str, begin: bytes, endless: bytes) -> None:
    """H8: trailers would be kept in memory, also of who may not send the body"""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=90)) as connection:
        connection.sendall(chunked(server, server.new_token(role)) + begin)
        with pytest.raises(ConnectionError):
            connection.sendall(endless * 10_000)


def test_small_chunks_are_taken_and_trailers_are_not(server: HttpServer) -> None:
    """H8: a trailer does not become a header after the headers were checked"""
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"name": "a", "when": "%b"}' % (b" " * 30_000))
    trailers = b"0\r\nIdempotency-Key: one\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=90)) as connection:
        for _ in range(2):
            connection.sendall(chunked(server, server.token) + body + trailers)
            said = connection.recv(65_536)
            assert said.split(b" ")[1] == b"422"
            assert b"idempotency-replayed" not in said.lower()
