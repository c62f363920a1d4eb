"""A principal without rights learns and writes nothing; a client that is slow or endless is cut off."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import pytest
from http_server import YEARLY, HttpServer

from matins.surfaces.http import endpoint
from matins.surfaces.http.server import _Protocol

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
    assert hung_up(server, head(server), *endless) == b""


@pytest.mark.parametrize("began", [b"", b"GET /li", b"GET /livez HTTP/1.1\r\nX: "])
def test_a_head_that_does_not_come_is_not_waited_for(
    make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch, began: bytes
) -> None:
    monkeypatch.setattr(_Protocol, "head_s", 0.05)
    server = make_server()
    assert hung_up(server, *([began] if began else [])) == b""


def test_a_body_that_does_not_come_is_not_waited_for(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "BODY_TIMEOUT_S", 0.05)
    said = hung_up(server, head(server, "Content-Length: 10", "") + b"{")
    assert (said.split(b" ")[1], b"body_timeout" in said) == (b"408", True)
