"""Invariants 1, 2 and 3: slots, their records and the cursor, checked for each commit and over all of time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

import orjson
from sim_gates import InForce
from sim_rows import CursorRow, EventRow, Reader, RunRow
from sim_violation import require
from sim_words import Words

from matins.model.run import RunState

_NO_RUNS = ("end_date", "schedule_paused")
_AT_AN_END = ("expired", "rejected", "removed")
_REPLACED = {
    "schedule.updated",
    "schedule.paused",
    "schedule.resumed",
    "schedule.deleted",
    "schedule.replanned",
    "schedule.broken",
    "run.withdrawn",
}


class CursorRules:
    def __init__(self, reader: Reader, in_force: InForce) -> None:
        self._reader = reader
        self._in_force = in_force
        self.lead_ms = 0
        """How long before its instant a slot may be planned."""
        self._covered: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """(first, last) of every record there ever was, by schedule, in order."""
        self._window: Counter[int] = Counter()
        """How many runs made up for slots of the present missed window."""

    def check(
        self,
        old: CursorRow | None,
        new: CursorRow,
        births: list[RunRow],
        ended: list[RunRow],
        events: list[EventRow],
        now: int,
    ) -> None:
        kinds = {event.type for event in events}
        require(1, "schedule.broken" not in kinds, f"a sound schedule was taken for broken: {events}")
        if old is None:
            require(2, not births, f"a record without a cursor: {births}")
            return
        rule = self._reader.whole(old.schedule_id, old.rev)
        births = sorted(births, key=lambda run: run.first)
        due = [run for run in births if run.planned_at <= now]
        ahead = births[len(due) :]
        changing = bool(kinds & {"schedule.updated", "schedule.paused"})
        # Before a change a slot is planned even when its jitter is not over: afterwards there is no later.
        early = (changing and old.due_at is not None) or "schedule.resumed" in kinds  # a one-shot keeps its time
        comes = old.next_slot if early else old.due_at
        was_due = comes is not None and comes <= now
        require(2, was_due or not due, f"planned before its time, or while paused: {old} at {now}: {due}")
        if ahead:
            self._check_ahead(old, due, ahead, now)
        if old.next_slot is None:  # it had ended, and goes on: what it missed then is another window
            self._window[old.schedule_id] = 0
        first = old.next_slot
        if ahead and not due and old.due_at is None:  # it was resumed, or goes on, in the same transaction
            first = ahead[0].first if rule.every_ms is not None else rule.next_ms(now)
        following = self._check_births(old, first, births, rule)
        self._check_quiet(births, rule)
        self._check_cap(due, rule, now)
        if ahead:
            now = ahead[0].planned_at
            self._check_cap(ahead, rule, now)
        ends_at = rule.ends_at
        if changing and (ends_at is None or old.next_slot is None or old.next_slot <= ends_at):
            require(1, bool(births) or not was_due, f"changed before what was due was planned: {old} became {new}")
        if new.state in _AT_AN_END:
            require(1, new.next_slot is None, f"it is {new.state}, but goes on: {new}")
        elif (
            not births
            and "schedule.replanned" not in kinds
            and old.next_slot is not None
            and (last := self._recorded(old.schedule_id, old.next_slot))
        ):
            following = rule.next_ms(last)
            require(
                3, new.next_slot in (old.next_slot, following), f"a recorded slot is passed over: {old} became {new}"
            )
        elif not kinds & _REPLACED:
            taken = bool(births) and self._meets_record(births[-1], new.next_slot)
            _check_moved(old, new, births, ended, following, rule, now, taken=taken)
        elif new.due_at is not None:
            self._check_replaced(old, new, kinds, following, now, events)

    def _check_ahead(self, old: CursorRow, due: list[RunRow], ahead: list[RunRow], now: int) -> None:
        """One run that may start, for an instant that comes within the lead, and starts then."""
        require(2, len(ahead) == 1, f"more than one slot was planned ahead: {old} at {now}: {ahead}")
        (run,) = ahead
        may_start = run.state in (RunState.READY, RunState.STARTING) and run.planned_at <= now + self.lead_ms
        require(2, may_start, f"planned before its time, or does not start: {old} at {now}: {run}")
        instants = {run.planned_at, run.started_at if run.started_at is not None else run.not_before}
        require(2, len(instants) == 1, f"it starts at another instant than it was planned for: {run}")
        moved = bool(due) or old.due_at is None  # in the same transaction: it was due, resumed, or goes on
        require(2, moved or old.due_at == run.planned_at, f"planned for another instant: {old} at {now}: {run}")

    def check_no_slot_twice(self) -> None:
        for schedule_id, spans in self._covered.items():
            for (_, last), (first, _) in pairwise(spans):
                require(1, last < first, f"two records of schedule {schedule_id} cover {first}")

    def check_nothing_passed_over(self, cursors: Iterable[CursorRow], now: int) -> None:
        """A cursor may not stand beyond a slot that is to come and has no record, whatever the clock did before."""
        for cursor in cursors:
            if cursor.due_at is None or cursor.next_slot is None:
                continue
            rule = self._reader.whole(cursor.schedule_id, cursor.rev)
            every_ms = rule.every_ms
            ((purged,),) = self._reader.query("SELECT purged_slot FROM schedules WHERE id = ?", cursor.schedule_id)
            since = max(now, purged or 0)  # which of the slots before it had a record, nobody knows any more
            first = rule.next_ms(since)
            while first is not None and (last := self._recorded(cursor.schedule_id, first)):
                first = rule.next_ms(last)
            passed = first is not None and cursor.next_slot > first + (self.lead_ms if every_ms is not None else 0)
            require(11, not passed, f"slot {first} is to come, but the cursor is beyond it: {cursor}")

    def check_nobody_stands_still(self, cursors: Iterable[CursorRow]) -> None:
        """A schedule that is active has a next slot, or has had all that it was to have."""
        for cursor in cursors:
            if cursor.state == "active" and cursor.next_slot is None:
                words = self._reader.whole(cursor.schedule_id, cursor.rev)
                most = words.max_executions
                done = words.once or (most is not None and cursor.executions >= most)
                require(11, done, f"active, but it will never run again: {cursor}")

    def _check_quiet(self, births: list[RunRow], rule: Words) -> None:
        """A slot that quiet hours would have skipped is recorded so, and no run makes up for nothing else."""
        ranges = any(run.slots > 1 for run in births)
        for run in births:
            runs = run.state < RunState.SUCCEEDED
            in_doubt = (run.state == RunState.MISSED and ranges) or bool(rule.jitter)
            if in_doubt or not (runs or run.state == RunState.MISSED):
                continue
            awake = any(not self._in_force.skips(rule, slot) for slot in _slots(run, rule))
            require(10, awake, f"its slots fell into quiet hours: {run}")

    def _check_cap(self, births: list[RunRow], rule: Words, now: int) -> None:
        """A missed window gets at most `catch_up_limit` runs, however many ticks it takes."""
        if rule.catch_up != "run_all_capped" or not births:
            return
        last = births[-1].slot
        assert last is not None
        on_time = now - last <= rule.grace_of(last)
        runs = [run for run in births if run.state != RunState.MISSED and run.reason not in _NO_RUNS]
        late = [run for run in runs if not (on_time and run.slot == last) and not self._kept_quiet(run, rule)]
        schedule_id = births[0].schedule_id
        self._window[schedule_id] += len(late)
        used, cap = self._window[schedule_id], rule.catch_up_limit
        require(2, not late or used <= cap, f"a missed window got {used} runs, its cap is {cap}: {late}")
        if on_time:
            self._window[schedule_id] = 0

    def _kept_quiet(self, run: RunRow, rule: Words) -> bool:
        assert run.slot is not None
        return run.reason == "quiet_hours" and self._in_force.skips(rule, run.slot)

    def _check_births(self, old: CursorRow, first: int | None, births: list[RunRow], rule: Words) -> int | None:
        """New records follow each other from the first slot on without a gap; the slot that comes after them."""
        expected = first
        for run in births:
            assert run.slot is not None
            expected = self._uncovered(old.schedule_id, expected, rule)
            require(1, run.first == expected, f"the next slot is {expected}, the record covers {run.first}: {run}")
            require(2, run.rev == old.rev, f"planned under another revision than {old.rev}: {run}")
            if rule.every_ms is not None:
                at_once = {one.planned_at for one in births}  # one that is due, and one ahead
                require(2, run.slots == 1 and len(at_once) == len(births), f"one slot at a time: {births}")
                expected = run.slot + rule.every_ms
            else:
                slots = rule.count(run.first, run.slot + 1)
                real = rule.count(run.slot, run.slot + 1) == 1
                require(2, real and slots == run.slots, f"its slots are not the trigger's ({slots}): {run}")
                expected = rule.next_ms(run.slot)
            self._cover(run)
        return expected

    def _uncovered(self, schedule_id: int, slot: int | None, rule: Words) -> int | None:
        """The first slot from this one on that has no record of a time when the clock was ahead."""
        while slot is not None and (last := self._recorded(schedule_id, slot)) is not None:
            slot = rule.next_ms(last)
        return slot

    def _cover(self, run: RunRow) -> None:
        assert run.slot is not None
        spans = self._covered[run.schedule_id]
        place = bisect_left(spans, (run.first, 0))
        require(1, place == 0 or spans[place - 1][1] < run.first, f"a second record for a slot: {run}")
        require(1, place == len(spans) or run.slot < spans[place][0], f"a second record for a slot: {run}")
        insort(spans, (run.first, run.slot))

    def uncover(self, run: RunRow) -> None:
        """Its slots are to come, and may be planned again."""
        self._covered[run.schedule_id].remove((run.first, run.slot or 0))

    def shorten(self, old: RunRow, new: RunRow) -> None:
        """It covers fewer slots, because the others are to come."""
        assert old.slot is not None
        assert new.slot is not None
        same = old._replace(slot=new.slot, slots=new.slots, first_slot=new.first_slot)
        within = old.first <= new.first <= new.slot <= old.slot
        require(1, same == new and within, f"more has changed than what it covers: {old} became {new}")
        self.uncover(old)
        self._cover(new)

    def _has_record(self, schedule_id: int, slot: int) -> bool:
        return self._recorded(schedule_id, slot) is not None

    def _meets_record(self, run: RunRow, following: int | None) -> bool:
        """Whether a record of a time when the clock was ahead, maybe of another trigger, lies before the next slot."""
        assert run.slot is not None
        last = run.slot if following is None else following
        return any(run.slot < start <= last for start, _ in self._covered[run.schedule_id])

    def _recorded(self, schedule_id: int, slot: int) -> int | None:
        """The last slot of the record that covers a slot."""
        spans = self._covered[schedule_id]
        place = bisect_left(spans, (slot + 1, 0))
        return spans[place - 1][1] if place > 0 and spans[place - 1][1] >= slot else None

    def _check_replaced(
        self,
        old: CursorRow,
        new: CursorRow,
        kinds: set[str],
        following: int | None,
        now: int,
        events: list[EventRow],
    ) -> None:
        assert new.next_slot is not None
        taken = self._has_record(new.schedule_id, new.next_slot)
        require(1, not taken, f"the cursor was put on a slot that has its record: {old} became {new}, {kinds}")
        once = self._reader.whole(new.schedule_id, new.rev).once
        left = new.next_slot == old.next_slot and "schedule.updated" not in kinds
        ahead = new.next_slot >= now or once or left  # whether it is too late for a one-shot, its grace decides
        require(3, ahead, f"the cursor was put into the past: {old} became {new} at {now}, {kinds}")
        if "schedule.updated" in kinds:
            require(3, new.rev > old.rev, f"an edit without a new revision: {old} became {new}")
            if not _edited_when(events) and old.due_at is not None and following is not None and following > now:
                text = f"an edit of other words moved the cursor from {following}: {old} became {new}"
                require(3, new.next_slot == following, text)


def _slots(run: RunRow, rule: Words) -> Iterator[int]:
    slot: int | None = run.first
    assert run.slot is not None
    while slot is not None and slot <= run.slot:
        yield slot
        slot = None if run.slots == 1 else rule.next_ms(slot)


def _edited_when(events: list[EventRow]) -> bool:
    return any(
        "when" in orjson.loads(event.data or "{}")["settings"] for event in events if event.type == "schedule.updated"
    )


def _check_moved(
    old: CursorRow,
    new: CursorRow,
    births: list[RunRow],
    ended: list[RunRow],
    following: int | None,
    rule: Words,
    now: int,
    *,
    taken: bool,
) -> None:
    """The cursor of a schedule that nobody changed: it moves with records, or by a completion that it waits for."""
    require(3, new.rev == old.rev, f"a new revision without an edit: {old} became {new}")
    if not births:
        if new.next_slot == old.next_slot or _revived(old, new, ended):
            return
        ends = set() if rule.every_ms is None else {_completed(run) + rule.every_ms for run in ended}
        require(1, bool(old.waiting), f"the cursor moved without a record: {old} became {new}")
        require(2, new.next_slot in ends, f"the next slot is none of {ends}: {old} became {new}")
        return
    done = rule.max_executions is not None and new.executions >= rule.max_executions
    if done:
        require(1, new.next_slot is None, f"it has had its executions, but goes on: {new}")
        return
    if rule.every_ms is None:
        require(1, new.next_slot == following, f"the cursor went past slots: {following} is next: {old} became {new}")
    last = now if rule.ends_at is None else min(now, rule.ends_at)
    require(3, new.next_slot is None or new.next_slot > last or taken, f"the cursor did not get past {last}: {new}")
    if rule.from_completion and not ended:
        live = any(run.state < RunState.SUCCEEDED for run in births)
        require(3, bool(new.waiting) == live, f"waits for a completion: {bool(new.waiting)}, live: {live}: {new}")


def _completed(run: RunRow) -> int:
    """From when an interval counts: the end of its run, or its slot when that is no further away than clocks differ."""
    ended, slot = run.ended_at or 0, run.slot or 0
    return ended if slot > ended + 1_000 else max(ended, slot)


def _revived(old: CursorRow, new: CursorRow, ended: list[RunRow]) -> bool:
    """What a gate turned down was no execution: the schedule has not had all of them after all."""
    return old.next_slot is None and bool(ended) and new.executions < old.executions
