"""Errors over HTTP: problem+json with a hint, whatever went wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

from matins import StoreUnavailable
from matins.api.use_case import UseCase
from matins.errors import StoreBusy, StoreCorrupt


def added(server: HttpServer, **settings: Any) -> Any:
    return server.ask("POST", "/v1/schedules", {"name": "a", "when": YEARLY, "job": "work", **settings})


def test_a_problem_says_what_where_and_how_to_fix_it(server: HttpServer) -> None:
    said = added(server, overlap="sometimes")
    assert (said.status, said.headers["content-type"]) == (422, "application/problem+json")
    assert said.json == {
        "type": "urn:matins:error:invalid_input",
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": "\"overlap\" must be skip, queue, cancel_other or allow, not 'sometimes'.",
        "code": "invalid_input",
        "instance": "/v1/schedules",
        "field": "overlap",
        "value": "sometimes",
        "allowed": "skip, queue, cancel_other or allow",
        "hint": 'For example: overlap="queue".',
        "example": {"overlap": "queue"},
    }
    assert server.client.list() == []


@pytest.mark.parametrize(
    ("settings", "code", "hint"),
    [
        ({"overlp": "skip"}, "invalid_input", 'Did you mean "overlap"?'),
        ({"when": "61 * * * *"}, "cron_invalid", None),
        ({"when": 5}, "invalid_input", 'For example: when="every weekday at 9am".'),
        ({"timezone": "Mars/Base"}, "timezone_invalid", None),
        ({"principal": "owner"}, "invalid_input", None),
        ({"self": 1}, "invalid_input", None),
    ],
)
def test_bad_settings_are_refused_by_the_service_with_its_hint(
    server: HttpServer, settings: dict[str, Any], code: str, hint: str | None
) -> None:
    said = added(server, **settings)
    assert (said.status, said.json["code"]) == (422, code)
    assert hint is None or said.json["hint"] == hint


def test_the_settings_of_a_hint_are_data(server: HttpServer) -> None:
    """C7: a client writes them in its own form; the text of the hint is the library's"""
    assert added(server, when=5).json["example"] == {"when": "every weekday at 9am"}
    assert "example" not in added(server, overlp="skip").json


def test_a_hint_comes_whole(server: HttpServer) -> None:
    """A list of what is known does not end in the middle of a name"""
    said = added(server, xyzzy=1)
    assert said.json["hint"].startswith("Known: name, when, agent, ")
    assert said.json["hint"].endswith(", strict.")


def test_statuses(server: HttpServer) -> None:
    """Each kind of error has its own."""
    added(server)
    viewer = server.new_token("viewer")
    assert added(server).status == 409
    assert server.ask("GET", "/v1/schedules/nothing").status == 404
    assert server.ask("DELETE", "/v1/schedules/nothing").status == 404
    assert server.ask("DELETE", "/v1/schedules/a", token=viewer).status == 403
    assert server.ask("GET", "/v1/schedules/a", token=None).status == 401
    assert server.ask("GET", "/v1/nothing").status == 404
    assert server.ask("GET", "/v1/nothing", token=None).status == 401
    assert server.ask("GET", "/v1/runs/abc").status == 422
    assert server.ask("GET", "/v1/schedules?limit=5000").status == 422
    assert server.ask("GET", "/v1/schedules?limit=5&limit=6").status == 422
    assert server.ask("GET", "/v1/schedules?select=%ff").status == 422
    assert server.ask("POST", "/v1/schedules/a/pause?until=2100-01-01T00:00:00Z", {}).status == 422
    misplaced = server.ask("PATCH", "/v1/schedules/a", {"name": "b"}, If_Match="*").json
    assert (misplaced["status"], misplaced["detail"]) == (422, '"name" belongs in the path.')


def test_the_wrong_method_learns_which_are_right(server: HttpServer) -> None:
    said = server.ask("DELETE", "/v1/schedules")
    assert (said.status, said.headers["allow"], said.json["hint"]) == (405, "GET, POST", "Use one of: GET, POST.")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b'{"a": NaN}',
        b'{"payload": [-Infinity]}',
        b'{"payload": 1e999}',
        b"\xff",
        b'{"name": "\\ud800"}',
    ],
)
def test_what_is_not_json_is_400(server: HttpServer, body: bytes) -> None:
    said = server.ask("POST", "/v1/schedules", body, Content_Type="application/json")
    assert (said.status, said.json["code"]) == (400, "invalid_json")


def test_what_does_not_say_that_it_is_json_is_415(server: HttpServer) -> None:
    body = b'{"name": "a", "when": "5m", "job": "work"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", ""):
        said = server.ask("POST", "/v1/schedules", body, Content_Type=kind)
        assert (said.status, said.json["hint"]) == (415, "Send Content-Type: application/json."), kind
    assert server.ask("POST", "/v1/schedules", body, Content_Type="application/json; charset=utf-8").status == 201


@pytest.mark.parametrize("body", [b"[]", b"5", b'"text"', b"null"])
def test_the_body_is_an_object(server: HttpServer, body: bytes) -> None:
    assert server.ask("POST", "/v1/schedules", body, Content_Type="application/json").status == 422


def test_a_body_nested_too_deep_is_refused(server: HttpServer) -> None:
    deep = b'{"name":"a","when":"5m","job":"work","payload":' + b"[" * 200 + b"]" * 200 + b"}"
    said = server.ask("POST", "/v1/schedules", deep, Content_Type="application/json")
    assert (said.status, said.json["hint"]) == (422, "Make it flatter.")


def test_too_large_a_body_is_413(server: HttpServer) -> None:
    """By its length before it is read, and by what comes where no length is said."""
    large = b'{"name": "' + b"a" * UseCase.max_bytes + b'"}'
    assert server.ask("POST", "/v1/schedules", large, Content_Type="application/json").status == 413

    def parts() -> Any:
        for _ in range(20):
            yield b" " * 100_000

    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/schedules", parts(), headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.request("POST", "/v1/schedules", headers=headers | {"Content-Length": str(1 << 40)})
    assert connection.getresponse().status == 413  # before anything of it is read
    connection.close()


def test_a_batch_may_be_large(server: HttpServer) -> None:
    many = [{"name": f"s{n}", "when": YEARLY, "job": "work", "payload": "x" * 2_000} for n in range(1_000)]
    said = server.ask("POST", "/v1/schedules/batch", {"schedules": many})
    assert (said.status, len(said.json["items"])) == (201, 1_000)
    assert server.ask("POST", "/v1/schedules/batch", {"schedules": many}, token=None).status == 401


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StoreUnavailable("it does not answer", hint="wait"), 503),
        (StoreBusy("somebody has it"), 503),
        (StoreCorrupt("it is damaged"), 500),
        (ValueError("secret: /home/ada"), 500),
    ],
)
def test_trouble_of_our_own(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    """503 says when to come back; what nobody foresaw is logged, and not told."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setitem(server.matins._service._methods, "system.stats", fail)
    with caplog.at_level(logging.ERROR, "matins"):
        said = server.ask("GET", "/v1/stats")
    assert said.status == status
    assert ("retry-after" in said.headers) == (status == 503)
    assert b"secret" not in said.body
    assert b"Traceback" not in said.body
    assert ("secret: /home/ada" in caplog.text) == isinstance(error, ValueError)
