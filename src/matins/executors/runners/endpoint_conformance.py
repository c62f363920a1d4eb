"""Conformance tests for runners that call an endpoint: prompts must arrive, and bad responses must not succeed."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from matins.errors import InvalidInput, MatinsError
from matins.executors.runners.known_faults import (
    CANARY,
    CONSISTENT,
    MAX_CUTS,
    NOISE,
    PROMPTS,
    UNUSABLE,
    padded,
    secret_names,
    spoilt,
)
from matins.executors.runners.protocol import Call, EndpointRunner, RunInfo, RunnerResult
from matins.net.outbound import StreamedResponse, Unreachable

_REFUSALS = (400, 401, 404, HTTPStatus.TOO_MANY_REQUESTS, 500, 503)
_FLOOD_OF_WORDS = 64
_RUN_INFO = RunInfo(841, 7, "garden", None, 1, "841")


class _Sent(NamedTuple):
    url: str
    body: bytes
    headers: Mapping[str, str]

    def holds(self, text: str) -> bool:
        try:
            return any(text in part for part in _texts(json.loads(self.body)))
        except ValueError:
            return text.encode() in self.body


class _Answer(StreamedResponse):
    """A response from memory; `torn` breaks off."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, torn: bool) -> None:
        self.status = status
        self.headers = dict(headers)
        self._body = io.BytesIO(body)
        self._torn = torn

    def lines(self, max_length: int) -> Iterator[bytes]:
        yield from (line for line in self._body if len(line) <= max_length)
        self._tear()

    def read(self, limit: int) -> bytes:
        body = self._body.read(limit)
        if len(body) < limit:
            self._tear()
        return body

    def _tear(self) -> None:
        if self._torn:
            raise Unreachable("the connection broke off")


class _PlayedConnection:
    """Answers every request with the same response."""

    closed = False

    def __init__(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, *, torn: bool) -> None:
        self.sent: list[_Sent] = []
        self._answer = status, headers or {}, body, torn

    def now_s(self) -> int:
        return 1_800_000_000

    @contextmanager
    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Generator[StreamedResponse]:
        self.sent.append(_Sent(url, body, headers))
        yield _Answer(*self._answer)

    def log(self, text: str) -> None:
        pass

    def over_budget(self, so_far: RunnerResult) -> bool:
        return False


def check_endpoint_runner(runner: EndpointRunner, answers: Iterable[bytes], call: Call) -> None:
    runner.check(call)
    proof = _EndpointCheck(runner, call if call.run_info.key else replace(call, run_info=_RUN_INFO))
    bodies = list(answers)
    proof.check_prompts(bodies[0] if bodies else b"")
    proof.check_refusals(bodies[0] if bodies else b"")
    for answer in bodies:
        proof.check_answer(answer)


class _EndpointCheck:
    def __init__(self, runner: EndpointRunner, call: Call) -> None:
        self._runner = runner
        self._call = call

    def check_prompts(self, answer: bytes) -> None:
        plain = self._sent(self._call, answer)
        for prompt in PROMPTS:
            call, preview = replace(self._call, prompt=prompt), repr(prompt[:40])
            self._runner.check(call)
            sent = self._sent(call, answer)
            same = [one.url for one in sent] == [one.url for one in plain]
            self._require(same, "the prompt stays out of the address", f"{preview} changed the url")
            arrived = not sent or any(one.holds(prompt) for one in sent)
            self._require(arrived, "the prompt arrives as it is", f"{preview} is in no request")
        for what, prompt in UNUSABLE.items():
            self._check_unusable(what, replace(self._call, prompt=prompt))
        with patch.dict(os.environ, dict.fromkeys(secret_names(self._runner.name, self._runner.provider), CANARY)):
            seen = [one.url for one in self._sent(self._call, answer) if CANARY in repr(one)]
        self._require(not seen, "secrets come by the agent's environment", f"one was taken from ours, for {seen}")

    def check_refusals(self, answer: bytes) -> None:
        for status in _REFUSALS:
            for body in (b"", answer, *NOISE):
                result = self._read(
                    body, status, {"retry-after": "30"} if status == HTTPStatus.TOO_MANY_REQUESTS else {}
                )
                self._require(not result.succeeded, "an error status is not a success", f"with {status} it did")
                limited = status != HTTPStatus.TOO_MANY_REQUESTS or result.limit is not None
                self._require(
                    limited, "429 is a limit of the provider, and not a failure", f"it was not: {result.error}"
                )
        self._require(not self._read(b"", torn=True).succeeded, "no answer is no success", "it succeeded without one")

    def check_answer(self, answer: bytes) -> None:
        clean = self._read(answer)
        self._require(clean.succeeded, "its own answer is a success", f"it was read as a failure: {clean.error}")
        for end in range(0, len(answer), max(1, len(answer) // MAX_CUTS)):
            self._read(answer[:end])
            self._read(answer[:end], torn=True)
        lines = answer.splitlines(keepends=True)
        self._read(b"".join(noise + b"\n" + line for line in lines for noise in NOISE))
        self._read(b"".join(padded(line) for line in lines for _ in range(_FLOOD_OF_WORDS // len(lines) + 1)))
        for number, line in enumerate(lines):
            for wrong in spoilt(line):
                self._read(b"".join([*lines[:number], wrong, *lines[number + 1 :]]))

    def _check_unusable(self, what: str, call: Call) -> None:
        try:
            self._runner.check(call)
        except InvalidInput:
            return
        self._require(False, "an unusable prompt is refused before anything is spent", f"a prompt with {what} was not")

    def _sent(self, call: Call, answer: bytes) -> list[_Sent]:
        connection = _PlayedConnection(answer, torn=False)
        self._call_runner(call, connection)
        return connection.sent

    def _read(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, *, torn: bool = False
    ) -> RunnerResult:
        return self._call_runner(self._call, _PlayedConnection(body, status, headers, torn=torn))

    def _call_runner(self, call: Call, connection: _PlayedConnection) -> RunnerResult:
        try:
            result = self._runner.call(call, connection)
        except MatinsError as error:
            return RunnerResult(False, False, error=error.message)
        except Exception as error:
            promise = "an endpoint raises only errors of Matins"
            raise AssertionError(f"{self._runner.name}: {promise}: {error!r}") from error
        for broken, holds in CONSISTENT.items():
            self._require(holds(result), "results are consistent", f"{broken}: {result!r:.500}")
        return result

    def _require(self, holds: bool, promise: str, broken: str) -> None:
        if not holds:
            raise AssertionError(f"{self._runner.name}: {promise}: {broken}")


def _texts(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    for item in cast("Iterable[Any]", inner) if isinstance(value, (list, dict)) else ():
        yield from _texts(item)
