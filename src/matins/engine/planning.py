"""What to record for one schedule whose time has come."""

from __future__ import annotations

from typing import Any, NamedTuple

from matins.engine.catch_up import Covered, Decision, Part, decide, grace_of
from matins.engine.gates import ALL, Candidate, Facts, Mask, judge, touched_gates
from matins.engine.gates.quiet_hours import quiet_evidence, skipping_hours
from matins.engine.policies import Policies
from matins.engine.when.jitter import jitter_ms
from matins.engine.when.triggers import Trigger
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Interval


class Birth(NamedTuple):
    """A record to make."""

    slot: int | None
    first: int | None
    slots: int
    state: RunState
    reason: str | None = None
    evidence: dict[str, Any] | None = None
    until: int | None = None
    """When a run that is put off is looked at again."""


class Plan(NamedTuple):
    births: list[Birth]
    next_slot: int | None
    due_at: int | None
    window_used: int
    executions: int
    cancel: tuple[int, ...] = ()
    expired: bool = False
    """Whether the schedule has come to its end."""


class Rule:
    """A schedule's definition, made ready for planning."""

    __slots__ = ("_plain", "completion", "definition", "exclusive", "trigger")

    def __init__(self, definition: ScheduleDefinition, trigger: Trigger) -> None:
        self.definition = definition
        self.trigger = trigger
        when = definition.trigger.when
        self.completion = isinstance(when, Interval) and when.anchor == "completion"
        """Whether the next slot is known only when the run is over."""
        self.exclusive = definition.overlap != "allow"
        elapsed = isinstance(when, Interval) and when.anchor != "grid"
        bounded = definition.max_executions is not None or definition.ends_at is not None
        self._plain = not elapsed and not bounded and not definition.jitter

    def due_at(self, schedule_id: int, slot: int | None) -> int | None:
        """When a slot is due: later than the slot itself by its jitter."""
        if slot is None or not self.definition.jitter:
            return slot
        following = self.trigger.next_ms(slot)
        period = following - slot if following is not None else 0
        return slot + jitter_ms(schedule_id, slot, period, self.definition.jitter)

    def plan(
        self,
        schedule_id: int,
        slot: int,
        window_used: int,
        executions: int,
        facts: Facts,
        now: int,
        gates: Mask = ALL,
    ) -> Plan:
        """`slot` is the first one without a record; its time has come. Only `gates` are judged: mostly there are none,
        and nothing is to be checked."""
        if self._plain:  # on time, and nothing in between: most of all plans
            following = self.trigger.next_ms(slot)
            on_time = (
                following is not None and now < following and now - slot <= grace_of(self.definition, slot, following)
            )
            if on_time and (not gates or judge(self._on_time(slot, facts, executions, now), gates) is None):
                return Plan([Birth(slot, None, 1, RunState.READY)], following, following, 0, executions + 1)
        if self.definition.ends_at is not None and slot > self.definition.ends_at:
            return self._end(slot, executions)
        return self._plan_window(schedule_id, slot, window_used, executions, facts, now, gates)

    def _on_time(self, slot: int, facts: Facts, executions: int, now: int) -> Candidate:
        return Candidate(self.definition, slot, facts, executions, False, now, slot)

    def _end(self, slot: int, executions: int) -> Plan:
        evidence = {"ends_at": self.definition.ends_at}
        birth = Birth(slot, None, 1, RunState.SKIPPED, "end_date", evidence)
        return Plan([birth], None, None, 0, executions, expired=True)

    def _plan_window(
        self,
        schedule_id: int,
        slot: int,
        window_used: int,
        executions: int,
        facts: Facts,
        now: int,
        gates: Mask,
    ) -> Plan:
        decision = self.decide(slot, window_used, facts.policies, now)
        births = [_missed(covered) for covered in decision.missed]
        births += [self._skipped(part) for part in decision.skipped]
        in_the_way = list(facts.live)
        cancel: tuple[int, ...] = ()
        for covered in _to_run(decision.late, decision.on_time):
            seen, catching_up = facts._replace(live=in_the_way), bool(decision.late)
            due_at = self.due_at(schedule_id, decision.on_time) if covered.slot == decision.on_time else None
            candidate = Candidate(self.definition, covered.slot, seen, executions, catching_up, now, due_at)
            verdict = judge(candidate, gates | touched_gates(seen))  # runs of this very window may be in the way
            first = covered.first if covered.slots > 1 else None
            if verdict is None:
                births.append(Birth(covered.slot, first, covered.slots, RunState.READY))
            else:
                births.append(Birth(covered.slot, first, covered.slots, *verdict[:3], verdict.until))
                cancel += tuple(run for run in verdict.cancel if run)
            if births[-1].state < RunState.SUCCEEDED:
                executions += 1
                in_the_way.append((0, births[-1].state))
        if decision.skipped:
            births.sort(key=lambda birth: birth.slot or 0)  # quiet hours lie among the others
        return self._moved_on(schedule_id, births, decision.next_slot, decision.window_used, executions, cancel)

    def decide(self, slot: int, window_used: int, policies: Policies, now: int) -> Decision:
        """What becomes of the slots from this one up to now."""
        quiet = skipping_hours(self.definition, policies)
        return decide(self.definition, self.trigger, slot, now, window_used, quiet)

    def _skipped(self, part: Part) -> Birth:
        slot, first, slots = part.covered
        evidence = quiet_evidence(self.definition, part.until)
        return Birth(slot, first if slots > 1 else None, slots, RunState.SKIPPED, "quiet_hours", evidence)

    def _moved_on(
        self,
        schedule_id: int,
        births: list[Birth],
        next_slot: int | None,
        used: int,
        executions: int,
        cancel: tuple[int, ...],
    ) -> Plan:
        most = self.definition.max_executions
        if most is not None and executions >= most:
            next_slot = None
        waits = self.completion and any(birth.state < RunState.SUCCEEDED for birth in births)
        due_at = None if waits else self.due_at(schedule_id, next_slot)
        return Plan(births, next_slot, due_at, used, executions, cancel)

    def after_completion(self, schedule_id: int, slot: int | None, ended: int) -> tuple[int, int]:
        """The next slot of an interval that counts from completion, and when it is due."""
        when = self.definition.trigger.when
        assert isinstance(when, Interval)
        following = max(ended, slot or 0) + when.every_ms
        return following, self.due_at(schedule_id, following) or following


def _missed(covered: Covered) -> Birth:
    first = covered.first if covered.slots > 1 else None
    return Birth(covered.slot, first, covered.slots, RunState.MISSED, "missed")


def _to_run(late: list[Covered], on_time: int | None) -> list[Covered]:
    return late if on_time is None else [*late, Covered(on_time, on_time, 1)]
