"""A run whose engine is gone is followed to its end, whatever has become of its agent meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import office as offices
import pytest
from office import Office

from matins import InvalidInput, Run, SchedulerShutdownError
from matins.errors import StoreUnavailable
from matins.runtime.attempt import Attempt
from matins.runtime.run_context import ContextLoader

office = offices.office


class Gate:
    """Two ends of a shell agent: it says that it runs, and ends when it is let go."""

    def __init__(self, folder: Path) -> None:
        self.go, self.diary = folder / "go", folder / "diary"
        os.mkfifo(self.go)
        self.command = ["sh", "-c", f"echo run >> {self.diary}; cat {self.go}; echo done"]

    @contextmanager
    def left_alone(self, office: Office) -> Iterator[None]:
        """Its engine stops while it runs; when what is inside is done there is one again, and it is let go."""
        with self.go.open("wb", buffering=0) as go:  # opens when the agent runs
            with pytest.raises(SchedulerShutdownError):
                office.matins.stop(timeout=0.05, leave=True)
            yield
            office.matins.start()
            with suppress(BrokenPipeError):  # it has been ended
                go.write(b"on\n")


def begin(office: Office, gate: Gate, **words: Any) -> Run:
    office.matins.agents.set("sh", runner="shell", command=gate.command, **words)
    office.matins.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
    return office.matins.run("s")


def test_b9_whatever_is_missing_now_it_is_read(office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B9: it needs neither its folder, its secrets nor its program to end"""
    gate, workdir = Gate(tmp_path), tmp_path / "work"
    workdir.mkdir()
    monkeypatch.setenv("MY_TOKEN", "tok-4711")
    begin(office, gate, workdir=str(workdir), environment={"KEY": "env:MY_TOKEN"})
    with gate.left_alone(office):
        workdir.rmdir()
        monkeypatch.delenv("MY_TOKEN")
        monkeypatch.setenv("PATH", str(tmp_path))
    run = office.wait("s")
    assert run.state == "succeeded", run.outcome
    assert run.outcome["result"]["text"].split() == ["on", "done"]
    assert gate.diary.read_text() == "run\n"


def dropped(office: Office) -> None:
    """As a file does that names the agent no more."""
    store = office.matins.store
    with store.transaction(office.matins.clock.now_ms()) as transaction:
        transaction.delete_policy("agent", "sh")


def called_from_now_on(office: Office) -> None:
    office.matins.agents.set("sh", runner="openai", model="m", url="https://api.example.com")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (dropped, 'There is no agent "sh"'),
        (called_from_now_on, "The agent now has the runner openai, which starts no process."),
    ],
)
def test_b9_what_nobody_can_read_any_more_is_held_when_it_has_ended(
    office: Office, tmp_path: Path, change: Callable[[Office], None], why: str
) -> None:
    """B9: while its process lives it is not lost, and it is never repeated"""
    gate = Gate(tmp_path)
    begin(office, gate)
    with gate.left_alone(office):
        change(office)
    run = office.wait("s", lambda run: run.state == "held")
    assert run.outcome["error"].startswith("the run ended with exit code 0, but its output cannot be read: " + why)
    assert gate.diary.read_text() == "run\n"


def test_b9_what_nobody_can_read_any_more_can_be_cancelled(office: Office, tmp_path: Path) -> None:
    """B9"""
    gate = Gate(tmp_path)
    started = begin(office, gate)
    with gate.left_alone(office):
        dropped(office)
        office.matins.start()
        office.matins.runs.cancel(started.id)
        assert office.wait("s").state == "cancelled"


def test_b9_its_agent_is_there_again_when_it_ends(office: Office, tmp_path: Path) -> None:
    """B9"""
    gate = Gate(tmp_path)
    begin(office, gate)
    with gate.left_alone(office):
        dropped(office)
        office.matins.start()
        office.matins.agents.set("sh", runner="shell", command=gate.command)
    assert office.wait("s").state == "succeeded"


class Away:
    """A store that cannot be read for the first so many times that something is looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, what: str, times: int) -> None:
        self.left, self._look_up = times, getattr(ContextLoader, what)
        monkeypatch.setattr(ContextLoader, what, lambda loader, attempt: self.look_up(loader, attempt))

    def look_up(self, loader: ContextLoader, attempt: Attempt) -> Any:
        if self.left:
            self.left -= 1
            raise StoreUnavailable("The server is away.")
        return self._look_up(loader, attempt)


def test_b9_a_run_that_ends_while_the_store_is_away_is_read_when_it_is_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9 H8: its output is there, so it is neither held nor repeated"""
    away = Away(monkeypatch, "reported", 1)
    office.matins.agents.set("sh", runner="shell", command=["echo", "done"])
    office.matins.add("s", when="every day at 09:00", agent="sh", prompt="Hello", on_unknown="hold")
    run = office.fire("s")
    assert (run.state, run.attempt, away.left) == ("succeeded", 1, 0), run.outcome
    assert run.outcome["result"]["text"].strip() == "done"


@pytest.mark.parametrize("what", ["run_context"])
def test_b9_a_run_that_cannot_begin_while_the_store_is_away_begins_later(
    office: Office, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """B9 H8: nothing of it has been started, so it has not failed"""
    away = Away(monkeypatch, what, 1)
    office.matins.agents.set("sh", runner="shell", command=["echo", "done"])
    office.matins.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
    run = office.fire("s")
    assert (run.state, run.attempt, away.left) == ("succeeded", 1, 0), run.outcome


@pytest.mark.parametrize(("what", "times"), [("worker_of", 1), ("run_context", 2)])
def test_b9_a_run_is_adopted_when_the_store_is_back(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, times: int
) -> None:
    """B9 H8: what the store did not tell is asked again"""
    gate = Gate(tmp_path)
    begin(office, gate)
    with gate.left_alone(office):
        away = Away(monkeypatch, what, times)
    run = office.wait("s")
    assert (run.state, away.left) == ("succeeded", 0), run.outcome
    assert gate.diary.read_text() == "run\n"


def begin_with_work(office: Office, folder: Path) -> tuple[Gate, Path]:
    """A run that has claimed the only task of a file."""
    tasks = folder / "TASKS.yaml"
    tasks.write_text("- title: Mend the gate\n")
    office.matins.work_sources.set("tasks", kind="tasks", path=str(tasks))
    gate = Gate(folder)
    office.matins.agents.set("sh", runner="shell", command=gate.command)
    office.matins.add("s", when="every day at 09:00", agent="sh", prompt="Do it", work_source="tasks")
    office.matins.run("s")
    return gate, tasks


@pytest.mark.parametrize(("end", "status"), [("succeeded", "done"), ("failed", "failed"), ("unknown", "failed")])
def test_h9_whoever_says_how_a_held_run_ended_tells_its_source(
    office: Office, tmp_path: Path, end: str, status: str
) -> None:
    """H9: nothing stays claimed by a run that is over"""
    gate, tasks = begin_with_work(office, tmp_path)
    with gate.left_alone(office):
        dropped(office)
    held = office.wait("s", lambda run: run.state == "held")
    assert "claimed" in tasks.read_text()
    kept = tasks.read_text()
    tasks.write_text("- titel: Mend the gate\n")
    with pytest.raises(InvalidInput, match="titel"):
        office.matins.runs.resolve(held.id, end)  # its source cannot be told: it stays as it is
    assert office.matins.runs.get(held.id).state == "held"
    tasks.write_text(kept)
    assert office.matins.runs.resolve(held.id, end).state == end
    assert f"status: {status}" in tasks.read_text()
    assert f"owner set it: {end}." in tasks.read_text()


def test_h9_a_task_that_was_taken_away_is_not_replaced_by_another(office: Office, tmp_path: Path) -> None:
    """H9: a run that is taken up claims nothing new"""
    gate, tasks = begin_with_work(office, tmp_path)
    with gate.left_alone(office):
        tasks.write_text("- title: Water the roses\n")
    assert office.wait("s").state == "succeeded"
    assert tasks.read_text() == "- title: Water the roses\n"
