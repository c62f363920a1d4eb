"""Invariant 10 where no person and no money is concerned: nothing starts that a gate should have stopped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from sim_rows import Commit, CursorRow, Reader, RunRow
from sim_violation import require
from sim_words import Words

from matins.model.run import GatesPassed, RunState

_HOOK = ("hook", "before:schedule:trigger")
MINUTE_MS = 60_000
_TURNED_DOWN = {
    RunState.SKIPPED,
    RunState.BLOCKED,
    RunState.MISSED,
    RunState.DENIED,
    RunState.EXPIRED,
    RunState.OVER_BUDGET,
}
_WORKING = ("active", "expired")
"""States in which a schedule's runs may start: what came before its end may still run."""


class Budget(NamedTuple):
    name: str
    scope: str
    of: str | None
    max_cost: int | None
    max_tokens: int | None


class Throttled(NamedTuple):
    provider: str
    resets_at: int
    affects: str

    def holds_for(self, words: Words, agent: str, now: int) -> bool:
        affects = orjson.loads(self.affects)
        return words.provider == self.provider and self.resets_at > now and (not affects or agent in affects)


class InForce:
    """Policies and throttles as they are durable."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.throttles: list[Throttled] = []
        self.quiet_minutes: dict[str, tuple[int, int]] = {}
        """The simulation's quiet hours are the same in every hour: from one minute up to another."""
        self.skipping: set[str] = set()
        """Quiet hours whose slots are skipped."""
        self.budgets: dict[str, Budget] = {}
        self.hooked = False
        self.auto_approve_one_shots = False

    def refresh(self, commit: Commit) -> None:
        if commit.rows("throttles"):
            rows = self._reader.query("SELECT provider, resets_at, affects FROM throttles")
            self.throttles = [Throttled(*row) for row in rows]
        if commit.rows("policies"):
            rows = self._reader.query("SELECT kind, name, definition FROM policies")
            found = {(kind, name): orjson.loads(text) for kind, name, text in rows}  # what differs from the defaults
            self.quiet_minutes = {name: _minutes(it) for (kind, name), it in found.items() if kind == "quiet_hours"}
            self.skipping = {name for name in self.quiet_minutes if "mode" not in found["quiet_hours", name]}
            self.budgets = {name: _budget(name, it) for (kind, name), it in found.items() if kind == "budget"}
            self.hooked = _HOOK in found
            self.auto_approve_one_shots = any(
                it.get("auto_approve_one_shots") for (kind, _), it in found.items() if kind == "agent_rules"
            )

    def quiet(self, name: str | None, now: int) -> bool:
        if name is None or name not in self.quiet_minutes:
            return False
        first, end = self.quiet_minutes[name]
        return first <= now // MINUTE_MS % 60 < end

    def skips(self, words: Words, slot: int) -> bool:
        """Whether a slot does not come again, because it falls into quiet hours."""
        name = words.quiet_hours
        return name in self.skipping and not words.once and self.quiet(name, slot)


def _minutes(definition: dict[str, Any]) -> tuple[int, int]:
    begin, _, end = definition["windows"][0].partition("-")
    return int(begin[-2:]), int(end[-2:]) or 60


def _budget(name: str, it: dict[str, Any]) -> Budget:
    return Budget(name, it.get("scope", "all"), it.get("of"), it.get("max_cost"), it.get("max_tokens"))


class GateRules:
    def __init__(self, reader: Reader, in_force: InForce) -> None:
        self._reader = reader
        self._in_force = in_force
        self.guarded = False
        """Whether every run must pass a guard."""
        self._began: set[int] = set()
        """Runs that were claimed before: what has started may go on whatever becomes of its schedule."""
        self._counted: dict[int, set[int]] = defaultdict(set)
        """Runs of a schedule that are executions, by their ids."""

    def check(self, commit: Commit, cursors: Mapping[int, CursorRow], throttles: list[Throttled]) -> None:
        """`throttles` are those of before the commit."""
        for event in commit.events:
            if event.type == "run.withdrawn" and event.schedule_id is not None and event.run_id is not None:
                self._counted[event.schedule_id].discard(event.run_id)
        for old, new in commit.runs:
            self._count(old, new)
            if new.cleared & GatesPassed.CHECKED and not (old and old.cleared & GatesPassed.CHECKED):
                self._check_checked(old, new)
        for new in commit.starts:
            require(10, not new.cancelling, f"started although it shall end: {new}")
            words = self._reader.words(new)
            if not words.steps:
                self._check_throttles(new, words, commit.now, {*throttles, *self._in_force.throttles})
            if not new.step:
                self._check_start(new, words, commit.now)
            self._check_schedule(new, cursors[new.schedule_id])
            self._began.add(new.id)
        for schedule_id in sorted({new.schedule_id for _, new in commit.runs}):
            cursor, counted = cursors[schedule_id], len(self._counted[schedule_id])
            require(10, cursor.executions == counted, f"{counted} executions, but it counts otherwise: {cursor}")

    def _count(self, old: RunRow | None, new: RunRow) -> None:
        if new.slot is None:
            return
        counted = self._counted[new.schedule_id]
        if old is None and new.state < RunState.SUCCEEDED:
            self._check_birth(new)
            counted.add(new.id)
        if new.state in _TURNED_DOWN and new.attempt == 0:
            counted.discard(new.id)

    def _check_birth(self, run: RunRow) -> None:
        words = self._reader.whole(run.schedule_id, run.rev)
        ends_at, most = words.ends_at, words.max_executions
        require(10, ends_at is None or (run.slot or 0) <= ends_at, f"made after its schedule's end at {ends_at}: {run}")
        before = len(self._counted[run.schedule_id])
        require(10, most is None or before < most, f"{before} executions were all that it may have: {run}")

    def _check_checked(self, old: RunRow | None, new: RunRow) -> None:
        """What clears a run is a verdict about it as it is now, and one that is for it."""
        epoch = old.epoch if old else 0
        rows = self._reader.query("SELECT verdict FROM checks WHERE run_id = ? AND epoch = ?", new.id, epoch)
        said = [row[0] for row in rows]
        require(10, bool(said) and set(said) == {"pass"}, f"cleared by {said} of epoch {epoch}: {old} became {new}")

    def _check_throttles(self, run: RunRow, words: Words, now: int, throttles: set[Throttled]) -> None:
        agent = self._reader.agent(run)
        holding = [throttle for throttle in throttles if throttle.holds_for(words, agent, now)]
        require(10, not holding, f"started at {now} in spite of {holding}: {run}")

    def _check_start(self, run: RunRow, words: Words, now: int) -> None:
        """What a run of steps passes once, as a whole."""
        quiet = run.slot is not None and self._in_force.quiet(words.quiet_hours, now)
        require(10, not quiet, f"started in quiet hours, at {now}: {run}")
        needs = words.checked or self._in_force.hooked or self.guarded
        require(10, not needs or bool(run.cleared & GatesPassed.CHECKED), f"started unchecked: {run}")

    def _check_schedule(self, run: RunRow, cursor: CursorRow) -> None:
        if run.id in self._began:
            return
        by_hand = run.slot is None and not run.step and cursor.state == "paused"
        require(10, cursor.state in _WORKING or by_hand, f"started while its schedule is {cursor.state}: {run}")
