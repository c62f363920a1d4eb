"""Puts a runner to the proof: what every runner promises, tried with the faults that tools have shown."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch

from matins.errors import InvalidInput
from matins.executors.runners.base import Call, Runner, Told

LONGEST_TEXT = 1_000_000
_MOST_CUTS = 1_500
_MOST_SPOILT = 600
_ROOM = 24 * 1024 * 1024
_FLOOD, _PADDING = 40 * 1024 * 1024, 512 * 1024
_HUGE = b'{"type":"noise","padding":"' + b"x" * 20_000_000 + b'"}\n'
_CANARY = "canary-5f3759df"
_SECRETS = ("API_KEY", "TOKEN", "AUTH_TOKEN", "PASSWORD", "SECRET")
_PROMPTS = (
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
_UNUSABLE = {"a NUL": "water\0the plants", "half a character": "water \ud83e the plants"}
_NOISE = (
    b"", b"not json at all", b'{"type":', b"[1, 2, 3]", b'"result"', b"null", b"42", b'{"type": 7}', b"{}", b"\x00" * 9,
    b"\xe2\x82", b"\xff\xfe\xfd", b"\x1b[?1004l", b'{"a": NaN, "b": 1e999}', b"{" * 2_000, b'{"a":' * 2_000,
)  # fmt: skip
_WRONG: tuple[Any, ...] = (None, True, -1, 1e308, 10**400, "", "\0", "\ud800", "text", [], [[]], {}, {"type": []})


def check_runner(runner: Runner, transcripts: Iterable[bytes] = (), call: Call | None = None) -> None:
    """Raise an AssertionError that names the promise which a runner breaks.

    A transcript is all that its tool wrote to stdout in a run that went well. `call` is one that it accepts.
    """
    proof = _Proof(runner, call or Call("Water the plants", "/"))
    proof.check_command()
    proof.check_silence()
    for transcript in transcripts:
        proof.check_transcript(transcript)


class _Proof:
    def __init__(self, runner: Runner, call: Call) -> None:
        self._runner = runner
        self._call = call
        runner.refuse(call)
        self._finals = runner.command(call).finals

    # -- the command

    def check_command(self) -> None:
        plain = self._runner.command(self._call)
        for prompt in _PROMPTS:
            call = replace(self._call, prompt=prompt)
            self._runner.refuse(call)
            command = self._runner.command(call)
            shown = repr(prompt[:40])
            self._hold(command.argv == plain.argv, "the prompt stays out of the arguments", f"{shown} changed argv")
            self._hold(prompt.encode() in command.stdin, "the prompt arrives as it is", f"{shown} is not in stdin")
        for what, prompt in _UNUSABLE.items():
            self._check_refusal(what, replace(self._call, prompt=prompt))
        self._check_secrets()

    def _check_refusal(self, what: str, call: Call) -> None:
        try:
            self._runner.refuse(call)
        except InvalidInput:
            return
        self._hold(False, "what cannot be told is refused before anything is spent", f"a prompt with {what} was not")

    def _check_secrets(self) -> None:
        names = {f"{owner.upper()}_{kind}" for owner in (self._runner.name, self._runner.provider) for kind in _SECRETS}
        with patch.dict(os.environ, dict.fromkeys((*names, *_SECRETS), _CANARY)):
            command = self._runner.command(self._call)
        seen = [word for word in (*command.argv, *command.env_add.values()) if _CANARY in word]
        self._hold(not seen, "secrets come by the agent's environment", f"one was taken from ours: {seen}")

    # -- the reader

    def check_silence(self) -> None:
        """A tool that said nothing at all, whatever its exit code, and none when it was ended."""
        for exit_code in (0, 1, None) if self._finals else (1, None):
            told = self._read([], exit_code)
            self._hold(not told.succeeded, "success needs the final event", f"silence and exit code {exit_code} did")

    def check_transcript(self, transcript: bytes) -> None:
        lines = transcript.splitlines(keepends=True)
        clean = self._read(lines, 0)
        self._hold(clean.succeeded, "its own transcript is a success", f"it was read as a failure: {clean.error}")
        finals = [number for number, line in enumerate(lines) if self._is_final(line)]
        if self._finals:
            self._hold(bool(finals), "finals find the final event", f"no line has one of {self._finals}")
            self._check_cuts(transcript, sum(len(line) for line in lines[: finals[0]]))
            self._check_without(lines, finals)
        self._check_noise(lines, clean)
        for number, line in enumerate(lines):
            self._check_spoilt(lines, number, line)
        self._check_flood(lines, clean)

    def _check_cuts(self, transcript: bytes, before_final: int) -> None:
        """A tool, or its output, may end at every byte."""
        step = max(1, len(transcript) // _MOST_CUTS)
        for end in range(0, len(transcript), step):
            told = self._read(transcript[:end].splitlines(keepends=True), 0)
            early = told.succeeded and end <= before_final
            self._hold(not early, "success needs the final event", f"it succeeded when cut at byte {end}")

    def _check_without(self, lines: list[bytes], finals: list[int]) -> None:
        told = self._read([line for number, line in enumerate(lines) if number not in finals], 0)
        self._hold(not told.succeeded, "success needs the final event", "all but the final event was a success")
        ended = self._read(lines, None)
        self._hold(ended.succeeded, "a tool that stays after its final event is done", f"it failed: {ended.error}")

    def _check_noise(self, lines: list[bytes], clean: Told) -> None:
        noisy = [piece for line in lines for piece in (*(noise + b"\n" for noise in _NOISE), line)]
        for what, told in (("noise", self._read(noisy, 0)), ("a huge line", self._read([_HUGE, *lines], 0))):
            if not self._finals:  # whatever such a tool writes is its text
                told = replace(told, text=clean.text, structured=clean.structured, declared=clean.declared)
            self._hold(told == clean, "what is no event of its tool changes nothing", f"{what} did: {told}")

    def _check_spoilt(self, lines: list[bytes], number: int, line: bytes) -> None:
        """Every value of every event may be another one some day."""
        for count, spoilt in enumerate(_spoilt(line)):
            if count < _MOST_SPOILT:
                self._read([*lines[:number], spoilt, *lines[number + 1 :]], 0)

    def _check_flood(self, lines: list[bytes], clean: Told) -> None:
        padded = [line for line in map(_padded, lines) if not self._is_final(line)] or [b"x" * _PADDING + b"\n"]
        tracemalloc.start()
        try:
            reader = self._runner.reader()
            for number in range(_FLOOD // _PADDING):
                reader.feed(padded[number % len(padded)])
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        self._hold(kept <= _ROOM, "what is kept is bounded", f"{kept >> 20} MB were, of {_FLOOD >> 20} MB")
        self._check_told(reader.close(1))

    def _is_final(self, line: bytes) -> bool:
        return any(needle in line for needle in self._finals)

    def _read(self, lines: Iterable[bytes], exit_code: int | None) -> Told:
        try:
            reader = self._runner.reader()
            for line in lines:
                reader.feed(line)
            told = reader.close(exit_code)
        except Exception as error:
            raise AssertionError(f"{self._runner.name}: a reader never raises: {error!r}") from error
        self._check_told(told)
        return told

    def _check_told(self, told: Told) -> None:
        for broken, holds in _CONSISTENT.items():
            self._hold(holds(told), "what is told holds together", f"{broken}: {told!r:.500}")

    def _hold(self, holds: bool, promise: str, broken: str) -> None:
        if not holds:
            raise AssertionError(f"{self._runner.name}: {promise}: {broken}")


def _texts(told: Told) -> list[str | None]:
    limit = told.limit.reason if told.limit else None
    return [told.text, told.error, told.reason, told.session, told.model, *told.denials, limit]


def _storable(told: Told) -> bool:
    try:
        json.dumps(told.structured, allow_nan=False, ensure_ascii=False).encode()
        return b"\0" not in "".join(text for text in _texts(told) if text).encode()
    except (ValueError, TypeError, RecursionError):
        return False


_CONSISTENT: dict[str, Callable[[Told], bool]] = {
    "a success was executed, and has no error and no limit": lambda told: (
        not told.succeeded or (told.executed and told.error is None and told.limit is None)
    ),
    "a failure says why": lambda told: told.succeeded or bool(told.error),
    "tokens, money and turns are not negative": lambda told: (
        min(told.tokens_in, told.tokens_out, told.tokens_cached, told.cost_usd or 0, told.turns or 0) >= 0
    ),
    "money that was reported is there": lambda told: told.cost_reported == (told.cost_usd is not None),
    f"a text has at most {LONGEST_TEXT:,} characters": lambda told: len(told.text) <= LONGEST_TEXT,
    "every text can be stored (no NUL, no half characters, JSON is JSON)": _storable,
}


def _spoilt(line: bytes) -> Iterator[bytes]:
    """The line with each of its values replaced by each of the wrong ones."""
    begin = line.find(b"{")
    try:
        event = json.loads(line[begin:]) if begin >= 0 else None
    except ValueError:
        return
    for put in _places(event):
        for wrong in _WRONG:
            kept = put(wrong)
            yield line[:begin] + json.dumps(event).encode() + b"\n"
            put(kept)


def _places(value: Any) -> Iterator[Callable[[Any], Any]]:
    """For every place in a value: what puts another thing there, and returns what was."""
    if isinstance(value, dict):
        items = list(cast("dict[Any, Any]", value).items())
    else:
        items = list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []

    for key, inner in items:

        def put(new: Any, key: Any = key) -> Any:
            old = cast("Any", value[key])
            value[key] = new
            return old

        yield put
        yield from _places(inner)


def _padded(line: bytes) -> bytes:
    """With its longest text far longer."""
    texts = sorted(line.split(b'"')[1::2], key=len)
    return line.replace(texts[-1], texts[-1] + b" x" * (_PADDING // 2)) if texts else line
