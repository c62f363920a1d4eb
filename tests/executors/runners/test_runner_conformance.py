"""`check_runner` finds each broken promise, and our own runners keep them all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from driving import TOOLS, Driver

from matins.coding_tools.conformance import check_runner
from matins.coding_tools.demo import Demo
from matins.errors import InvalidInput
from matins.executors.runners.builtin import Shell
from matins.executors.runners.protocol import Command, Runner, RunnerRequest, RunnerResult
from matins.executors.runners.python import Python

OURS: dict[str, Runner] = {**TOOLS, "demo": Demo(), "shell": Shell(), "python": Python()}
COMMANDS = {"shell": ("cat",), "python": ("json:dumps",)}
TRANSCRIPT = b"".join(
    json.dumps(event, ensure_ascii=False).encode() + b"\n"
    for event in ({"type": "said", "text": "The heels are mended: grüße 🪴"}, {"type": "done", "pairs": 3})
)


@pytest.mark.parametrize("name", OURS)
def test_b4_our_own_runners_keep_their_promises(name: str, driver: Driver) -> None:
    """B4 B9"""
    words = {"extra_args": COMMANDS.get(name, ())}
    transcript = b"".join(driver.run(OURS[name], "Water the plants: fault:denial", **words).lines)
    check_runner(OURS[name], [transcript], driver.call("Water the plants", **words))


class Reader:
    """Of a tool that says things and is done."""

    def __init__(self) -> None:
        self.text = ""
        self.done = False

    def feed(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict) and event.get("type") == "said" and isinstance(event.get("text"), str):
            self.text = event["text"].encode(errors="replace").decode().replace("\0", "")[-1_000_000:]
        self.done = self.done or (isinstance(event, dict) and event.get("type") == "done")

    def close(self, exit_code: int | None) -> RunnerResult:
        return RunnerResult(self.done, self.done, text=self.text, error=None if self.done else "it was cut short")


class Cobbler:
    name = program = "cobbler"
    provider = "leather"
    chooses_session = False

    def check(self, call: RunnerRequest) -> None:
        if "\0" in call.prompt or "\ud83e" in call.prompt:
            raise InvalidInput("It cannot be told", field="prompt")

    def command(self, call: RunnerRequest) -> Command:
        return Command(("cobbler", "--json"), call.prompt.encode(), finals=({"type": "done"},))

    def reader(self) -> Reader:
        return Reader()


def test_a_runner_of_ones_own_that_keeps_them() -> None:
    """B4"""
    check_runner(Cobbler(), [TRANSCRIPT])


class PromptInArguments(Cobbler):
    def command(self, call: RunnerRequest) -> Command:
        return Command(("cobbler", call.prompt), b"", finals=("done",))


class PromptLost(Cobbler):
    def command(self, call: RunnerRequest) -> Command:
        return Command(("cobbler",), call.prompt.strip().encode(), finals=("done",))


class TakesNul(Cobbler):
    def check(self, call: RunnerRequest) -> None:
        pass

    def command(self, call: RunnerRequest) -> Command:
        return super().command(RunnerRequest(call.prompt.encode(errors="replace").decode(), "/"))


class SecretInArguments(Cobbler):
    def command(self, call: RunnerRequest) -> Command:
        key = os.environ.get("LEATHER_API_KEY", "")
        return Command(("cobbler", f"--key={key}"), call.prompt.encode(), finals=("done",))


class NoFinals(Cobbler):
    def command(self, call: RunnerRequest) -> Command:
        return super().command(call)._replace(finals=("never written",))


def reading(change: Callable[[Reader], None]) -> type[Cobbler]:
    class Changed(Cobbler):
        def reader(self) -> Reader:
            reader = super().reader()
            change(reader)
            return reader

    return Changed


def believes_exit_codes(reader: Reader) -> None:
    reader.close = lambda code: RunnerResult(True, code == 0, error=None if code == 0 else "failed")  # type: ignore[method-assign]


def believes_any_words(reader: Reader) -> None:
    close = reader.close

    def believe(code: int | None) -> RunnerResult:
        reader.done = bool(reader.text)
        return close(code)

    reader.close = believe  # type: ignore[method-assign]


def raises_at_garbage(reader: Reader) -> None:
    feed = reader.feed
    reader.feed = lambda line: (json.loads(line), feed(line))[1]  # type: ignore[method-assign]


def raises_at_wrong_types(reader: Reader) -> None:
    feed = reader.feed

    def take(line: bytes) -> None:
        feed(line)
        if line.startswith(b'{"type": "said", "text": ') and line.endswith(b"}\n"):
            json.loads(line)["text"].strip()

    reader.feed = take  # type: ignore[method-assign]


def keeps_everything(reader: Reader) -> None:
    feed, kept = reader.feed, list[bytes]()
    reader.feed = lambda line: (kept.append(line + b" "), feed(line))[1]  # type: ignore[method-assign]


def fails_silently(reader: Reader) -> None:
    reader.close = lambda code: RunnerResult(reader.done, reader.done)  # type: ignore[method-assign]


def tells_nul(reader: Reader) -> None:
    close = reader.close
    reader.close = lambda code: RunnerResult(True, True, text="\0") if reader.done else close(code)  # type: ignore[method-assign]


def is_led_astray(reader: Reader) -> None:
    feed = reader.feed

    def take(line: bytes) -> None:
        feed(line)
        reader.text += "?" if line.startswith(b"not json") else ""

    reader.feed = take  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("runner", "promise"),
    [
        (PromptInArguments, "the prompt stays out of the arguments: '-p --version' changed argv"),
        (PromptLost, "the prompt arrives as it is"),
        (TakesNul, "an unusable prompt is refused before anything is spent: a prompt with a NUL was not"),
        (SecretInArguments, "secrets come by the agent's environment"),
        (NoFinals, "finals find the final event"),
        (reading(believes_exit_codes), "success needs the final event: silence and exit code 0 did"),
        (reading(believes_any_words), "success needs the final event: it succeeded when cut at byte"),
        (reading(raises_at_garbage), "a reader never raises: JSONDecodeError"),
        (reading(raises_at_wrong_types), "a reader never raises: AttributeError"),
        (reading(keeps_everything), "what is kept is bounded"),
        (reading(fails_silently), "results are consistent: a failure says why"),
        (reading(tells_nul), "results are consistent: every text can be stored"),
        (reading(is_led_astray), "what is no event of its tool changes nothing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_b4_each_broken_promise_is_named(runner: type[Cobbler], promise: str) -> None:
    """B4 B9"""
    with pytest.raises(AssertionError, match=f"cobbler: {promise}"):
        check_runner(runner(), [TRANSCRIPT])


def test_a_transcript_of_another_tool_is_told_as_such(tmp_path: Path) -> None:
    """B4"""
    with pytest.raises(AssertionError, match="its own transcript is a success: it was read as a failure: it was cut"):
        check_runner(Cobbler(), [b'{"type": "said", "text": "hello"}\n'])
