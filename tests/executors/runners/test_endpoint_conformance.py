"""`check_runner` for runners that call somebody: ours keep their promises, and each broken one is named."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from matins.coding_tools.conformance import check_runner
from matins.errors import InvalidInput
from matins.executors.runners.http import Http
from matins.executors.runners.openai import OpenAI
from matins.executors.runners.protocol import EndpointConnection, Limit, RunnerRequest, RunnerResult

SECRET = "whsec_" + "A" * 43 + "="
ENDPOINT: dict[str, Any] = {"url": "https://api.example.com/v1", "model": "m"}
SIGNED: dict[str, Any] = {
    "url": "https://example.com/wake",
    "environment": {"WEBHOOK_SECRET": SECRET},
    "secrets": (SECRET,),
}
CHUNKS = [
    {"choices": [{"index": 0, "delta": {"content": "The heels "}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "are mended: grüße 🪴"}, "finish_reason": "stop"}]},
    {
        "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
    },
]
STREAM = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in CHUNKS) + b"data: [DONE]\n\n"
ANSWER = json.dumps({"text": "The heels are mended", "tokens": {"in": 5}, "cost_usd": 0.1, "session": "o-7"}).encode()


def test_b4_our_own_speakers_keep_their_promises() -> None:
    """B4 B6"""
    check_runner(OpenAI("local"), [STREAM], RunnerRequest("Water the plants", "/", **ENDPOINT))
    check_runner(Http(), [ANSWER, b"mended"], RunnerRequest("Water the plants", "/", **SIGNED))


class Cobbler:
    """Who is asked by a request, and answers with a text."""

    name, provider, chooses_session = "cobbler", "leather", False

    def check(self, call: RunnerRequest) -> None:
        if "\0" in call.prompt or "\ud83e" in call.prompt:
            raise InvalidInput("It cannot be told", field="prompt")

    def address(self, call: RunnerRequest) -> str:
        return "https://shoes.example.com/"

    def body(self, call: RunnerRequest) -> bytes:
        return json.dumps({"order": call.prompt}).encode()

    def headers(self) -> dict[str, str]:
        return {}

    def read(self, body: bytes) -> RunnerResult:
        return RunnerResult(True, True, text=body.decode(errors="replace").replace("\0", "")[:1000])

    def turned_away(self, status: int) -> RunnerResult:
        limit = Limit(self.provider, None, "later", 30_000) if status == 429 else None
        return RunnerResult(False, False, error=f"it answered {status}", limit=limit)

    def call(self, call: RunnerRequest, connection: EndpointConnection) -> RunnerResult:
        with connection.post(self.address(call), self.body(call), self.headers()) as reply:
            return self.read(reply.read(1_000_000)) if reply.status == 200 else self.turned_away(reply.status)


class PromptInAddress(Cobbler):
    def address(self, call: RunnerRequest) -> str:
        return f"https://shoes.example.com/{call.prompt}"


class PromptLost(Cobbler):
    def body(self, call: RunnerRequest) -> bytes:
        return call.prompt.strip().encode()


class TakesNul(Cobbler):
    def check(self, call: RunnerRequest) -> None:
        pass


class SecretOfOurs(Cobbler):
    def headers(self) -> dict[str, str]:
        return {"authorization": os.environ.get("LEATHER_API_KEY", "")}


class BelievesAnyStatus(Cobbler):
    def turned_away(self, status: int) -> RunnerResult:
        return RunnerResult(True, True)


class TakesLimitsForFailures(Cobbler):
    def turned_away(self, status: int) -> RunnerResult:
        return RunnerResult(False, False, error="it failed")


class BelievesNothing(Cobbler):
    def call(self, call: RunnerRequest, connection: EndpointConnection) -> RunnerResult:
        try:
            return super().call(call, connection)
        except Exception:
            return RunnerResult(True, True)


class RaisesAtHalfCharacters(Cobbler):
    def read(self, body: bytes) -> RunnerResult:
        return RunnerResult(True, True, text=body.decode()[:1000])


class KeepsAll(Cobbler):
    def read(self, body: bytes) -> RunnerResult:
        return RunnerResult(True, True, text=body.decode(errors="replace").replace("\0", "") * 2)


class FailsAlways(Cobbler):
    def read(self, body: bytes) -> RunnerResult:
        return RunnerResult(True, False, error="no")


def test_b4_a_speaker_of_ones_own_that_keeps_them() -> None:
    """B4"""
    check_runner(Cobbler(), ["grüße".encode()])


@pytest.mark.parametrize(
    ("runner", "promise"),
    [
        (PromptInAddress, "the prompt stays out of the address: '-p --version' changed the url"),
        (PromptLost, "the prompt arrives as it is"),
        (TakesNul, "an unusable prompt is refused before anything is spent: a prompt with a NUL was not"),
        (SecretOfOurs, "secrets come by the agent's environment"),
        (BelievesAnyStatus, "an error status is not a success: with 400 it did"),
        (TakesLimitsForFailures, "429 is a limit of the provider, and not a failure"),
        (BelievesNothing, "no answer is no success"),
        (RaisesAtHalfCharacters, "an endpoint raises only errors of Matins: UnicodeDecodeError"),
        (KeepsAll, "results are consistent: a text has at most 1,000,000 characters"),
        (FailsAlways, "its own answer is a success: it was read as a failure: no"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_b4_each_broken_promise_is_named(runner: type[Cobbler], promise: str) -> None:
    """B4 B6"""
    with pytest.raises(AssertionError, match=f"cobbler: {promise}"):
        check_runner(runner(), ["grüße ".encode() + b'"mended"'])
