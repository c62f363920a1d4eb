"""Lanes: how much ran and will run, by agent or by the values of a label, and what troubles each; few of them, the rest
folded into one. A lane with few runs and slots has each of them, a dense one only counts."""

from __future__ import annotations

import builtins
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from matins.api.results import LabelCount, Lane, LaneMark, Lanes
from matins.engine.forecast import coming_slots
from matins.engine.when.durations import HOUR_MS
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, NotAllowed
from matins.model.access import Principal
from matins.model.overview import LaneWindow, RecordSpan
from matins.model.run import RunState
from matins.model.selector import ALL, LABEL, Selector
from matins.service.core import MAX_ID, Core
from matins.service.incidents import open_troubles, trouble_text
from matins.service.timeline import LONGEST_MS, MAX_LIVE, Coming, Window, check_window, compiled_cursors, state_name
from matins.store.transaction import Transaction

PARTS = 96
MAX_MARKS = 60
_PAST_MS, _AHEAD_MS = 6 * HOUR_MS, 2 * HOUR_MS
_MAX_LANES, _MAX_CURSORS, _MAX_LABELS = 100, 5_000, 50
_STEPPED = 200
"""Slots of one schedule that are counted one by one."""
_FAILED = frozenset({"failed", "interrupted", "over_budget", "unknown", "held", "missed"})
"""States of runs that a person should look at; a skip by policy is none of them."""


@dataclass
class _Lane:
    parts: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter[int]))
    coming: list[Coming] = field(default_factory=list[Coming])

    @property
    def runs(self) -> int:
        return sum(counter.total() for state, counter in self.parts.items() if state != "planned")

    @property
    def failed(self) -> int:
        return sum(counter.total() for state, counter in self.parts.items() if state in _FAILED)

    @property
    def planned(self) -> int:
        return self.parts["planned"].total()

    def add(self, other: _Lane) -> None:
        for state, counter in other.parts.items():
            self.parts[state] += counter


@dataclass(frozen=True)
class LaneCharts:
    core: Core

    def lanes(
        self,
        principal: Principal,
        *,
        select: Selector | None = None,
        by: str = "agent",
        start: int | None = None,
        end: int | None = None,
        limit: int = 8,
    ) -> Lanes:
        now = self.core.clock.now_ms()
        window = Window(now - _PAST_MS if start is None else start, now + _AHEAD_MS if end is None else end, now)
        check_window(window)
        label, chosen, reader = _label(by), select or ALL, self.core.limited_reader(principal)
        if label is not None and reader is not None:
            raise NotAllowed(f"{principal.name} sees lanes by agent only.", value=by, field="by", hint="Omit it.")
        size = -(-(window.end - window.start) // PARTS)
        found: dict[str, _Lane] = defaultdict(_Lane)
        with self.core.store.reading() as transaction:
            policies = self.core.catalog.policies(transaction)
            live = transaction.live_records(MAX_LIVE)
            low = transaction.first_planned(window.start - LONGEST_MS)
            recorded = LaneWindow(MAX_ID if low is None else low, window.start, min(window.end, now + 1), label)
            for count in transaction.lane_counts(recorded, chosen, reader, size):
                found[count.lane].parts[state_name(count.state)][min(count.bucket, PARTS - 1)] += count.records
            coming = (
                transaction.lane_cursors(window.end, label, chosen, reader, _MAX_CURSORS) if window.end > now else ()
            )
            lane_of = {cursor.schedule_id: lane for lane, cursor in coming}
            for item in compiled_cursors((cursor for _, cursor in coming), window, policies, live):
                lane = found[lane_of[item.cursor.schedule_id]]
                lane.coming.append(item)
                lane.parts["planned"] += _planned(item, window, size)
            labels = transaction.label_counts(_MAX_LABELS) if reader is None else []
            notes = _notes(transaction) if label is None else dict[str, str]()
            order = sorted(found, key=lambda name: (-found[name].failed, -found[name].runs, -found[name].planned, name))
            shown, folded = order[: min(limit, _MAX_LANES)], order[min(limit, _MAX_LANES) :]
            few = [name for name in shown if found[name].runs + found[name].planned <= MAX_MARKS]
            spans = transaction.lane_runs(recorded, chosen, reader, few, MAX_MARKS * len(few)) if few else []
        marks: dict[str, builtins.list[LaneMark]] = {name: [] for name in few}
        for name, span in reversed(spans):
            if name in marks:
                marks[name].append(_mark(span))
        for name in few:
            marks[name] += _coming_marks(found[name].coming, window.end)
        lanes = [_lane(name, found[name], marks.get(name, []), notes) for name in shown]
        rest = _Lane()
        for name in folded:
            rest.add(found[name])
        return Lanes(
            start=to_datetime(window.start),
            end=to_datetime(window.end),
            now=to_datetime(now),
            parts=PARTS,
            by=by,
            runs=sum(lane.runs for lane in found.values()),
            failed=sum(lane.failed for lane in found.values()),
            lanes=lanes,
            skipped=sum(lane.parts["skipped"].total() for lane in found.values()),
            labels=[LabelCount(*row) for row in labels],
            rest=_lane("", rest, [], {}, folded=len(folded)) if folded else None,
        )


def _label(by: str) -> str | None:
    if by == "agent":
        return None
    if by.startswith(LABEL) and len(by) > len(LABEL):
        return by.removeprefix(LABEL)
    message = f'There are no lanes by "{by}".'
    raise InvalidInput(message, value=by, field="by", hint="Give agent, or a label: label.team")


def _planned(item: Coming, window: Window, size: int) -> Counter[int]:
    """The slots to come, by part of the time."""
    found, slot, trigger = Counter[int](), item.start.slot, item.timetable.trigger
    if slot is None:
        return found
    if item.slots <= _STEPPED:
        for _ in range(item.slots):
            found[(max(slot, window.now) - window.start) // size] += 1
            following = trigger.next_ms(slot)
            if following is None or following >= window.end:
                break
            slot = following
        return found
    at = max(slot, window.now)
    while at < window.end:
        part = (at - window.start) // size
        until = min(window.start + (part + 1) * size, window.end)
        if number := trigger.count(at, until):
            found[part] += number
        at = until
    return found


def _coming_marks(coming: Iterable[Coming], end: int) -> Iterator[LaneMark]:
    for item in coming:
        for seen in coming_slots(item.timetable, item.start, end):
            yield LaneMark(
                run_id=None,
                schedule=item.cursor.name,
                agent=item.cursor.agent,
                state=seen.label,
                status=seen.label,
                at=to_datetime(seen.due_at),
                ended_at=None,
                slot=to_datetime(seen.slot),
            )


def _mark(span: RecordSpan) -> LaneMark:
    state = state_name(span.state)
    return LaneMark(
        run_id=str(span.id),
        schedule=span.name,
        agent=span.agent,
        state=state,
        status=(span.reason or state) if span.state == RunState.WAITING else state,
        at=to_datetime(span.begins),
        ended_at=to_datetime(span.ended_at),
        slot=to_datetime(span.slot),
    )


def _lane(name: str, lane: _Lane, marks: builtins.list[LaneMark], notes: Mapping[str, str], *, folded: int = 1) -> Lane:
    return Lane(
        name=name,
        folded=folded,
        runs=lane.runs,
        failed=lane.failed,
        waiting=sum(mark.status == "awaiting_approval" for mark in marks),
        planned=lane.planned,
        parts={state: [counter[part] for part in range(PARTS)] for state, counter in lane.parts.items() if counter},
        marks=marks,
        note=notes.get(name),
    )


def _notes(transaction: Transaction) -> Mapping[str, str]:
    """The most frequent open trouble of each agent."""
    rows = sorted(open_troubles(transaction), key=lambda row: row.times)
    agents = {each.id: each.agent for each in transaction.schedules_with({row.schedule_id for row in rows})}
    return {agents[row.schedule_id]: trouble_text(row) for row in rows if row.schedule_id in agents}
