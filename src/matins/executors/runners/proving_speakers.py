"""The same proof for runners that call somebody: prompts that arrive, and answers that nobody would wish for."""

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
from matins.executors.runners.base import Call, Occasion, Speaker, Told
from matins.executors.runners.faults import (
    CANARY,
    CONSISTENT,
    MOST_CUTS,
    NOISE,
    PROMPTS,
    UNUSABLE,
    padded,
    secret_names,
    spoilt,
)
from matins.net.client import Reply, Unreachable

_REFUSALS = (400, 401, 404, HTTPStatus.TOO_MANY_REQUESTS, 500, 503)
_FLOOD = 64
_OCCASION = Occasion(841, 7, "garden", None, 1, "841")


class _Sent(NamedTuple):
    url: str
    body: bytes
    headers: Mapping[str, str]

    def holds(self, text: str) -> bool:
        try:
            return any(text in word for word in _words(json.loads(self.body)))
        except ValueError:
            return text.encode() in self.body


class _Answer(Reply):
    """What is read from memory; `torn` is one that breaks off."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, torn: bool) -> None:
        self.status = status
        self.headers = dict(headers)
        self._body = io.BytesIO(body)
        self._torn = torn

    def lines(self, longest: int) -> Iterator[bytes]:
        yield from (line for line in self._body if len(line) <= longest)
        self._tear()

    def read(self, limit: int) -> bytes:
        body = self._body.read(limit)
        if len(body) < limit:
            self._tear()
        return body

    def _tear(self) -> None:
        if self._torn:
            raise Unreachable("the connection broke off")


class _PlayedLine:
    """Answers whatever is asked with the same."""

    cut = False

    def __init__(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, *, torn: bool) -> None:
        self.sent: list[_Sent] = []
        self._answer = status, headers or {}, body, torn

    def now_s(self) -> int:
        return 1_800_000_000

    @contextmanager
    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Generator[Reply]:
        self.sent.append(_Sent(url, body, headers))
        yield _Answer(*self._answer)

    def spent_up(self, so_far: Told) -> bool:
        return False


def check_speaker(runner: Speaker, answers: Iterable[bytes], call: Call) -> None:
    runner.refuse(call)
    proof = _Proof(runner, call if call.occasion.key else replace(call, occasion=_OCCASION))
    heard = list(answers)
    proof.check_prompts(heard[0] if heard else b"")
    proof.check_refusals(heard[0] if heard else b"")
    for answer in heard:
        proof.check_answer(answer)


class _Proof:
    def __init__(self, runner: Speaker, call: Call) -> None:
        self._runner = runner
        self._call = call

    def check_prompts(self, answer: bytes) -> None:
        plain = self._sent(self._call, answer)
        for prompt in PROMPTS:
            call, shown = replace(self._call, prompt=prompt), repr(prompt[:40])
            self._runner.refuse(call)
            sent = self._sent(call, answer)
            same = [one.url for one in sent] == [one.url for one in plain]
            self._hold(same, "the prompt stays out of the address", f"{shown} changed the url")
            arrived = not sent or any(one.holds(prompt) for one in sent)
            self._hold(arrived, "the prompt arrives as it is", f"{shown} is in no request")
        for what, prompt in UNUSABLE.items():
            self._check_unusable(what, replace(self._call, prompt=prompt))
        with patch.dict(os.environ, dict.fromkeys(secret_names(self._runner.name, self._runner.provider), CANARY)):
            seen = [one.url for one in self._sent(self._call, answer) if CANARY in repr(one)]
        self._hold(not seen, "secrets come by the agent's environment", f"one was taken from ours, for {seen}")

    def check_refusals(self, answer: bytes) -> None:
        for status in _REFUSALS:
            for body in (b"", answer, *NOISE):
                told = self._told(body, status, {"retry-after": "30"} if status == HTTPStatus.TOO_MANY_REQUESTS else {})
                self._hold(not told.succeeded, "who is turned away has not succeeded", f"with {status} it did")
                limited = status != HTTPStatus.TOO_MANY_REQUESTS or told.limit is not None
                self._hold(limited, "429 is a limit of the provider, and not a failure", f"it was not: {told.error}")
        self._hold(not self._told(b"", torn=True).succeeded, "no answer is no success", "it succeeded without one")

    def check_answer(self, answer: bytes) -> None:
        clean = self._told(answer)
        self._hold(clean.succeeded, "its own answer is a success", f"it was read as a failure: {clean.error}")
        for end in range(0, len(answer), max(1, len(answer) // MOST_CUTS)):
            self._told(answer[:end])
            self._told(answer[:end], torn=True)
        lines = answer.splitlines(keepends=True)
        self._told(b"".join(noise + b"\n" + line for line in lines for noise in NOISE))
        self._told(b"".join(padded(line) for line in lines for _ in range(_FLOOD // len(lines) + 1)))
        for number, line in enumerate(lines):
            for wrong in spoilt(line):
                self._told(b"".join([*lines[:number], wrong, *lines[number + 1 :]]))

    def _check_unusable(self, what: str, call: Call) -> None:
        try:
            self._runner.refuse(call)
        except InvalidInput:
            return
        self._hold(False, "what cannot be told is refused before anything is spent", f"a prompt with {what} was not")

    def _sent(self, call: Call, answer: bytes) -> list[_Sent]:
        line = _PlayedLine(answer, torn=False)
        self._spoken(call, line)
        return line.sent

    def _told(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, *, torn: bool = False
    ) -> Told:
        return self._spoken(self._call, _PlayedLine(body, status, headers, torn=torn))

    def _spoken(self, call: Call, line: _PlayedLine) -> Told:
        try:
            told = self._runner.speak(call, line)
        except MatinsError as error:
            return Told(False, False, error=error.message)
        except Exception as error:
            promise = "a speaker raises nothing but what Matins raises"
            raise AssertionError(f"{self._runner.name}: {promise}: {error!r}") from error
        for broken, holds in CONSISTENT.items():
            self._hold(holds(told), "what is told holds together", f"{broken}: {told!r:.500}")
        return told

    def _hold(self, holds: bool, promise: str, broken: str) -> None:
        if not holds:
            raise AssertionError(f"{self._runner.name}: {promise}: {broken}")


def _words(value: Any) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    for item in cast("Iterable[Any]", inner) if isinstance(value, (list, dict)) else ():
        yield from _words(item)
