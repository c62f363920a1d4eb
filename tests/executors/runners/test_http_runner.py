"""Signed requests: what is sent, what an answer means, and where they do not go."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from matins.errors import InvalidInput
from matins.executors.endpoint_requests import EndpointCall, SpendingAllowance
from matins.executors.processes.launch import Limits
from matins.executors.processes.output import Output
from matins.executors.runners.http import Http
from matins.executors.runners.protocol import RunInfo, RunnerRequest, RunnerResult
from matins.model.run import Usage
from matins.net.outbound import AddressRefused, HttpClient
from matins.net.signing import new_secret, verify
from matins.runtime.clock import SystemClock
from standins.endpoint import Endpoint, Request

SECRET = new_secret()
RUN_INFO = RunInfo(841, 7, "morning", "2026-03-27T09:00:00+00:00", 2, "store-841")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def call(endpoint: Endpoint, **words: Any) -> RunnerRequest:
    given = {"prompt": "Wake up", "workdir": "/", "url": f"{endpoint.url}/wake", "run_info": RUN_INFO}
    environment = {"WEBHOOK_SECRET": SECRET}
    allowed = (f"127.0.0.1:{endpoint.port}",)
    return RunnerRequest(
        **{**given, "environment": environment, "secrets": (SECRET,), "allowed_hosts": allowed, **words}
    )


def speak(wanted: RunnerRequest, door: HttpClient | None = None) -> RunnerResult:
    clock = SystemClock()
    Http().check(wanted)
    allowance = SpendingAllowance(clock, list, lambda result: Usage())
    with tempfile.TemporaryDirectory() as folder:
        runs = os.open(folder, os.O_RDONLY)
        output = Output(runs, "1-1.out", 1_000, 1_000, [])
        client = door or HttpClient(wanted.allowed_hosts)
        line = EndpointCall(clock, client, Limits(30_000, 30_000), allowance, wanted.secrets, output)
        try:
            return Http().call(wanted, line)
        finally:
            line.close()
            os.close(runs)


def answered(endpoint: Endpoint, status: int, body: Any, headers: dict[str, str] | None = None) -> RunnerResult:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    endpoint.answer = lambda request: (status, headers or {}, raw)
    return speak(call(endpoint))


def test_what_is_sent_is_signed_and_has_a_key_that_stays(endpoint: Endpoint) -> None:
    """B4: Standard Webhooks; the key is the same for every attempt of a run"""
    assert speak(call(endpoint, session="s1", earlier=(("user", "Before"),))).succeeded
    (request,) = endpoint.requests
    verify(SECRET, request.headers, request.raw, SystemClock().now_ms() // 1000)
    assert request.headers["webhook-id"] == request.headers["idempotency-key"] == "store-841"
    assert request.body == {
        "run_id": "841",
        "schedule_id": "7",
        "schedule": "morning",
        "slot": "2026-03-27T09:00:00+00:00",
        "attempt": 2,
        "idempotency_key": "store-841",
        "prompt": "Wake up",
        "model": None,
        "effort": None,
        "input": None,
        "session": "s1",
        "earlier": [{"role": "user", "text": "Before"}],
    }


def test_a_signature_is_for_these_very_bytes(endpoint: Endpoint) -> None:
    """B4"""
    speak(call(endpoint))
    (request,) = endpoint.requests
    with pytest.raises(InvalidInput, match="The signature does not match the message"):
        verify(SECRET, request.headers, request.raw + b" ", SystemClock().now_ms() // 1000)


@pytest.mark.parametrize(
    ("status", "body", "result"),
    [
        (200, b"All done", {"succeeded": True, "text": "All done", "structured": None}),
        (202, b"", {"succeeded": True, "executed": True, "text": ""}),
        (204, b"", {"succeeded": True, "text": ""}),
        (200, {"text": "Hi", "session": "s9"}, {"succeeded": True, "text": "Hi", "session": "s9"}),
        (200, {"plants": 3}, {"succeeded": True, "text": '{"plants": 3}', "structured": {"plants": 3}}),
        (200, {"text": "x", "structured": [1]}, {"structured": [1], "text": "x"}),
        (200, {"succeeded": False}, {"executed": True, "error": "the endpoint reported a failure"}),
        (200, {"succeeded": False, "error": "no water"}, {"succeeded": False, "error": "no water"}),
        (200, {"declared": "nothing"}, {"succeeded": True, "declared": "nothing", "reason": None}),
        (
            200,
            {"declared": {"outcome": "failed", "reason": "dry"}},
            {"succeeded": False, "declared": "failed", "reason": "dry", "error": "dry"},
        ),
        (200, {"tokens": 12}, {"tokens_in": 12, "tokens_out": 0, "cost_reported": False}),
        (200, {"tokens": {"in": 1, "out": 2, "cached": 3}}, {"tokens_in": 1, "tokens_out": 2, "tokens_cached": 3}),
        (200, {"cost_usd": 0.25}, {"cost_usd": 0.25, "cost_reported": True}),
        (200, b'{"text": 3, "session": {}, "tokens": -1, "cost_usd": "a lot"}', {"succeeded": True, "text": ""}),
        (200, b'Hi\n{"matins": {"outcome": "failed"}}', {"succeeded": False, "declared": "failed", "text": "Hi"}),
        (200, b"\xff\x00 broken", {"succeeded": True, "text": "\ufffd\ufffd broken"}),
        (400, {"error": "bad prompt"}, {"executed": False, "error": "the endpoint answered 400: bad prompt"}),
        (500, b"", {"succeeded": False, "error": "the endpoint answered 500", "limit": None}),
        (304, b"", {"succeeded": False, "error": "the endpoint answered 304"}),
    ],
)  # fmt: skip
def test_b4_what_an_answer_means(endpoint: Endpoint, status: int, body: Any, result: dict[str, Any]) -> None:
    """B4: from 200 to 299 it is a success, unless the answer says otherwise"""
    found = answered(endpoint, status, body)
    assert {word: getattr(found, word) for word in result} == result


@pytest.mark.parametrize(
    ("status", "headers", "wait_ms"),
    [(429, {"Retry-After": "30"}, 30_000), (503, {"Retry-After": "30"}, 30_000), (429, {}, None)],
)
def test_b6_not_now_is_a_limit(endpoint: Endpoint, status: int, headers: dict[str, str], wait_ms: int | None) -> None:
    """B6"""
    result = answered(endpoint, status, b"", headers)
    assert result.limit is not None
    assert (result.succeeded, result.limit.wait_ms) == (False, wait_ms)


def test_b9_a_long_answer_is_cut(endpoint: Endpoint) -> None:
    """B9"""
    assert len(answered(endpoint, 200, b"x" * 5_000_000).text) == 1_000_000


def test_the_secret_comes_back_in_nothing(endpoint: Endpoint) -> None:
    """B9"""
    result = answered(endpoint, 200, {"text": SECRET, "structured": {SECRET: [f'a"{SECRET}']}, "session": SECRET})
    assert SECRET not in repr(result)
    assert SECRET not in repr(answered(endpoint, 500, SECRET.encode()))
    assert SECRET not in repr(call(endpoint))


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest/meta-data", "http://localhost:1/", "http://2852039166/", "//[::1]/"]
)
def test_a_redirect_leads_nowhere_else(endpoint: Endpoint, location: str) -> None:
    """B9: 302 to metadata"""
    with pytest.raises(AddressRefused):
        answered(endpoint, 302, b"", {"Location": location})


def test_a_redirect_inside_is_followed_with_the_same_signature(endpoint: Endpoint) -> None:
    """B9"""

    def onward(request: Request) -> tuple[int, dict[str, str], bytes]:
        return (200, {}, b"here") if request.path == "/there" else (307, {"Location": "/there"}, b"")

    endpoint.answer = onward
    assert speak(call(endpoint)).text == "here"
    first, second = endpoint.requests
    assert first.raw == second.raw
    verify(SECRET, second.headers, second.raw, SystemClock().now_ms() // 1000)


def test_a_name_that_leads_elsewhere_the_second_time(endpoint: Endpoint) -> None:
    """B9: rebinding; it is asked for once, judged, and that very address is called"""
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) > 1 else ["93.184.215.14"]

    wanted = call(endpoint, url=f"http://rebind.example:{endpoint.port}/wake", allowed_hosts=())
    door = HttpClient((), rebinding, timeout_s=0.2)
    with pytest.raises(Exception, match="cannot be reached"):
        speak(wanted, door)
    assert asked == ["rebind.example"]
    with pytest.raises(AddressRefused, match="a loopback address"):
        speak(wanted, door)
    assert endpoint.requests == []


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"url": None}, "url"),
        ({"url": "http://10.0.0.1/"}, "url"),
        ({"environment": {}}, "environment"),
        ({"secrets": ()}, "environment"),
        ({"environment": {"WEBHOOK_SECRET": "short"}, "secrets": ("short",)}, "secret"),
        ({"environment": {"WEBHOOK_SECRET": "whsec_ü"}, "secrets": ("whsec_ü",)}, "environment"),
        ({"prompt": "a\0b"}, "prompt"),
        ({"permission_mode": "plan"}, "permission_mode"),
        ({"extra_args": ("-v",)}, "extra_args"),
        ({"options": {"method": "GET"}}, "options"),
    ],
)
def test_what_cannot_be_called(endpoint: Endpoint, words: dict[str, Any], field: str) -> None:
    """B4"""
    with pytest.raises(InvalidInput) as caught:
        Http().check(call(endpoint, **words))
    assert caught.value.field == field
    assert SECRET not in f"{caught.value} {caught.value.hint} {caught.value.value}"
