"""Invariant 13: a run of steps runs exactly while one of its steps is live, and each step waits its turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diary import Line

from matins.model.run import RunState

if TYPE_CHECKING:
    from ledger import Record, Tally


CARRIED_OVER = "carried_over"
"""The reason of a step that succeeded in the run that this one repeats."""


class _Times(NamedTuple):
    """When jobs began and ended, by a clock that nobody sets: the first beginning of a run, the end of each attempt."""

    begun: dict[int, int]
    ended: dict[tuple[int, int], int]


def check_steps(
    tally: Tally,
    definitions: Mapping[tuple[int, int], Mapping[str, Any]],
    records: Iterable[Record],
    attempts: Iterable[tuple[int, int]],
    lines: Sequence[Line],
) -> None:
    by_id = {record.id: record for record in records}
    rounds: dict[int, dict[int, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
    times = _times(lines)
    worked = {run_id for run_id, _ in attempts} | times.begun.keys()
    for record in by_id.values():
        if record.parent is not None:
            tally.steps += 1
            _check_step(tally, record, by_id.get(record.parent), worked)
            rounds[record.parent][record.round or 0][record.step] = record
    for record in by_id.values():
        steps = definitions[record.schedule_id, record.rev].get("steps", ())
        if steps and record.parent is None:
            _check_whole(tally, record, rounds[record.id], len(steps), worked)
            for one in rounds[record.id].values():
                _check_order(tally, one, _numbers_after(steps), times)


def _numbers_after(steps: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """The numbers, from 1, of the steps that each waits for by title."""
    numbers = {step["title"]: number for number, step in enumerate(steps, 1)}
    return [[numbers[title] for title in step.get("after", ())] for step in steps]


def _times(lines: Sequence[Line]) -> _Times:
    begun: dict[int, int] = {}
    for line in lines:
        if line["kind"] == "begin":
            begun[line["run"]] = min(line["at"], begun.get(line["run"], line["at"]))
    ended = {(line["run"], line["epoch"]): line["at"] for line in lines if line["kind"] == "end"}
    return _Times(begun, ended)


def _check_step(tally: Tally, step: Record, parent: Record | None, worked: set[int]) -> None:
    if parent is None:
        tally.wrong(f"{step} is a step of a run that is not there")
    if step.reason == CARRIED_OVER and (step.attempt or step.epoch or step.id in worked):
        tally.wrong(f"{step} was carried over, and it ran")


def _check_whole(
    tally: Tally, run: Record, rounds: Mapping[int, Mapping[int, Record]], size: int, worked: set[int]
) -> None:
    if run.owner is not None or run.id in worked:
        tally.wrong(f"{run} has steps, and a worker of its own")
    late = [step for number, steps in rounds.items() for step in steps.values() if number != run.attempt]
    if any(step.state.live for step in late):
        tally.wrong(f"{run} has live steps of a former round")
    present = rounds.get(run.attempt, {})
    if len(present) != (size if run.attempt else 0):
        tally.wrong(f"{run} has {len(present)} of {size} steps in round {run.attempt}")
    live = [step for step in present.values() if step.state.live]
    if (run.state in range(RunState.STARTING, RunState.SUCCEEDED)) != bool(live):
        tally.wrong(f"{run} has the live steps {live}")
    succeeded = {step.state for step in present.values()} == {RunState.SUCCEEDED}
    if run.state is RunState.SUCCEEDED and not succeeded:
        tally.wrong(f"{run} succeeded, but not all of its steps")


def _check_order(tally: Tally, steps: Mapping[int, Record], after: Sequence[Sequence[int]], times: _Times) -> None:
    """No step began before the ends of those that it waits for."""
    for number, step in steps.items():
        for other in (steps[other] for other in after[number - 1] if step.id in times.begun and other in steps):
            if other.state is not RunState.SUCCEEDED:
                tally.wrong(f"{step} ran, although it waits for {other}")
            elif other.works and times.begun[step.id] < times.ended.get(other.mark, 0):
                tally.wrong(f"{step} began before the end of {other}")
