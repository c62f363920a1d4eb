"""Whoever may not, learns and writes nothing; whoever is slow or endless is hung up on."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest
from http_house import YEARLY, House

from matins.surfaces.http import answers, server

KEY = {"Idempotency-Key": "one"}
WEBHOOK = {"name": "w", "url": "https://example.com/services/KEY"}


def test_what_was_answered_is_only_for_those_who_may_ask(house: House) -> None:
    """A key of the same name with fewer rights does not get what the other was told."""
    whole, less = house.new_token("owner", "ada"), house.new_token("owner", "ada", rights=["read"])
    assert house.ask("POST", "/v1/webhooks", WEBHOOK, token=whole, headers=KEY).status == 201
    said = house.ask("POST", "/v1/webhooks", WEBHOOK, token=less, headers=KEY)
    assert (said.status, b"services" in said.body) == (403, False)


def test_a_secret_that_cannot_be_used_is_not_repeated(house: House) -> None:
    """The answer is kept."""
    said = house.ask("POST", "/v1/webhooks", {**WEBHOOK, "secret": ["hunter2"]}, headers=KEY)
    assert (said.status, said.json["field"], b"hunter2" in said.body) == (422, "secret", False)


def test_who_may_not_leaves_nothing_in_the_store(house: House) -> None:
    viewer = house.new_token("viewer")
    for _ in range(2):
        said = house.ask(
            "POST", "/v1/schedules", {"name": "a", "when": YEARLY, "do": "work"}, token=viewer, headers=KEY
        )
        assert (said.status, said.headers.get("idempotency-replayed")) == (403, None)


def test_a_condition_tells_nobody_what_is_there(house: House) -> None:
    """Refused alike, whether there is one or not."""
    house.client.set_agent(name="scout", runner="demo")
    for rights in (["read"], ["run"]):
        token = house.new_token("operator", "ada", rights=rights)
        for name in ("scout", "nobody"):
            said = house.ask("PUT", f"/v1/agents/{name}", {}, token=token, headers={"If-None-Match": "*"})
            assert said.status == 403


def test_much_is_only_taken_in_from_those_who_may(house: House) -> None:
    """Nobody waits for a body that is refused anyway."""
    viewer = house.new_token("viewer")
    lines = [f"POST /v1/schedules/batch HTTP/1.1\r\nHost: {house.host}", f"Authorization: Bearer {viewer}"]
    said = hung_up(house, "\r\n".join([*lines, "Content-Length: 60000000", "Connection: close", "", ""]).encode())
    assert said.split(b" ")[1] == b"403"


def hung_up(house: House, *parts: bytes) -> bytes:
    """All that is answered until the server hangs up."""
    said = b""
    with closing(socket.create_connection(("127.0.0.1", house.port), timeout=90)) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            while part := connection.recv(65536):
                said += part
        except ConnectionError:
            pass  # it did not even wait for the rest
    return said


def head(house: House, *lines: str) -> bytes:
    return "\r\n".join([f"POST /v1/schedules HTTP/1.1\r\nHost: {house.host}", *lines, ""]).encode()


def test_a_head_without_end_is_cut_off(house: House) -> None:
    endless = (b"X-Long: " + b"a" * 65_000 if n == 0 else b"a" * 65_000 for n in range(2_000))
    assert hung_up(house, head(house), *endless) == b""


@pytest.mark.parametrize("began", [b"", b"GET /li", b"GET /livez HTTP/1.1\r\nX: "])
def test_a_head_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: bytes
) -> None:
    monkeypatch.setattr(server._Protocol, "head_s", 0.05)
    house = House(f"sqlite:///{tmp_path}/matins.db")
    assert hung_up(house, *([began] if began else [])) == b""
    house.close()


def test_a_body_that_does_not_come_is_not_waited_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "BODY_S", 0.05)
    said = hung_up(house, head(house, "Content-Length: 10", "") + b"{")
    assert (said.split(b" ")[1], b"too_slow" in said) == (b"408", True)
