"""Checks in their own threads, with the real clock: none delays another schedule. Rows C6, C8, P7, H2."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matins.executors import check_executor
from matins.executors.job_context import JobContext
from matins.library import Matins

PATIENCE = 90
AT_ONCE = {"when": "1d", "first": "immediately", "job": "work"}
Start = Callable[..., Matins]


@pytest.fixture
def start(url: str) -> Iterator[Start]:
    """A Matins with its threads. Job: `work` succeeds, and tells that it ran."""
    opened: list[Matins] = []

    def start_one(**options: Any) -> Matins:
        made = Matins(url, **options)
        opened.append(made)
        return made

    yield start_one
    for matins in opened:
        matins.close()


class Ran:
    """Which schedules have run; to be waited for."""

    def __init__(self, matins: Matins) -> None:
        self._runs: list[str] = []
        self._changed = threading.Condition()
        matins.job("work")(self._note)

    def _note(self, run: JobContext) -> None:
        with self._changed:
            self._runs.append(run.schedule)
            self._changed.notify_all()

    def wait(self, *names: str) -> None:
        with self._changed:
            done = self._changed.wait_for(lambda: set(names) <= set(self._runs), PATIENCE)
        assert done, f"{names} have not run, only {self._runs}"


class Gate:
    """A command that tells when it begins, and then goes on only when it is let."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self._begun, self._open = folder / f"{name}-begun", folder / f"{name}-open"
        for fifo in (self._begun, self._open):
            os.mkfifo(fifo)
        self.command = f"echo begun > {self._begun}; read answer < {self._open}; exit $answer"

    def wait_until_it_begins(self) -> None:
        assert self._begun.read_text() == "begun\n"

    def answer(self, exit_code: int = 0) -> None:
        self._open.write_text(f"{exit_code}\n")


def over(matins: Matins, run_id: str) -> str:
    """The state of a run that ends by itself, once it has: looked at after each turn of the engine."""
    assert matins._loop is not None
    engine, turned = matins._loop.engine, threading.Condition()
    turn = engine.turn

    def tell() -> int:
        delay = turn()
        with turned:
            turned.notify_all()
        return delay

    engine.turn = tell  # type: ignore[method-assign]
    with turned:
        done = turned.wait_for(lambda: not matins.runs.get(run_id).live, PATIENCE)
    engine.turn = turn  # type: ignore[method-assign]
    assert done, f"run {run_id} is still {matins.runs.get(run_id).status}"
    return matins.runs.get(run_id).state


@pytest.mark.parametrize("word", ["pre_check", "before_run"])
def test_c6_a_slow_check_delays_no_other_schedule(start: Start, tmp_path: Path, word: str) -> None:
    """C6 P7 H2: another one is due while it is under way, and runs"""
    matins, gate = start(), Gate(tmp_path)
    ran = Ran(matins)
    with matins:
        matins.add("slow", when="1d", job="work", check_timeout="5m", **{word: gate.command})
        run = matins.run("slow")
        gate.wait_until_it_begins()
        matins.add("quick", **AT_ONCE)
        matins.add("checked", **AT_ONCE, pre_check="true")
        ran.wait("quick", "checked")
        assert matins.runs.get(run.id).status == "checking"
        gate.answer(0)
        ran.wait("slow")


def test_c6_several_at_once(start: Start, tmp_path: Path) -> None:
    """C6: they are all under way before the first of them ends"""
    matins, gates = start(), [Gate(tmp_path, f"gate-{n}") for n in range(4)]
    ran = Ran(matins)
    with matins:
        runs = []
        for n, gate in enumerate(gates):
            matins.add(f"s{n}", when="1d", job="work", check_timeout="5m", pre_check=gate.command)
            runs.append(matins.run(f"s{n}"))
        for gate in gates:
            gate.wait_until_it_begins()
        for n, gate in enumerate(gates):
            gate.answer(n % 2)
        ran.wait("s0", "s2")
        assert [over(matins, run.id) for run in runs] == ["succeeded", "skipped"] * 2


def test_more_than_there_is_room_for(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6 V3: the others wait, and those without a check do not wait with them"""
    monkeypatch.setattr(check_executor, "MAX_CONCURRENT", 1)
    matins, gate = start(), Gate(tmp_path)
    ran = Ran(matins)
    with matins:
        matins.add("slow", when="1d", job="work", check_timeout="5m", pre_check=gate.command)
        matins.run("slow")
        gate.wait_until_it_begins()
        matins.add("second", when="1d", job="work", pre_check="true")
        second = matins.run("second")
        matins.add("plain", **AT_ONCE)
        ran.wait("plain")
        assert matins.runs.checks(second.id) == []
        gate.answer(0)
        ran.wait("slow", "second")


def test_c8_a_slow_guard_delays_no_other_schedule(start: Start) -> None:
    """C8: each run has its own thread to be guarded in"""
    asked, go_on = threading.Event(), threading.Event()

    def guard(context: dict[str, Any]) -> None:
        if context["schedule"] == "slow":
            asked.set()
            assert go_on.wait(PATIENCE)

    matins = start(guard=guard)
    ran = Ran(matins)
    with matins:
        matins.add("slow", when="1d", job="work")
        matins.run("slow")
        assert asked.wait(PATIENCE)
        matins.add("quick", **AT_ONCE)
        ran.wait("quick")
        go_on.set()
        ran.wait("slow")


def test_c8_a_guard_that_never_answers_blocks(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: and is not asked again for the same run"""
    monkeypatch.setattr(check_executor, "GUARD_TIMEOUT_MS", 50)
    asked, go_on = [], threading.Event()

    def guard(context: dict[str, Any]) -> None:
        asked.append(context["run_id"])
        if len(asked) == 1:
            assert go_on.wait(PATIENCE)

    matins = start(guard=guard)
    ran = Ran(matins)
    with matins:
        matins.add("s", when="1d", job="work")
        run = matins.run("s")
        assert over(matins, run.id) == "blocked"
        evidence = matins.runs.get(run.id).evidence
        assert evidence is not None
        assert evidence["message"] == "the guard failed: TimeoutError: no answer within 0.05 s"
        monkeypatch.setattr(check_executor, "GUARD_TIMEOUT_MS", PATIENCE * 1_000)
        matins.run("s")
        ran.wait("s")
        assert len(asked) == 2
    go_on.set()


def test_c8_who_is_told_may_take_for_ever(start: Start) -> None:
    """C8: the run is blocked all the same"""
    told, go_on = threading.Event(), threading.Event()

    async def blocked(context: dict[str, Any], reason: str) -> None:
        told.set()
        assert go_on.wait(PATIENCE)

    matins = start(guard=lambda context: "closed", on_blocked=blocked)
    if "work" not in matins.jobs:
        matins.job("work")(lambda run: None)
    with matins:
        matins.add("s", when="1d", job="work")
        run = matins.run("s")
        assert told.wait(PATIENCE)
        assert over(matins, run.id) == "blocked"
    go_on.set()


def test_a_check_that_is_under_way_does_not_hold_up_the_stop(start: Start, tmp_path: Path) -> None:
    """C6 H11: it is ended, says nothing, and the next process checks again"""
    matins, gate = start(), Gate(tmp_path)
    matins.job("work")(lambda run: None)
    with matins:
        matins.add("s", when="1d", job="work", check_timeout="5m", pre_check=gate.command)
        run = matins.run("s")
        gate.wait_until_it_begins()
    assert matins.runs.get(run.id).status == "checking"
    assert matins.runs.checks(run.id) == []
