"""What an agent spends is counted while it runs, whatever its tool; at its limit its whole tree is ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from matins import Matins, Run, SchedulerShutdownError
from matins.coding_tools.claude import Claude
from matins.coding_tools.codex import Codex
from matins.coding_tools.gemini import Gemini
from matins.coding_tools.goose import Goose
from matins.coding_tools.opencode import Opencode
from matins.errors import StoreUnavailable
from matins.executors.metering import SpendingWatch
from matins.executors.processes.supervisor import Supervisor
from matins.executors.runners.builtin import Shell
from matins.executors.runners.openai import OpenAI
from matins.executors.runners.protocol import Metered, Runner
from matins.model.run import Usage
from matins.runtime import run_context
from matins.runtime.attempt import Attempt
from matins.runtime.spending import SpendingLimit
from standin_path import standin_path

TOOLS = ("claude", "codex", "gemini", "goose", "opencode")
PATIENCE = 60


class Office:
    """A Matins whose agents say something, and then stay."""

    def __init__(self, folder: Path) -> None:
        self.matins = Matins(f"sqlite:///{folder}/matins.db")
        self._home = str(folder)
        self._told = threading.Condition()
        self.matins.subscribe(self._notify)

    def _notify(self, event: dict[str, Any]) -> None:
        with self._told:
            self._told.notify_all()

    def wake(self, name: str, runner: str, length: int = 8_000, model: str | None = None, **words: Any) -> Run:
        """Start a run whose agent repeats a prompt of this length, and does not end by itself."""
        environment = {"STANDIN_HOME": self._home, "STANDIN_FAULT": "stays"}
        self.matins.agents.set(name, runner=runner, model=model, environment=environment)
        self.matins.add(name, when="every day at 09:00", agent=name, prompt="x" * length, **words)
        return self.matins.run(name)

    def wait(self, run: Run) -> Run:
        """Until it is over."""
        with self._told:
            assert self._told.wait_for(lambda: not self.matins.runs.get(run.id).live, PATIENCE), run
        return self.matins.runs.get(run.id)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setenv("PATH", standin_path())
    made = Office(tmp_path)
    with made.matins:
        yield made
    made.matins.close()


def ended(run: Run) -> tuple[str, str | None, str]:
    return run.state, run.reason, run.outcome["result"]["ended_by"]


@pytest.mark.parametrize("tool", TOOLS)
def test_b5_max_tokens_holds_while_it_runs(office: Office, tool: str) -> None:
    """B5 B9: also for the tools that tell what they used only at the end, by what they have said"""
    run = office.wait(office.wake("s", tool, max_tokens=1_000))
    assert ended(run) == ("over_budget", "over_budget", "budget"), run.outcome
    used = run.outcome["result"]["tokens"]
    assert sum(used.values()) > 1_000
    assert run.outcome["error"].endswith("tokens, more than the 1k allowed for one run, and was stopped")
    assert office.matins.get("s").paused_by == "budget"


def test_b5_max_tokens_holds_when_the_store_is_back(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """B5 S7: what was spent while the limits could not be read is compared with them later"""
    limits, times = run_context.spending_limits, iter(range(2))

    def spending_limits(*arguments: Any) -> list[SpendingLimit]:
        if next(times, None) is not None:
            raise StoreUnavailable("The server is away.")
        return limits(*arguments)

    monkeypatch.setattr(run_context, "spending_limits", spending_limits)
    run = office.wait(office.wake("s", "claude", max_tokens=1_000))
    assert ended(run) == ("over_budget", "over_budget", "budget"), run.outcome
    assert next(times, None) is None


@pytest.mark.parametrize(
    ("tool", "model", "said"),
    [
        ("claude", "claude-opus-5-5", " by the price table"),
        ("claude", None, " by the price table"),
        ("codex", "gpt-5.5", " by the price table"),
        ("opencode", "anthropic/claude-opus-5-5", ""),
    ],
)
def test_b5_max_cost_holds_while_it_runs(office: Office, tool: str, model: str | None, said: str) -> None:
    """B5: as the tool tells it, else by the price table, for the model that was asked for or that the tool names"""
    run = office.wait(office.wake("s", tool, model=model, max_cost="$0.0005"))
    assert ended(run) == ("over_budget", "over_budget", "budget"), run.outcome
    money = run.outcome["result"]["money"]
    assert money["micro_dollars"] > 500
    assert money["estimated"] is bool(said)
    assert f"{said}, more than the $0.0005 allowed for one run, and was stopped" in run.outcome["error"]


def test_b5_a_budget_holds_while_it_runs(office: Office) -> None:
    """B5: what is set aside for other runs is not there for this one"""
    m = office.matins
    m.budgets.set("day", period="day", max_cost="$1.20")
    m.prices.set("dear", input="$1", output="$1000")
    other = office.wake("other", "codex", model="without-a-price")  # half a dollar is set aside for it
    run = office.wait(office.wake("s", "codex", 3_600, model="dear"))
    assert ended(run) == ("over_budget", "over_budget", "budget"), run.outcome
    assert 500_000 < run.outcome["result"]["money"]["micro_dollars"] < 1_200_000
    assert 'more than the $0.70 left in budget "day"' in run.outcome["error"]
    m.runs.cancel(other.id)
    assert office.wait(other).state == "cancelled"


def test_b5_b9_an_adopted_run_is_watched_too(office: Office, tmp_path: Path) -> None:
    """B5 B9: from its first line on; the limit that counts is the one of now"""
    m = office.matins
    run = office.wake("s", "opencode", model="anthropic/claude-opus-5-5")
    while "step_finish" not in m.runs.output(run.id, limit=100_000).text:
        pass
    with pytest.raises(SchedulerShutdownError):
        m.stop(timeout=0.05, leave=True)
    m.agents.edit("s", max_cost="$0.001")
    m.start()
    assert ended(office.wait(run)) == ("over_budget", "over_budget", "budget")


def test_who_keeps_within_its_limits_is_left_alone(office: Office, tmp_path: Path) -> None:
    """And nobody looks any more when all are over."""
    m = office.matins
    m.agents.set("ann", runner="claude", environment={"STANDIN_HOME": str(tmp_path)})
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello", max_cost="$1", max_tokens=10_000)
    assert office.wait(m.run("s")).state == "succeeded"
    for thread in [thread for thread in threading.enumerate() if thread.name == "matins-meter"]:
        thread.join(PATIENCE)
        assert not thread.is_alive()


# -- what readers say before the end

SAID = "y" * 4_000
UNTOLD: dict[str, tuple[Runner, list[dict[str, Any]]]] = {
    "codex": (
        Codex(),
        [
            {"type": "item.completed", "item": {"type": "agent_message", "text": SAID}},
            {"type": "item.completed", "item": {"type": "command_execution", "aggregated_output": 2 * SAID}},
        ],
    ),
    "gemini": (
        Gemini(),
        [
            {"type": "message", "role": "assistant", "content": SAID, "delta": True},
            {"type": "tool_result", "tool_id": "1", "output": 2 * SAID},
        ],
    ),
    "goose": (
        Goose(),
        [
            {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": SAID}]}},
            {
                "type": "message",
                "message": {
                    "role": "user",
                    "content": [
                        {"type": "toolResponse", "toolResult": {"value": [{"type": "text", "text": 2 * SAID}]}}
                    ],
                },
            },
        ],
    ),
}


AGAIN = {
    "goose": {
        "type": "message",
        "message": {"id": "2", "role": "assistant", "content": [{"type": "text", "text": SAID}]},
    }
}
READ = {"codex": 4_000, "gemini": 3_000, "goose": 3_000}
"""Codex tells a command as an answer of its own."""


@pytest.mark.parametrize("tool", UNTOLD)
def test_b4_who_tells_no_tokens_has_used_what_it_said(tool: str) -> None:
    """B4 H9: what it said is output; for each answer it read again all that was said and shown before. So it stays when
    it is ended."""
    runner, events = UNTOLD[tool]
    reader = runner.reader()
    assert isinstance(reader, Metered)
    for event in (*events, AGAIN.get(tool, events[0])):
        reader.feed(json.dumps(event).encode())
    so_far, result = reader.so_far(), reader.close(None)
    assert (so_far.tokens_in, so_far.tokens_out) == (result.tokens_in, result.tokens_out) == (READ[tool], 2_000)


def test_b4_what_is_told_holds_when_the_end_has_come() -> None:
    """B4: however much was said"""
    reader = Codex().reader()
    usage = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}
    for event in (*UNTOLD["codex"][1], {"type": "turn.completed", "usage": usage}):
        reader.feed(json.dumps(event).encode())
    result = reader.so_far()
    assert (result.tokens_in, result.tokens_out, result.tokens_cached) == (6, 3, 4)


def test_b4_every_tool_but_a_command_is_metered() -> None:
    """B4: the words of a command cost nothing"""
    readers = (Claude().reader(), Opencode().reader(), OpenAI().reader())
    assert all(isinstance(reader, Metered) for reader in readers)
    shell = Shell().reader()
    shell.feed(SAID.encode())
    assert not isinstance(shell, Metered)
    assert shell.close(None).tokens_out == 0


# -- one run's stream


class Stream:
    """Stands in for a supervisor with one run, whose output is what the test says; it can be ended."""

    def __init__(self) -> None:
        self.pieces: list[tuple[bytes, int, int]] = []
        self.read = threading.Semaphore(0)
        self.ended = threading.Event()
        self.ends: list[tuple[int, int, str]] = []
        self.files = self  # it is both

    def read_after(self, run_id: int, epoch: int, offset: int, limit: int) -> tuple[bytes, int, int]:
        if not self.pieces:
            self.read.release()
            return b"", offset, 0
        return self.pieces.pop(0)

    def end(self, run_id: int, epoch: int, why: str) -> None:
        self.ends.append((run_id, epoch, why))
        self.ended.set()


def step(tokens: int, reason: str = "tool-calls") -> bytes:
    part = {"id": f"prt_{tokens}", "tokens": {"input": tokens}, "reason": reason}
    return json.dumps({"type": "step_finish", "part": part}).encode() + b"\n"


def pieces(*data: bytes) -> list[tuple[bytes, int, int]]:
    at = [sum(map(len, data[:n])) for n in range(len(data))]
    return [(piece, begin, 0) for piece, begin in zip(data, at, strict=True)]


def watched(stream: Stream, most: int, given: list[tuple[bytes, int, int]]) -> str | None:
    """Why it was ended, when all of it has been read."""
    work = Attempt(7, 2, 1, None, 1, None, 0, cast("Any", None))
    stream.pieces = given
    bound = SpendingLimit(None, most, "allowed for one run")
    watch = SpendingWatch(lambda: cast("Supervisor", stream), lambda work: [bound], every_s=0.001)
    watch.watch(work, Opencode().reader(), lambda result: Usage(0, result.tokens_in))
    while not stream.ended.is_set() and not stream.read.acquire(timeout=0.01):
        pass
    why = watch.unwatch(work.mark)
    watch.close()
    return why


def test_b5_lines_are_read_wherever_they_are_cut() -> None:
    """B5"""
    stream, line = Stream(), step(101)
    why = watched(stream, 100, pieces(line[:5], line[5:30], line[30:]))
    assert why == "It used 101 tokens, more than the 100 allowed for one run, and was stopped"
    assert stream.ends == [(7, 2, "budget")]


def test_b5_exactly_the_limit_is_within_it() -> None:
    """B5"""
    stream = Stream()
    assert watched(stream, 100, pieces(step(60), step(40))) is None
    assert stream.ends == []


def test_what_was_not_kept_is_passed_over() -> None:
    """To the end of the line in which the ring begins; a line that is too long is passed over too."""
    cut, long = step(1_000), b"x" * 9_000_000
    gap = [(step(50) + cut[:30], 0, 0), (cut[30:] + step(51), 5_000, 0)]
    assert "used 101 tokens" in str(watched(Stream(), 100, gap))
    assert "used 102 tokens" in str(watched(Stream(), 100, pieces(step(50), long, long, b"\n" + step(52))))


def test_what_has_come_to_its_end_is_not_ended_for_what_that_tells() -> None:
    """It is spent already. One that goes on after its final event, and spends more, is ended."""
    stream = Stream()
    assert watched(stream, 100, pieces(step(101, "stop"))) is None
    assert "used 203 tokens" in str(watched(Stream(), 100, pieces(step(101, "stop"), step(102))))
