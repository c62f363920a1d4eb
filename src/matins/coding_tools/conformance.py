"""Conformance tests for runners: the rules for every runner, tested with faults of real tools.

Conformance tests for runners that call an endpoint: prompts must arrive, and bad responses must not succeed.
"""

from __future__ import annotations

import io
import json
import os
import tracemalloc
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from matins.errors import InvalidInput, MatinsError
from matins.executors.processes.output import matches
from matins.executors.runners.protocol import AnyRunner, EndpointRunner, RunInfo, Runner, RunnerRequest, RunnerResult
from matins.net.outbound import StreamedResponse, Unreachable

MAX_TEXT_LENGTH = 1_000_000
MAX_CUTS = 1_500
PADDING = 512 * 1024
_MAX_SPOILT = 600
CANARY = "canary-5f3759df"
_SECRETS = ("API_KEY", "TOKEN", "AUTH_TOKEN", "PASSWORD", "SECRET")
PROMPTS = (
    "-p --version",
    "--help",
    "- a list\n- of two",
    "\n\n  two lines\r\nand a tab\t",
    'it\'s "$HOME" `whoami` $(touch canary); & | > canary \\',
    "@file.txt",
    "/quit",
    "🪴 \u202e\x07",
    "x" * 300_000,
)
UNUSABLE = {"a NUL": "water\0the plants", "half a character": "water \ud83e the plants"}
NOISE = (
    b"", b"not json at all", b'{"type":', b"[1, 2, 3]", b'"result"', b"null", b"42", b'{"type": 7}', b"{}", b"\x00" * 9,
    b"\xe2\x82", b"\xff\xfe\xfd", b"\x1b[?1004l", b'{"a": NaN, "b": 1e999}', b"{" * 2_000, b'{"a":' * 2_000,
)  # fmt: skip
_WRONG_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    10**400,
    "",
    "\0",
    "\ud800",
    "text",
    [],
    [[]],
    {},
    {"type": []},
)


def secret_names(*owners: str) -> set[str]:
    """Variables in which programs look for secrets by default."""
    return {f"{owner.upper()}_{kind}" for owner in owners for kind in _SECRETS} | {*_SECRETS}


def _storable(result: RunnerResult) -> bool:
    try:
        json.dumps(result.structured, allow_nan=False, ensure_ascii=False).encode()
        limit = result.limit.reason if result.limit else None
        spoken = [result.text, result.error, result.reason, result.session, result.model, *result.denials, limit]
        return b"\0" not in "".join(text for text in spoken if text).encode()
    except (ValueError, TypeError, RecursionError):
        return False


CONSISTENT: dict[str, Callable[[RunnerResult], bool]] = {
    "a success was executed, and has no error and no limit": lambda result: (
        not result.succeeded or (result.executed and result.error is None and result.limit is None)
    ),
    "a failure says why": lambda result: result.succeeded or bool(result.error),
    "tokens, money and turns are not negative": lambda result: (
        min(result.tokens_in, result.tokens_out, result.tokens_cached, result.cost_usd or 0, result.turns or 0) >= 0
    ),
    "money that was reported is there": lambda result: result.cost_reported == (result.cost_usd is not None),
    f"a text has at most {MAX_TEXT_LENGTH:,} characters": lambda result: len(result.text) <= MAX_TEXT_LENGTH,
    "every text can be stored (no NUL, no half characters, JSON is JSON)": _storable,
}


def spoilt(line: bytes) -> Iterator[bytes]:
    """The line with each value replaced by each wrong value: the first few hundred such lines."""
    return islice(_all_spoilt(line), _MAX_SPOILT)


def _all_spoilt(line: bytes) -> Iterator[bytes]:
    begin = line.find(b"{")
    try:
        event = json.loads(line[begin:]) if begin >= 0 else None
    except ValueError:
        return
    for set_value in _setters(event):
        for wrong in _WRONG_VALUES:
            before = set_value(wrong)
            yield line[:begin] + json.dumps(event).encode() + b"\n"
            set_value(before)


def _setters(value: Any) -> Iterator[Callable[[Any], Any]]:
    """For every nested value: a function that replaces it and returns the old one."""
    if isinstance(value, dict):
        items = list(cast("dict[Any, Any]", value).items())
    else:
        items = list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []

    for key, inner in items:

        def set_value(new: Any, key: Any = key) -> Any:
            old = cast("Any", value[key])
            value[key] = new
            return old

        yield set_value
        yield from _setters(inner)


def padded(line: bytes) -> bytes:
    """The line with its longest string made far longer."""
    texts = sorted(line.split(b'"')[1::2], key=len)
    return line.replace(texts[-1], texts[-1] + b" x" * (PADDING // 2)) if texts else line


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


def check_endpoint_runner(runner: EndpointRunner, answers: Iterable[bytes], call: RunnerRequest) -> None:
    runner.check(call)
    proof = _EndpointCheck(runner, call if call.run_info.key else replace(call, run_info=_RUN_INFO))
    bodies = list(answers)
    proof.check_prompts(bodies[0] if bodies else b"")
    proof.check_refusals(bodies[0] if bodies else b"")
    for answer in bodies:
        proof.check_answer(answer)


class _EndpointCheck:
    def __init__(self, runner: EndpointRunner, call: RunnerRequest) -> None:
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
        _check_unusable(self._runner, self._call)
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

    def _sent(self, call: RunnerRequest, answer: bytes) -> list[_Sent]:
        connection = _PlayedConnection(answer, torn=False)
        self._call_runner(call, connection)
        return connection.sent

    def _read(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, *, torn: bool = False
    ) -> RunnerResult:
        return self._call_runner(self._call, _PlayedConnection(body, status, headers, torn=torn))

    def _call_runner(self, call: RunnerRequest, connection: _PlayedConnection) -> RunnerResult:
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


def _check_unusable(runner: AnyRunner, call: RunnerRequest) -> None:
    for what, prompt in UNUSABLE.items():
        try:
            runner.check(replace(call, prompt=prompt))
        except InvalidInput:
            continue
        promise = "an unusable prompt is refused before anything is spent"
        raise AssertionError(f"{runner.name}: {promise}: a prompt with {what} was not")


def _texts(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    for item in cast("Iterable[Any]", inner) if isinstance(value, (list, dict)) else ():
        yield from _texts(item)


_MAX_BYTES = 24 * 1024 * 1024
_FLOOD = 40 * 1024 * 1024
_HUGE = b'{"type":"noise","padding":"' + b"x" * 20_000_000 + b'"}\n'


def check_runner(runner: AnyRunner, transcripts: Iterable[bytes] = (), call: RunnerRequest | None = None) -> None:
    """Raise an AssertionError that names the broken rule.

    A transcript is the stdout of a successful run; for a runner that calls an endpoint, the body of a response. `call`
    is a call that the runner accepts.
    """
    call = call or RunnerRequest("Water the plants", "/")
    if isinstance(runner, EndpointRunner):
        check_endpoint_runner(runner, transcripts, call)
        return
    proof = _Check(runner, call)
    proof.check_command()
    proof.check_silence()
    for transcript in transcripts:
        proof.check_transcript(transcript)


class _Check:
    def __init__(self, runner: Runner, call: RunnerRequest) -> None:
        self._runner = runner
        self._call = call
        runner.check(call)
        self._finals = runner.command(call).finals

    # -- the command

    def check_command(self) -> None:
        plain = self._runner.command(self._call)
        for prompt in PROMPTS:
            call = replace(self._call, prompt=prompt)
            self._runner.check(call)
            command = self._runner.command(call)
            preview = repr(prompt[:40])
            self._require(
                command.argv == plain.argv, "the prompt stays out of the arguments", f"{preview} changed argv"
            )
            self._require(prompt.encode() in command.stdin, "the prompt arrives as it is", f"{preview} is not in stdin")
        _check_unusable(self._runner, self._call)
        self._check_secrets()

    def _check_secrets(self) -> None:
        with patch.dict(os.environ, dict.fromkeys(secret_names(self._runner.name, self._runner.provider), CANARY)):
            command = self._runner.command(self._call)
        seen = [word for word in (*command.argv, *command.env_add.values()) if CANARY in word]
        self._require(not seen, "secrets come by the agent's environment", f"one was taken from ours: {seen}")

    # -- the reader

    def check_silence(self) -> None:
        """The tool writes nothing, with any exit code, and without one when it was ended."""
        for exit_code in (0, 1, None) if self._finals else (1, None):
            result = self._read([], exit_code)
            self._require(
                not result.succeeded, "success needs the final event", f"silence and exit code {exit_code} did"
            )

    def check_transcript(self, transcript: bytes) -> None:
        lines = transcript.splitlines(keepends=True)
        clean = self._read(lines, 0)
        self._require(clean.succeeded, "its own transcript is a success", f"it was read as a failure: {clean.error}")
        finals = [number for number, line in enumerate(lines) if self._is_final(line)]
        if self._finals:
            self._require(bool(finals), "finals find the final event", f"no line matches one of {self._finals}")
            self._check_cuts(transcript, sum(len(line) for line in lines[: finals[0]]))
            cut = self._read([line for number, line in enumerate(lines) if number not in finals], 0)
            self._require(not cut.succeeded, "success needs the final event", "all but the final event was a success")
            stays = self._read(lines, None)
            promise = "a tool that stays after its final event is done"
            self._require(stays.succeeded, promise, f"it failed: {stays.error}")
        self._check_noise(lines, clean)
        for number, line in enumerate(lines):  # every value may have another type in a later version
            for wrong in spoilt(line):
                self._read([*lines[:number], wrong, *lines[number + 1 :]], 0)
        self._check_flood(lines)

    def _check_cuts(self, transcript: bytes, before_final: int) -> None:
        """The output may end at any byte."""
        step = max(1, len(transcript) // MAX_CUTS)
        for end in range(0, len(transcript), step):
            result = self._read(transcript[:end].splitlines(keepends=True), 0)
            early = result.succeeded and end <= before_final
            self._require(not early, "success needs the final event", f"it succeeded when cut at byte {end}")

    def _check_noise(self, lines: list[bytes], clean: RunnerResult) -> None:
        noisy = [piece for line in lines for piece in (*(noise + b"\n" for noise in NOISE), line)]
        for what, result in (("noise", self._read(noisy, 0)), ("a huge line", self._read([_HUGE, *lines], 0))):
            if not self._finals:  # all output of such a tool is its text
                result = replace(result, text=clean.text, text_length=0, structured=clean.structured, declared=None)
                clean = replace(clean, text_length=0, declared=None)
            self._require(result == clean, "what is no event of its tool changes nothing", f"{what} did: {result}")

    def _check_flood(self, lines: list[bytes]) -> None:
        long = [line for line in map(padded, lines) if not self._is_final(line)] or [b"x" * PADDING + b"\n"]
        tracemalloc.start()
        try:
            reader = self._runner.reader()
            for number in range(_FLOOD // PADDING):
                reader.feed(long[number % len(long)])
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        self._require(kept <= _MAX_BYTES, "what is kept is bounded", f"{kept >> 20} MB were, of {_FLOOD >> 20} MB")
        self._check_result(reader.close(1))

    def _is_final(self, line: bytes) -> bool:
        return any(matches(pattern, line) for pattern in self._finals)

    def _read(self, lines: Iterable[bytes], exit_code: int | None) -> RunnerResult:
        try:
            reader = self._runner.reader()
            for line in lines:
                reader.feed(line)
            result = reader.close(exit_code)
        except Exception as error:
            raise AssertionError(f"{self._runner.name}: a reader never raises: {error!r}") from error
        self._check_result(result)
        return result

    def _check_result(self, result: RunnerResult) -> None:
        for broken, holds in CONSISTENT.items():
            self._require(holds(result), "results are consistent", f"{broken}: {result!r:.500}")

    def _require(self, holds: bool, promise: str, broken: str) -> None:
        if not holds:
            raise AssertionError(f"{self._runner.name}: {promise}: {broken}")
