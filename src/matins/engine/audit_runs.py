"""What the log of events says about runs and their attempts: a record that was changed or deleted does not agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from matins.engine.transitions import ALL, CLAIM, INITIAL_STATES
from matins.model.audit import BoundRun, StoredEvent
from matins.model.rows import AttemptRow
from matins.model.run import RunState

RUNS_PRUNED = "history.runs_pruned"
SHORTENED = "run.shortened"
WITHDRAWN = "run.withdrawn"


def _with_steps(events: Mapping[str, RunState]) -> dict[str, RunState]:
    return dict(events) | {event.replace("run.", "step.", 1): state for event, state in events.items()}


CREATED = _with_steps({event: state for state, event in INITIAL_STATES.items()}) | {
    "step.succeeded": RunState.SUCCEEDED
}
"""The types of events with which runs are created. Some are also written later: only the first ones have a slot."""
STARTED = _with_steps({CLAIM.event: CLAIM.target})
ENDS = _with_steps(
    {transition.event: transition.target for transition in ALL if transition.is_terminal}
    | {event: state for state, event in INITIAL_STATES.items() if state >= RunState.SUCCEEDED}
)
"""The state of a run by the event of its end."""
_OF_RUNS = {*CREATED, *STARTED, *ENDS, SHORTENED, WITHDRAWN}
_NOT_EVIDENCE = (
    "reason", "rev", "epoch", "digest", "slot", "slots", "first", "by", "who", "title", "step", "of", "started_at",
    "worker", "summary", "quote", "error",
)  # fmt: skip
"""What else events of ends say."""
Attempts = Mapping[int, Mapping[int, AttemptRow]]
"""Attempts by run and epoch."""


def end_facts(rev: int, outcome: str | None) -> dict[str, Any]:
    """What the event of an end binds of a run: its settings, and its outcome as it is stored."""
    digest = _digest(outcome)
    return {"rev": rev} if digest is None else {"rev": rev, "digest": digest}


def _digest(outcome: str | None) -> str | None:
    return None if outcome is None else sha256(outcome.encode()).hexdigest()[:32]


def id_ranges(ids: Iterable[int]) -> list[list[int]]:
    """Ids as pairs of first and last."""
    found: list[list[int]] = []
    for one in sorted(ids):
        if found and one == found[-1][1] + 1:
            found[-1][1] = one
        else:
            found.append([one, one])
    return found


class IdSet:
    """A set of ids in a bit each: most ids of a range are in it, or none."""

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}

    def add(self, first: int, last: int | None = None) -> None:
        for one in range(first, (first if last is None else last) + 1):
            chunk = self._chunks.get(one >> 16)
            if chunk is None:
                chunk = self._chunks[one >> 16] = bytearray(8_192)
            chunk[(one & 0xFFFF) >> 3] |= 1 << (one & 7)

    def first_not_in(self, other: IdSet) -> int | None:
        for key in sorted(self._chunks):
            rest = self._bits(key) & ~other._bits(key)
            if rest:
                return (key << 16) + (rest & -rest).bit_length() - 1
        return None

    def _bits(self, key: int) -> int:
        return int.from_bytes(self._chunks.get(key, b""), "little")


class Covered(NamedTuple):
    """The slots that a run stands for."""

    slot: int | None
    first: int | None
    slots: int | None

    @classmethod
    def of_run(cls, run: BoundRun) -> Covered:
        """A run without a slot stands for calls, whose number grows."""
        return cls(run.slot, run.first_slot, None if run.slot is None else run.slots)

    @classmethod
    def of_event(cls, data: Mapping[str, Any]) -> Covered:
        slot = data.get("slot")
        return cls(slot, data.get("first"), None if slot is None else data.get("slots", 1))


class RunCheck:
    """Compares runs and attempts with their events. Events of several writers may come in any order, so what another
    event may explain is judged after all of them."""

    def __init__(self, since: int) -> None:
        self._since = since
        self.counts = [0, 0, 0]
        """Runs that were created and that ended since then, and attempts: those that the log knows and that exist."""
        self._absent, self._gone = IdSet(), IdSet()
        self._covered: dict[int, Covered] = {}
        """What runs cover, where it is not what it was at first."""
        self.problem: str | None = None

    @staticmethod
    def of_runs(events: Iterable[StoredEvent]) -> set[int]:
        """The runs whose rows are needed."""
        return {event.run_id for event in events if event.run_id is not None and event.type in _OF_RUNS}

    def feed(self, events: Iterable[StoredEvent], runs: Mapping[int, BoundRun], attempts: Attempts) -> None:
        for event in events:
            if event.type == RUNS_PRUNED:
                for first, last in orjson.loads(event.data or "{}")["runs"]:
                    self._gone.add(first, last)
            elif event.run_id is None or event.type not in _OF_RUNS:
                continue
            elif event.type == WITHDRAWN:
                self._gone.add(event.run_id)
            elif (run := runs.get(event.run_id)) is None:
                self._absent.add(event.run_id)
            else:
                problem = self._problem(event, run, attempts.get(run.id, {}))
                self.problem = self.problem or problem

    def _problem(self, event: StoredEvent, run: BoundRun, attempts: Mapping[int, AttemptRow]) -> str | None:
        kind = event.type
        data: dict[str, Any] = orjson.loads(event.data) if event.data else {}
        if kind == SHORTENED:
            self._shortened(run.id, Covered.of_event(data))
            return None
        found: str | None = None
        if kind in CREATED and "epoch" not in data and ("slot" in data or "of" in data):
            found = self._created(event, run, data)
        if kind in STARTED and ("worker" in data or "round" in data):
            found = found or self._started(event, run, data, attempts)
        if kind in ENDS:
            self.counts[1] += (run.ended_at or 0) >= self._since
            found = found or _end_problem(event, run, data, attempts)
        return found

    def _created(self, event: StoredEvent, run: BoundRun, data: dict[str, Any]) -> str | None:
        self.counts[0] += run.planned_at >= self._since
        covered, steps = Covered.of_event(data), (run.parent, run.step)
        if covered != Covered.of_run(run) and run.id not in self._covered:
            self._covered[run.id] = covered
        same = (
            (run.schedule_id, run.planned_at) == (event.schedule_id, event.at)
            and steps == ((int(data["of"]), data["step"]) if "of" in data else (None, 0))
            and (not data.get("by") or (data["by"], data.get("who")) == _requester(run))
        )
        return None if same else f"Run {run.id} was changed after it was created."

    def _shortened(self, run_id: int, covered: Covered) -> None:
        """The last slot of a run only ever becomes earlier."""
        before = self._covered.get(run_id)
        if before is None or (before.slot or 0) > (covered.slot or 0):
            self._covered[run_id] = covered

    def _started(
        self, event: StoredEvent, run: BoundRun, data: dict[str, Any], attempts: Mapping[int, AttemptRow]
    ) -> str | None:
        changed = f"Run {run.id} was changed after it started."
        if "round" in data:
            same = run.attempt > data["round"] or (run.attempt, run.started_at) == (data["round"], event.at)
            return None if same else changed
        epoch, number = data.get("epoch", 1), data.get("attempt", 1)
        attempt = attempts.get(epoch)
        if attempt is None or (attempt.owner, attempt.started_at) != (data["worker"], event.at):
            return f"Attempt {epoch} of run {run.id} was changed or deleted."
        self.counts[2] += attempt.started_at >= self._since
        if epoch < max(attempts):
            return None
        same = run.started_at == event.at and run.epoch >= epoch and run.attempt in (number, number - 1)
        return None if same else changed  # an attempt that was released, or that its provider refused, does not count

    def changed_ranges(self) -> Sequence[int]:
        """The runs whose slots must be compared after all events."""
        return sorted(self._covered)

    def problem_at_end(self, runs: Iterable[BoundRun]) -> str | None:
        """The first problem after all events, with the runs of `changed_ranges` as they are now."""
        for run in runs:
            if self.problem is None and self._covered[run.id] != Covered.of_run(run):
                self.problem = f"Run {run.id} was changed after it was created."
        deleted = self._absent.first_not_in(self._gone)
        if self.problem is None and deleted is not None:
            self.problem = f"Run {deleted} was deleted, and the log does not say so."
        return self.problem


def _requester(run: BoundRun) -> tuple[str | None, str | None]:
    """The name of who requested the run, and who it is. The sender of a call is no principal."""
    evidence: dict[str, Any] = orjson.loads(run.evidence or "{}")
    by: Any = evidence.get("by")
    return (by.get("name"), by.get("who")) if isinstance(by, dict) else (by, evidence.get("who"))  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def _end_problem(
    event: StoredEvent, run: BoundRun, data: dict[str, Any], attempts: Mapping[int, AttemptRow]
) -> str | None:
    """Why a run does not agree with the event of its end."""
    if run.state < RunState.SUCCEEDED:
        return f"Run {run.id} had ended, and is {RunState(run.state).label} again."
    evidence = {name: value for name, value in data.items() if name not in _NOT_EVIDENCE}
    same = (
        (run.state, run.ended_at, run.schedule_id) == (ENDS[event.type], event.at, event.schedule_id)
        and (run.rev, run.epoch, run.reason) == (data.get("rev"), data.get("epoch", 0), data.get("reason"))
        and _digest(run.outcome) == data.get("digest")
        and (not evidence or evidence == _evidence(run))
        and _started_as_told(run, data, attempts)
    )
    return None if same else f"Run {run.id} was changed after it ended."


def _started_as_told(run: BoundRun, data: dict[str, Any], attempts: Mapping[int, AttemptRow]) -> bool:
    """Whether a run started with its last attempt. A run of steps has none; a step that is carried over keeps its
    start."""
    if attempts:
        return run.started_at == attempts[max(attempts)].started_at
    return bool(run.unfolded) or run.started_at == data.get("started_at")


def _evidence(run: BoundRun) -> dict[str, Any]:
    stored: dict[str, Any] = orjson.loads(run.evidence) if run.evidence else {}
    return {name: value for name, value in stored.items() if name not in _NOT_EVIDENCE}
