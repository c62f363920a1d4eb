"""Invariant 13: a run of steps runs exactly while one of its steps is live, and each step waits for those before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sim_rows import Commit, Reader, RunRow
from sim_violation import require

from matins.model.run import RunState

_TURNED_DOWN = {
    RunState.CANCELLED,
    RunState.SKIPPED,
    RunState.DENIED,
    RunState.EXPIRED,
    RunState.BLOCKED,
    RunState.OVER_BUDGET,
}


WAITING_FOR_STEP = "waiting_for_step"


class StepRules:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._steps: dict[int, dict[int, RunRow]] = defaultdict(dict)
        """The steps of every run there is, by their ids."""
        self.carried_over = 0
        self.skipped = 0

    def check(self, commit: Commit, runs: Mapping[int, RunRow]) -> None:
        concerned: set[int] = set()
        for old, new in commit.runs:
            if new.parent is not None:
                self._note(old, new)
                concerned.add(new.parent)
            elif self._reader.steps(new):
                concerned.add(new.id)
        for run_id in sorted(concerned):
            self._check_whole(runs[run_id])
        for run_id in commit.rows("runs") & self._steps.keys():
            if run_id not in runs:
                left = [step for step in self._steps.pop(run_id) if step in runs]
                require(13, not left, f"run {run_id} was purged, but its steps {left} are there")

    def _note(self, old: RunRow | None, new: RunRow) -> None:
        assert new.parent is not None
        self._steps[new.parent][new.id] = new
        self.carried_over += old is None and new.state == RunState.SUCCEEDED
        self.skipped += new.state == RunState.SKIPPED

    def _check_whole(self, run: RunRow) -> None:
        steps = self._steps[run.id].values()
        present = {step.step: step for step in steps if step.round == run.attempt}
        late = [step for step in steps if step.round != run.attempt and step.state < RunState.SUCCEEDED]
        require(13, not late, f"steps of a former round are live: {late} of {run}")
        live = [step for step in present.values() if step.state < RunState.SUCCEEDED]
        running = run.state in range(RunState.STARTING, RunState.SUCCEEDED)
        require(13, running == bool(live), f"it runs: {running}, but its live steps are {live}: {run}")
        require(13, run.owner is None, f"a run of steps has a worker: {run}")
        parts = self._reader.steps(run)
        numbers = {part.title: number for number, part in enumerate(parts, 1)}
        after = [[numbers[title] for title in part.after] for part in parts]
        whole = len(present) == (len(after) if run.attempt else 0)
        require(13, whole, f"round {run.attempt} has the steps {sorted(present)}: {run}")
        for number, step in present.items():
            _check_order(step, [present[other] for other in after[number - 1]])
        if run.attempt and run.state >= RunState.SUCCEEDED:
            _check_outcome(run, {step.state for step in present.values()})


def _check_order(step: RunRow, before: list[RunRow]) -> None:
    """A step waits while those before it are live, starts when all of them succeeded, and else never."""
    succeeded = all(other.state == RunState.SUCCEEDED for other in before)
    if step.state == RunState.WAITING and step.reason == WAITING_FOR_STEP:
        awaited = any(other.state < RunState.SUCCEEDED for other in before)
        lost = any(other.state > RunState.SUCCEEDED for other in before)
        require(13, awaited and not lost, f"nobody will ever start it: {step} waits for {before}")
    elif step.state < RunState.SUCCEEDED or step.attempt:
        require(13, succeeded, f"it starts before its time: {step} waits for {before}")


def _check_outcome(run: RunRow, states: set[int]) -> None:
    """The worst outcome of its steps, unless it was cancelled."""
    if RunState.FAILED in states:
        expected = {RunState.FAILED}
    elif states == {RunState.SUCCEEDED}:
        expected = {RunState.CANCELLED} if run.cancelling else {RunState.SUCCEEDED}
    else:
        expected = {RunState.CANCELLED} if run.cancelling else states - {RunState.SUCCEEDED}
    waited = run.state in _TURNED_DOWN and RunState.FAILED in states  # while its next round waited
    require(13, waited or run.state in expected, f"its steps ended as {states}: {run}")
