"""Planning: the records to make for one due schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from matins.engine.catch_up import CatchUpPlan, SlotGroup, SlotRange, grace_of, plan_catch_up
from matins.engine.gates import ALL, Candidate, Facts, Mask, judge, touched_gates
from matins.engine.gates.limits import count_queued
from matins.engine.gates.quiet_hours import quiet_evidence, skipping_hours
from matins.engine.gates.state import Failures, backs_off_until
from matins.engine.money import percentile
from matins.engine.policies import Policies
from matins.engine.reasons import local_time
from matins.engine.when.durations import MINUTE_MS, SECOND_MS, about
from matins.engine.when.triggers import Trigger, jitter_ms
from matins.model.overview import RecentRecord
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Interval, Once

_MAX_AHEAD_MS = 1_000


class PlannedRun(NamedTuple):
    slot: int | None
    first: int | None
    slots: int
    state: RunState
    reason: str | None = None
    evidence: dict[str, Any] | None = None
    until: int | None = None
    """When a deferred run is checked again."""


class Plan(NamedTuple):
    runs: list[PlannedRun]
    next_slot: int | None
    due_at: int | None
    window_used: int
    executions: int
    cancel: tuple[int, ...] = ()
    expired: bool = False
    """Whether the schedule has ended."""


def covered(slot: int | None, slots: int, first: int | None) -> dict[str, Any]:
    """The slots that a run covers, as the event of its creation has them."""
    if slots == 1 and first is None:
        return {"slot": slot}
    return {"slot": slot, "slots": slots, "first": first}


class Watched(NamedTuple):
    """What people are to hear of a run, as far as it is known."""

    late_after_ms: int | None
    slow_after_ms: int | None
    """None where it may take any time."""
    slot: int | None
    planned_at: int
    started_at: int | None
    ended: bool
    held: bool
    """Whether a person holds it, with its schedule."""
    late: bool = False
    """Whether it is known to be late."""


USUAL_RUNS, _ENOUGH_RUNS = 100, 20
"""How many of the last records count for what is usual, and how many successes among them are enough."""


def past_durations(records: Sequence[RecentRecord]) -> list[int]:
    """The durations of runs that succeeded."""
    return [
        record.ended_at - record.started_at
        for record in records
        if record.state == RunState.SUCCEEDED and record.started_at is not None and record.ended_at is not None
    ]


def unusual_ms(durations: Sequence[int]) -> int | None:
    """What `auto` means: three times what 95 % of the runs take; None while they are too few."""
    return 3 * max(percentile(durations, 95), SECOND_MS) if len(durations) >= _ENOUGH_RUNS else None


def first_look(definition: ScheduleDefinition, slot: int | None, now: int) -> int:
    """When to look at a new run for the first time."""
    late, slow = definition.late_after_ms, definition.slow_after_ms
    times = [slot + late] if late is not None and slot is not None else []
    times += [now + slow] if slow is not None else []
    return min(times) if times else now


def look(run: Watched, now: int) -> tuple[list[Literal["run.late", "run.slow"]], int | None]:
    """The events that a run causes by now, and when to look again; None for never."""
    found: list[Literal["run.late", "run.slow"]] = []
    again: list[int] = []
    if run.late_after_ms is not None and run.slot is not None and not run.late:
        late_at = run.slot + run.late_after_ms
        if run.started_at is not None:
            if run.started_at > late_at:
                found.append("run.late")
        elif not run.ended and (run.held or late_at > now):
            again.append(max(late_at, now + MINUTE_MS) if run.held else late_at)
        elif not run.ended:
            found.append("run.late")
    if run.slow_after_ms is not None and not run.ended:
        slow_at = (now if run.started_at is None else run.started_at) + run.slow_after_ms
        if slow_at > now:
            again.append(max(slow_at, now + SECOND_MS))
        else:
            found.append("run.slow")
    return found, min(again, default=None)


def late_text(run: Watched, zone: str, now: int) -> str:
    slot = run.slot or now
    if run.started_at is None:
        return f"The slot of {local_time(slot, zone)} has not started after {about(now - slot)}."
    return f"The slot of {local_time(slot, zone)} started {about(run.started_at - slot)} late."


def slow_text(run_id: int, took_ms: int, limit_ms: int, *, usual: bool) -> str:
    most = "three times what most of its runs take" if usual else about(limit_ms)
    return f"Run {run_id} has run for {about(took_ms)}, longer than {most}."


class Timetable:
    """A compiled schedule definition, ready for planning."""

    __slots__ = ("_last", "definition", "elapsed", "exclusive", "from_completion", "once", "plain_times", "trigger")

    def __init__(self, definition: ScheduleDefinition, trigger: Trigger) -> None:
        self.definition = definition
        self.trigger = trigger
        when = definition.trigger.when
        self.from_completion = isinstance(when, Interval) and when.anchor == "completion"
        """Whether the next slot is known only when the run ends."""
        self.exclusive = definition.overlap != "allow"
        self.elapsed = isinstance(when, Interval) and when.anchor != "grid"
        """Whether the next slot counts from a run, and not from fixed slots."""
        self.once = isinstance(when, Once)
        bounded = definition.max_executions is not None or definition.ends_at is not None
        self.plain_times = not bounded and not definition.jitter
        """Whether a slot is due at its own instant, and another always follows, unless it is a one-shot."""
        self._last: tuple[int, int | None, int] = (-1, None, -1)

    def due_at(self, schedule_id: int, slot: int | None) -> int | None:
        """The slot plus its jitter."""
        if slot is None or not self.definition.jitter:
            return slot
        following = self.trigger.next_ms(slot)
        period = following - slot if following is not None else 0
        return slot + jitter_ms(schedule_id, slot, period, self.definition.jitter)

    def next_if_on_time(self, slot: int, now: int) -> int | Literal[False] | None:
        """The slot after this one; False if this one is late, or not the last that is due. For plain times only. Of a
        one-shot, the answer is that of any instant."""
        last = self._last
        if last[0] != slot:  # schedules with equal settings ask about the same slot
            following = None if self.once else self.trigger.next_ms(slot)
            until = slot + grace_of(self.definition, slot, following)
            self._last = last = (slot, following, until if following is None else min(until, following - 1))
        return last[1] if now <= last[2] else False

    def backs_off_until(self, failures: Failures, now: int) -> int | None:
        """Until when slots are skipped because of failures; None when the schedule does not back off now."""
        failed_at = failures.last_at
        if self.definition.failure_backoff == "none" or failed_at is None or failed_at > now:  # the clock went back
            return None
        following = self.trigger.next_ms(failed_at)
        second = None if following is None else self.trigger.next_ms(following)
        if following is None or second is None:
            return None
        until = backs_off_until(failures, second - following)
        return until if until is not None and until > now else None

    def plan(
        self,
        schedule_id: int,
        slot: int,
        window_used: int,
        executions: int,
        facts: Facts,
        now: int,
        gates: Mask = ALL,
        taken: tuple[int, int] | None = None,
    ) -> Plan:
        """The plan from `slot`, the first slot without a record, which is due. Only `gates` are judged: for most
        schedules there are none. A due range of slots that is `taken` has its record: it is not planned again."""
        if taken is not None and taken[0] <= slot:
            following = taken[1] + 1 if self.elapsed else self.trigger.next_ms(taken[1])
            return Plan([], following, self.due_at(schedule_id, following), window_used, executions)
        if self.plain_times and taken is None:  # the fast path of most plans: on time, with no missed slots
            following = self.next_if_on_time(slot, now)
            on_time = following is not False
            if on_time and (not gates or judge(self._on_time(slot, facts, executions, now), gates) is None):
                due_at = None if self.from_completion else following
                return Plan([PlannedRun(slot, None, 1, RunState.READY)], following, due_at, 0, executions + 1)
        if self.definition.ends_at is not None and slot > self.definition.ends_at:
            evidence = {"ends_at": self.definition.ends_at}
            planned = PlannedRun(slot, None, 1, RunState.SKIPPED, "end_date", evidence)
            return Plan([planned], None, None, 0, executions, expired=True)
        last_at = None if taken is None else taken[0] - 1
        return self._plan_window(schedule_id, slot, window_used, executions, facts, now, gates, last_at)

    def _on_time(self, slot: int, facts: Facts, executions: int, now: int) -> Candidate:
        return Candidate(self.definition, slot, facts, executions, False, now, slot)

    def _plan_window(
        self,
        schedule_id: int,
        slot: int,
        window_used: int,
        executions: int,
        facts: Facts,
        now: int,
        gates: Mask,
        last_at: int | None,
    ) -> Plan:
        caught_up = self.catch_up(slot, window_used, facts.policies, now, last_at)
        runs = [_missed(slot_range) for slot_range in caught_up.missed]
        runs += [self._skipped(group) for group in caught_up.skipped]
        live, queued = list(facts.live), count_queued(facts.live)
        cancel: tuple[int, ...] = ()
        on_time = caught_up.on_time
        to_run = caught_up.late if on_time is None else [*caught_up.late, SlotRange(on_time, on_time, 1)]
        for slot_range in to_run:
            seen, catching_up = facts._replace(live=live, queued=queued), bool(caught_up.late)
            due_at = self.due_at(schedule_id, on_time) if slot_range.slot == on_time else None
            candidate = Candidate(self.definition, slot_range.slot, seen, executions, catching_up, now, due_at)
            verdict = judge(candidate, gates | touched_gates(seen))  # runs of the same window may block this one
            first = slot_range.first if slot_range.slots > 1 else None
            if verdict is None:
                runs.append(PlannedRun(slot_range.slot, first, slot_range.slots, RunState.READY))
            else:
                runs.append(PlannedRun(slot_range.slot, first, slot_range.slots, *verdict[:3], verdict.until))
                cancel += tuple(run for run in verdict.cancel if run)
            if runs[-1].state < RunState.SUCCEEDED:
                executions += 1
                live.append((0, runs[-1].state))
                queued += runs[-1].state is RunState.QUEUED
        if caught_up.skipped:
            runs.sort(key=lambda planned: planned.slot or 0)  # skipped slots lie between the others
        limit = self.definition.max_executions
        next_slot = caught_up.next_slot if limit is None or executions < limit else None
        waits = self.from_completion and any(planned.state < RunState.SUCCEEDED for planned in runs)
        due_at = None if waits else self.due_at(schedule_id, next_slot)
        return Plan(runs, next_slot, due_at, caught_up.window_used, executions, cancel)

    def catch_up(
        self, slot: int, window_used: int, policies: Policies, now: int, last_at: int | None = None
    ) -> CatchUpPlan:
        """The catch-up of the slots from this one up to now, or up to `last_at`."""
        quiet = skipping_hours(self.definition, policies)
        return plan_catch_up(self.definition, self.trigger, slot, now, window_used, quiet, last_at)

    def _skipped(self, group: SlotGroup) -> PlannedRun:
        slot, first, slots = group.slot_range
        evidence = quiet_evidence(self.definition, group.until)
        return PlannedRun(slot, first if slots > 1 else None, slots, RunState.SKIPPED, "quiet_hours", evidence)

    def after_completion(self, schedule_id: int, slot: int | None, ended: int) -> tuple[int, int]:
        """The next slot of an interval that counts from completion, and when it is due."""
        when = self.definition.trigger.when
        assert isinstance(when, Interval)
        ahead = slot is not None and slot > ended + _MAX_AHEAD_MS  # the clock was ahead when the run was planned
        following = (ended if ahead else max(ended, slot or 0)) + when.every_ms
        return following, self.due_at(schedule_id, following) or following


def _missed(slot_range: SlotRange) -> PlannedRun:
    first = slot_range.first if slot_range.slots > 1 else None
    return PlannedRun(slot_range.slot, first, slot_range.slots, RunState.MISSED, "missed")
