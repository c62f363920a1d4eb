"""Processes are killed, stopped and starved; nothing is lost and nothing happens twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_ledger import RUNS, check_agents
from cast import HOLDS, LETTERBOXES, RETRIES, STEPS_HOLD, TOLD
from clockwork import YEAR_MS
from diary import Diary, Reader
from ledger import Rows, Tally, reckon
from planted import FAULTS
from stage import Stage
from theatre import Cover
from traced_sqlite import lose_answers
from worker import take_letters

from matins.delivery import answers
from matins.delivery.destinations import destination_kinds
from matins.executors.job_context import JobContext
from matins.model.run import RunState
from matins.runtime import catalog
from matins.testing import ManualClock, Sandbox

_RUN = Path(__file__).with_name("run.py")
_STORES = ("sqlite", "postgres")
_COUNTS = ("lost", "duplicated", "repeated", "stale_accepted", "unfinished", "held")
_ENTRIES = ("store", "kills", "pauses", "slots", *_COUNTS, "answers", "copies", "points", "pairs")


def _torture(*words: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    done = subprocess.run([sys.executable, str(_RUN), *words], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-4000:]
    line = json.loads(done.stdout)
    assert tuple(line) == _ENTRIES
    return line, done


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("store", _STORES)
def test_nothing_is_lost_and_nothing_happens_twice(store: str) -> None:
    """H2 H3 H8 S2 S4 S7 S8: 150 kills, in the functions that write and at random; `make torture` kills at every point
    of the statement trace, and insists on every fault."""
    line, done = _torture("--store", store, "--kills", "150", "--seed", "1", "--coarse")
    assert done.returncode == 0, f"{line}\n{done.stderr[-6000:]}"
    assert line["slots"] > 0
    assert len(line["pairs"]) == (8 if store == "sqlite" else 10)
    wrong = {name: line[name] for name in ("lost", "duplicated", "stale_accepted", "unfinished") if line[name]}
    assert not wrong, f"{line}\n{done.stderr[-6000:]}"


def test_what_led_to_a_point_is_played_again_until_a_death_there() -> None:
    """S2: a rare point is not left to chance, nor forgotten"""
    cover = Cover()
    for life, point in (("long", "a: begin: before"), ("unsound", "b: commit: after"), ("unsound", "a: begin: before")):
        cover.hear({"kind": "passed", "point": point}, ("main", life))
    assert (cover.never(), cover.leads("main")) == (["a: begin: before", "b: commit: after"], ["long", "unsound"])
    cover.hear({"kind": "died", "point": "a: begin: before"}, ("main", "long"))
    assert (cover.never(), cover.leads("main"), cover.leads("clock")) == (["b: commit: after"], ["unsound"], [])
    cover.hear({"kind": "died", "point": "b: commit: after"}, ("main", "unsound"))
    assert (cover.never(), cover.leads("main")) == ([], [])


def test_an_unsound_disk_loses_the_answer_to_a_claim_and_then_the_release(tmp_path: Path) -> None:
    """S2 H8: the claim is known to nobody but the store; the engine finds it, and the run happens once"""
    bench = Sandbox(f"sqlite:///{tmp_path / 'unsound.db'}", clock=ManualClock("2026-01-01T00:00:00Z"))
    ran: list[int] = []
    bench.job("work")(lambda run: ran.append(run.id))
    bench.add("steady", when="* * * * *", job="work")
    diary = tmp_path / "diary"
    lose_answers(bench, Diary(diary))
    for _ in range(130):
        bench.clock.advance(1_000)
        bench.engine.run_once()  # which goes on after an error
    told = [line["kind"] for line in Reader(diary).news()]
    runs = bench.runs.list(schedule="steady")
    assert told.count("unanswered") == 3
    assert [(run.state, run.epoch) for run in runs] == [("succeeded", 1), ("succeeded", 4)]
    assert sorted(ran) == sorted(int(run.id) for run in runs)
    bench.close()


_FIRST = "WHERE id = (SELECT min(id) FROM runs WHERE"
_SPOILED_STEPS = {
    "has the live steps": f"UPDATE runs SET state = 3 {_FIRST} step = 3)",
    "of 3 steps in round 1": f"DELETE FROM runs {_FIRST} step = 2)",
    "a worker of its own": f"UPDATE runs SET owner = 1 {_FIRST} parent IS NULL)",
    "of a run that is not there": f"UPDATE runs SET parent = 99999 {_FIRST} step = 1)",
    "was carried over, and it ran": f"UPDATE runs SET reason = 'carried_over' {_FIRST} step = 1)",
    "succeeded, but not all of its steps": f"UPDATE runs SET state = 11 {_FIRST} step = 1)",
}


@pytest.mark.parametrize("fault", _SPOILED_STEPS)
def test_the_reckoning_sees_what_is_wrong_with_steps(fault: str, tmp_path: Path) -> None:
    """P6 S2: a run that is over before its steps, a step that is missing, one that ran although it was carried over"""
    url = f"sqlite:///{tmp_path / 'spoiled.db'}"
    lines = _steps_played(url)
    now = lines.pop()["at"]
    whole = reckon(url, lines, now)
    assert (whole.notes, whole.slots, whole.steps) == ([], 3, 9)
    rows = Rows(url)
    rows.all(_SPOILED_STEPS[fault])
    rows.close()
    assert any(fault in note for note in reckon(url, lines, now).notes)


def test_the_reckoning_sees_a_step_that_began_too_early(tmp_path: Path) -> None:
    """P6"""
    url = f"sqlite:///{tmp_path / 'early.db'}"
    lines = _steps_played(url)
    now = lines.pop()["at"]
    assert not reckon(url, lines, now).notes
    third = next(line for line in lines if line["kind"] == "begin" and line["step"] == 3)
    third["at"] = 0
    assert any("began before the end of" in note for note in reckon(url, lines, now).notes)


def _steps_played(url: str) -> list[dict[str, Any]]:
    """What jobs of a schedule with two steps and a third behind them tell; at last the instant of the end."""
    lines: list[dict[str, Any]] = []
    bench = _told_by(Sandbox(url, clock=ManualClock("2026-01-01T00:00:00Z")), lines)
    steps = [{"title": title, "job": "work"} for title in ("Left", "Right")]
    bench.add("steady", when="* * * * *", steps=[*steps, {"title": "Join", "job": "work", "after": ["Left", "Right"]}])
    bench.run_until("2026-01-01T00:03:00Z")
    now = bench.clock.now_ms()
    bench.close()
    return [*lines, {"kind": "now", "at": now}]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Plants a fault in this process until the end of the test."""
    catalog._remembered.cache_clear()  # compiled settings are shared with other tests
    for module, name in ((catalog, "of_step"), (answers, "_as_they_are"), (answers, "part_key")):
        monkeypatch.setattr(module, name, getattr(module, name))
    yield lambda name: FAULTS[name](None)
    monkeypatch.undo()
    catalog._remembered.cache_clear()


@pytest.mark.parametrize(("deaf", "duplicated"), [(False, 0), (True, 1)])
def test_the_reckoning_sees_that_a_step_ignores_the_hold_of_its_schedule(
    deaf: bool, duplicated: int, tmp_path: Path, plant: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6 H8: the engine is gone while a step runs; the one that follows holds it, and a deaf one does it again"""
    if deaf:
        plant("steps-ignore-hold")
    url, clock = f"sqlite:///{tmp_path / 'held.db'}", ManualClock("2026-01-01T00:00:00Z")
    lines: list[dict[str, Any]] = []
    gone = _told_by(Sandbox(url, clock=clock), lines)
    steps = [{"title": "Left", "job": "work"}, {"title": "Join", "job": "work", "after": ["Left"]}]
    gone.add(STEPS_HOLD, when="*/2 * * * * *", overlap="allow", on_unknown="hold", steps=steps)
    monkeypatch.setattr(gone.engine.executor, "drain", list)  # the outcomes of its jobs are lost
    clock.advance(2_000)
    gone.engine.run_once()
    gone.engine.run_once()
    assert [line["kind"] for line in lines] == ["begin", "end"]
    now = clock.now_ms()
    heir = _told_by(Sandbox(url, clock=clock), lines)
    heir.settle()
    found = reckon(url, lines, now)
    assert (found.duplicated, found.unfinished, found.lost) == (duplicated, 0, 0), found.notes
    assert any("although it was to be held" in note for note in found.notes) is deaf
    gone.close()
    heir.close()


@pytest.mark.parametrize("forgets", [False, True])
def test_the_reckoning_sees_an_answer_that_is_delivered_twice(
    forgets: bool, tmp_path: Path, plant: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B21: killed after a letter of each kind arrived; the next engine repeats them, marked or under their keys"""
    if forgets:
        plant("copies-forgotten")
    monkeypatch.setitem(destination_kinds(), "file", destination_kinds()["file"])  # set below, and as it was afterwards
    for name in LETTERBOXES:
        monkeypatch.setitem(destination_kinds(), f"torture-{name}", None)
    diary, killed_at = tmp_path / "diary", {f"answer to {name}: arrived" for name in LETTERBOXES}
    take_letters(Diary(diary), _Points(killed_at))
    url, clock = f"sqlite:///{tmp_path / 'told.db'}", ManualClock("2026-01-01T00:00:00Z")
    bench = Sandbox(url, clock=clock)
    bench.job("work")(lambda run: {"epoch": run._attempt.epoch, "text": "all is well"})
    for name in LETTERBOXES:
        bench.destinations.set(name, kind=f"torture-{name}", to=["me"])
    bench.add(TOLD, when="* * * * *", job="work", deliver=list(LETTERBOXES), max_executions=1)
    bench.run_until("2026-01-01T00:01:00Z")
    for _ in range(4):  # two of them are killed
        with suppress(_Killed):
            bench.outbox.run_once(clock.now_ms())
        bench.close()
        clock.advance(3_600_000)
        bench = Sandbox(url, clock=clock)
    bench.close()
    found = reckon(url, Reader(diary).news(), clock.now_ms())
    assert not killed_at
    assert bool(found.duplicated) is forgets, found.notes


class _Killed(BaseException):
    """The engine ends here."""


class _Points:
    """Ends the engine at the first pass of each of these points."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def passed(self, name: str) -> None:
        if name in self._names:
            self._names.discard(name)
            raise _Killed


def _told_by(bench: Sandbox, lines: list[dict[str, Any]]) -> Sandbox:
    @bench.job("work")
    def work(run: JobContext) -> dict[str, int]:
        fact = {"run": run.id, "epoch": run._attempt.epoch, "key": run.key, "step": run._attempt.compiled.step}
        lines.extend({"kind": kind, "at": len(lines) + n, **fact} for n, kind in enumerate(("begin", "end"), 1))
        return {"epoch": run._attempt.epoch}

    return bench


_SPOILED = {
    "lost": "DELETE FROM runs WHERE id = (SELECT min(id) + 2 FROM runs)",
    "duplicated": "UPDATE runs SET slots = 2, first_slot = slot - 60000 WHERE id = (SELECT min(id) + 2 FROM runs)",
    "unfinished": "UPDATE runs SET state = 3 WHERE id = (SELECT min(id) + 2 FROM runs)",
    "stale_accepted": "UPDATE runs SET epoch = 2 WHERE id = (SELECT min(id) + 2 FROM runs)",
}


@pytest.mark.parametrize("fault", _SPOILED)
def test_the_reckoning_sees_what_is_wrong(fault: str, tmp_path: Path) -> None:
    """S2: a record that is missing, there twice, without an end or from an old epoch is counted, as that only."""
    url = f"sqlite:///{tmp_path / 'spoiled.db'}"
    bench = Sandbox(url, clock=ManualClock("2026-01-01T00:00:00Z"))
    bench.job("work")(lambda run: {"epoch": run._attempt.epoch})
    bench.add("steady", when="* * * * *", job="work")
    bench.run_until("2026-01-01T00:10:00Z")
    now = bench.clock.now_ms()
    bench.close()
    rows = Rows(url)
    attempts = rows.all("SELECT id, epoch FROM runs WHERE epoch > 0")
    lines = [
        {"kind": kind, "at": 0, "run": run, "epoch": epoch, "key": run}
        for kind in ("begin", "end")
        for run, epoch in attempts
    ]
    whole = reckon(url, lines, now)
    assert not whole.notes
    assert whole.slots == 10
    rows.all(_SPOILED[fault])
    rows.close()
    spoiled = reckon(url, lines, now)
    counts = {name: getattr(spoiled, name) for name in _SPOILED}
    assert counts == {name: int(name == fault) for name in _SPOILED}, spoiled.notes


def test_the_reckoning_knows_that_records_were_taken_back_when_a_schedule_was_retired(tmp_path: Path) -> None:
    """S2: its cursor was told, then an engine noticed an earlier step of the clock, then the schedule was deleted"""
    url = f"sqlite:///{tmp_path / 'retired.db'}"
    bench = Sandbox(url, clock=ManualClock("2026-01-01T00:00:00Z"))
    bench.job("work")(lambda run: {"epoch": run._attempt.epoch})
    made = bench.add("steady", when="* * * * *", job="work", overlap="allow")
    bench.run_until("2026-01-01T00:03:00Z")
    bench.clock.step(YEAR_MS)
    for _ in range(3):
        bench.clock.advance(61_000)
        bench.settle()
    ahead = bench.clock.now_ms()  # and so is its cursor
    bench.clock.step(-YEAR_MS)
    bench.settle()
    bench.delete("steady")
    now = bench.clock.now_ms()
    bench.close()
    rows = Rows(url)
    lines = [
        {"kind": kind, "at": 0, "run": run, "epoch": epoch, "key": run}
        for kind in ("begin", "end")
        for run, epoch in rows.all("SELECT id, epoch FROM runs WHERE epoch > 0")
    ]
    lines += [{"kind": "stepped", "at": ahead}, {"kind": "retired", "schedule": int(made.id), "cursor": ahead}]
    assert reckon(url, lines, now).notes == []
    rows.all(f"DELETE FROM runs {_FIRST} true) + 1")
    rows.close()
    assert reckon(url, lines, now).lost == 1


_SPOILED_AGENTS = {  # the schedule, the words of its last run that are told again and those that are not, its row
    "ran 2 times although it was to be held": (HOLDS, "begin", "", ""),
    "succeeded, but its agent never ended": (RETRIES, "", "end", ""),
    "was cut, and is not held as unknown": (HOLDS, "", "end", f"state = {RunState.FAILED:d}, reason = 'failed'"),
    "why does not say that the outcome of slot": (HOLDS, "", "end", f"state = {RunState.HELD:d}, reason = 'failed'"),
}


@pytest.mark.parametrize("fault", _SPOILED_AGENTS)
def test_the_reckoning_sees_what_is_wrong_with_agents(fault: str, tmp_path: Path) -> None:
    """B1 H8: one that ran twice instead of being held, one that was cut and is called done, one without a word"""
    name, again, never, change = _SPOILED_AGENTS[fault]
    stage, last = _agents_played(tmp_path)
    assert _agents_reckoned(stage).notes == []
    told = stage.effects.read_text().splitlines()
    told = [line for line in told if line != f"{never} {last[name][1]}"]
    stage.effects.write_text("\n".join([*told, f"{again} {last[name][1]}"] if again else told))
    if change:
        rows = Rows(stage.url)
        rows.all(f"UPDATE runs SET {change} WHERE id = {last[name][0]}")
        rows.close()
    found = _agents_reckoned(stage)
    assert any(fault in note for note in found.notes), found.notes
    assert found.duplicated == int(again == "begin")


def test_the_reckoning_lets_an_agent_run_again_that_may(tmp_path: Path) -> None:
    """H8: `on_unknown: retry` is counted, and is not wrong"""
    stage, last = _agents_played(tmp_path)
    with stage.effects.open("a") as effects:
        effects.write(f"begin {last[RETRIES][1]}\n")
    found = _agents_reckoned(stage)
    assert (found.notes, found.repeated, found.duplicated) == ([], 1, 0)


def _agents_reckoned(stage: Stage) -> Tally:
    tally, rows = Tally(), Rows(stage.url)
    check_agents(tally, stage, rows.all(RUNS))
    rows.close()
    return tally


def _agents_played(folder: Path) -> tuple[Stage, dict[str, tuple[int, str]]]:
    """What agents leave that tell their begin and their end; the id and the key of the last run of each."""
    stage = Stage("agents", f"sqlite:///{folder / 'agents.db'}", folder)
    bench = Sandbox(stage.url, clock=ManualClock("2026-01-01T00:00:00Z"))
    last: dict[str, tuple[int, str]] = {}

    @bench.job("work")
    def work(run: JobContext) -> None:
        last[run.schedule] = run.id, run.key
        with stage.effects.open("a") as effects:
            effects.write(f"begin {run.key}\nend {run.key}\n")

    for name in (HOLDS, RETRIES):
        bench.add(name, when="* * * * *", job="work")
    bench.run_until("2026-01-01T00:03:00Z")
    bench.close()
    return stage, last
