"""Conformance tests for runners: the rules for every runner, tested with faults of real tools."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import patch

from matins.errors import InvalidInput
from matins.executors.processes.output import matches
from matins.executors.runners.endpoint_conformance import check_endpoint_runner
from matins.executors.runners.known_faults import (
    CANARY,
    CONSISTENT,
    MAX_CUTS,
    NOISE,
    PADDING,
    PROMPTS,
    UNUSABLE,
    padded,
    secret_names,
    spoilt,
)
from matins.executors.runners.protocol import AnyRunner, Call, EndpointRunner, Runner, RunnerResult

_MAX_BYTES = 24 * 1024 * 1024
_FLOOD = 40 * 1024 * 1024
_HUGE = b'{"type":"noise","padding":"' + b"x" * 20_000_000 + b'"}\n'


def check_runner(runner: AnyRunner, transcripts: Iterable[bytes] = (), call: Call | None = None) -> None:
    """Raise an AssertionError that names the broken rule.

    A transcript is the stdout of a successful run; for a runner that calls an endpoint, the body of a response. `call`
    is a call that the runner accepts.
    """
    call = call or Call("Water the plants", "/")
    if isinstance(runner, EndpointRunner):
        check_endpoint_runner(runner, transcripts, call)
        return
    proof = _Check(runner, call)
    proof.check_command()
    proof.check_silence()
    for transcript in transcripts:
        proof.check_transcript(transcript)


class _Check:
    def __init__(self, runner: Runner, call: Call) -> None:
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
        for what, prompt in UNUSABLE.items():
            self._check_refusal(what, replace(self._call, prompt=prompt))
        self._check_secrets()

    def _check_refusal(self, what: str, call: Call) -> None:
        try:
            self._runner.check(call)
        except InvalidInput:
            return
        self._require(False, "an unusable prompt is refused before anything is spent", f"a prompt with {what} was not")

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
            self._check_without(lines, finals)
        self._check_noise(lines, clean)
        for number, line in enumerate(lines):
            self._check_spoilt(lines, number, line)
        self._check_flood(lines)

    def _check_cuts(self, transcript: bytes, before_final: int) -> None:
        """The output may end at any byte."""
        step = max(1, len(transcript) // MAX_CUTS)
        for end in range(0, len(transcript), step):
            result = self._read(transcript[:end].splitlines(keepends=True), 0)
            early = result.succeeded and end <= before_final
            self._require(not early, "success needs the final event", f"it succeeded when cut at byte {end}")

    def _check_without(self, lines: list[bytes], finals: list[int]) -> None:
        result = self._read([line for number, line in enumerate(lines) if number not in finals], 0)
        self._require(not result.succeeded, "success needs the final event", "all but the final event was a success")
        ended = self._read(lines, None)
        self._require(ended.succeeded, "a tool that stays after its final event is done", f"it failed: {ended.error}")

    def _check_noise(self, lines: list[bytes], clean: RunnerResult) -> None:
        noisy = [piece for line in lines for piece in (*(noise + b"\n" for noise in NOISE), line)]
        for what, result in (("noise", self._read(noisy, 0)), ("a huge line", self._read([_HUGE, *lines], 0))):
            if not self._finals:  # all output of such a tool is its text
                result = replace(result, text=clean.text, text_length=0, structured=clean.structured, declared=None)
                clean = replace(clean, text_length=0, declared=None)
            self._require(result == clean, "what is no event of its tool changes nothing", f"{what} did: {result}")

    def _check_spoilt(self, lines: list[bytes], number: int, line: bytes) -> None:
        """Every value of every event may have another type in a later version."""
        for wrong in spoilt(line):
            self._read([*lines[:number], wrong, *lines[number + 1 :]], 0)

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
