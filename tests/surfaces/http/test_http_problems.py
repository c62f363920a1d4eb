"""Errors over HTTP: problem+json with a hint, whatever went wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from http_house import YEARLY, House

from matins import StoreUnavailable
from matins.errors import StoreBusy, StoreCorrupt
from matins.surfaces.http.answers import MOST_BYTES


def added(house: House, **words: Any) -> Any:
    return house.ask("POST", "/v1/schedules", {"name": "a", "when": YEARLY, "do": "work", **words})


def test_a_problem_says_what_where_and_how_to_mend_it(house: House) -> None:
    said = added(house, overlap="sometimes")
    assert (said.status, said.headers["content-type"]) == (422, "application/problem+json")
    assert said.json == {
        "type": "urn:matins:error:invalid_input",
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": "\"overlap\" must be skip or queue or cancel_other or allow, got 'sometimes'",
        "code": "invalid_input",
        "instance": "/v1/schedules",
        "field": "overlap",
        "value": "sometimes",
        "allowed": "skip or queue or cancel_other or allow",
        "hint": "leave it out for skip",
    }
    assert house.client.overview() == []


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        ({"overlp": "skip"}, "invalid_input", 'did you mean "overlap"?'),
        ({"when": "61 * * * *"}, "cron_invalid", None),
        ({"when": 5}, "invalid_input", "see /openapi.json"),
        ({"timezone": "Mars/Base"}, "timezone_invalid", None),
        ({"principal": "owner"}, "invalid_input", "known: name, when, agent"),
        ({"self": 1}, "invalid_input", "known: name, when, agent"),
    ],
)
def test_bad_words_are_refused_by_the_service_with_its_hint(
    house: House, words: dict[str, Any], code: str, hint: str | None
) -> None:
    said = added(house, **words)
    assert (said.status, said.json["code"]) == (422, code)
    assert hint is None or said.json["hint"] == hint


def test_a_hint_comes_whole(house: House) -> None:
    """A list of what is known does not end in the middle of a word"""
    said = added(house, xyzzy=1)
    assert said.json["hint"].startswith("known: ")
    assert said.json["hint"].endswith(", strict")


def test_statuses(house: House) -> None:
    """Each kind of error has its own."""
    added(house)
    viewer = house.new_token("viewer")
    assert added(house).status == 409
    assert house.ask("GET", "/v1/schedules/nothing").status == 404
    assert house.ask("DELETE", "/v1/schedules/nothing").status == 404
    assert house.ask("DELETE", "/v1/schedules/a", token=viewer).status == 403
    assert house.ask("GET", "/v1/schedules/a", token=None).status == 401
    assert house.ask("GET", "/v1/nothing").status == 404
    assert house.ask("GET", "/v1/nothing", token=None).status == 401
    assert house.ask("GET", "/v1/runs/abc").status == 422
    assert house.ask("GET", "/v1/schedules?limit=5000").status == 422
    assert house.ask("GET", "/v1/schedules?limit=5&limit=6").status == 422
    assert house.ask("GET", "/v1/schedules?agent=%ff").status == 422
    assert house.ask("POST", "/v1/schedules/a/pause?until=2100-01-01T00:00:00Z", {}).status == 422
    assert (
        house.ask("PATCH", "/v1/schedules/a", {"name": "b"}, If_Match="*").json["detail"] == '"name" stands in the path'
    )


def test_the_wrong_method_is_told_which_are_right(house: House) -> None:
    said = house.ask("DELETE", "/v1/schedules")
    assert (said.status, said.headers["allow"], said.json["hint"]) == (405, "GET, POST", "one of: GET, POST")


@pytest.mark.parametrize("body", [b"{", b"nonsense", b'{"a": NaN}', b"\xff", b'{"name": "\\ud800"}'])
def test_what_is_not_json_is_400(house: House, body: bytes) -> None:
    said = house.ask("POST", "/v1/schedules", body, Content_Type="application/json")
    assert (said.status, said.json["code"]) == (400, "unreadable_json")


def test_what_does_not_say_that_it_is_json_is_415(house: House) -> None:
    body = b'{"name": "a", "when": "5m", "do": "work"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", ""):
        said = house.ask("POST", "/v1/schedules", body, Content_Type=kind)
        assert (said.status, said.json["hint"]) == (415, "Content-Type: application/json"), kind
    assert house.ask("POST", "/v1/schedules", body, Content_Type="application/json; charset=utf-8").status == 201


@pytest.mark.parametrize("body", [b"[]", b"5", b'"text"', b"null"])
def test_the_body_is_an_object(house: House, body: bytes) -> None:
    assert house.ask("POST", "/v1/schedules", body, Content_Type="application/json").status == 422


def test_a_body_nested_too_deep_is_refused(house: House) -> None:
    deep = b'{"name":"a","when":"5m","do":"work","payload":' + b"[" * 200 + b"]" * 200 + b"}"
    said = house.ask("POST", "/v1/schedules", deep, Content_Type="application/json")
    assert (said.status, said.json["hint"]) == (422, "make it flatter")


def test_too_large_a_body_is_413(house: House) -> None:
    """By its length before it is read, and by what comes where no length is said."""
    large = b'{"name": "' + b"a" * MOST_BYTES + b'"}'
    assert house.ask("POST", "/v1/schedules", large, Content_Type="application/json").status == 413

    def parts() -> Any:
        for _ in range(20):
            yield b" " * 100_000

    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=90)
    headers = {"Authorization": f"Bearer {house.token}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/schedules", parts(), headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.request("POST", "/v1/schedules", headers=headers | {"Content-Length": str(1 << 40)})
    assert connection.getresponse().status == 413  # before anything of it is read
    connection.close()


def test_a_batch_may_be_large(house: House) -> None:
    many = [{"name": f"s{n}", "when": YEARLY, "do": "work", "payload": "x" * 2_000} for n in range(1_000)]
    said = house.ask("POST", "/v1/schedules/batch", {"schedules": many})
    assert (said.status, len(said.json["items"])) == (201, 1_000)
    assert house.ask("POST", "/v1/schedules/batch", {"schedules": many}, token=None).status == 401


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
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    """503 says when to come back; what nobody foresaw is logged, and not told."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(house.matins._service, "stats", fail)
    with caplog.at_level(logging.ERROR, "matins"):
        said = house.ask("GET", "/v1/stats")
    assert said.status == status
    assert ("retry-after" in said.headers) == (status == 503)
    assert b"secret" not in said.body
    assert b"Traceback" not in said.body
    assert ("secret: /home/ada" in caplog.text) == isinstance(error, ValueError)
