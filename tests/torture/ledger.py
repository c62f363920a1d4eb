"""The reckoning: what a store holds against when its schedules should have run and what processes told."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from arithmetic import Beat, beat_of
from cast import KEYED, LETTERBOXES, NOTES, ONCE, RETRIED, TOLD, UNKEYED
from diary import Line
from step_ledger import CARRIED_OVER, check_steps

from matins import Matins
from matins.model.run import RunState

_Words = Mapping[str, Any]
"""A definition as it is stored."""
_TAKEN_BACK = ("run.shortened", "run.withdrawn")
_WAITS_FOR_A_PERSON = (RunState.WAITING, RunState.HELD)
_ENDS = {f"{what}.{state.label}": state for what in ("run", "step") for state in RunState if not state.live}
_ENDS["schedule.missed"] = RunState.MISSED
_ENDS_OF_AN_EPOCH = tuple(f"{what}.{end}" for what in ("run", "step") for end in ("retrying", "failed", "unknown"))
"""The ways in which a run leaves an epoch behind, besides success, which leaves the epoch in its outcome."""
_SOON_MS = 240_000
"""Within so long after the last start all schedules have run again: one that the clock silenced has not."""
_RUNS = """SELECT id, schedule_id, slot, request_key, state, epoch, planned_at, slots, first_slot, outcome, reason,
  rev, attempt, owner, parent, step, round
FROM runs ORDER BY schedule_id, slot, id"""
_ANSWERS = "SELECT run_id, destination, state FROM answers"
SCHEDULES = """SELECT s.id, s.name, s.state, v.definition, d.next_slot, d.due_at, d.waiting
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id"""


class Rows:
    """A connection of its own that looks at what is there."""

    def __init__(self, url: str) -> None:
        self.sqlite = url.startswith("sqlite")
        if self.sqlite:
            import apsw

            self._connection: Any = apsw.Connection(url.removeprefix("sqlite:///"))
            self._connection.set_busy_timeout(5_000)
        else:
            import psycopg

            self._connection = psycopg.connect(url, autocommit=True)

    def all(self, sql: str) -> list[Any]:
        return self._connection.execute(sql).fetchall()

    def unsettled(self, before: int) -> int:
        """How much that was planned before an instant is not over, or was due and is not planned."""
        waits = ", ".join(str(int(state)) for state in _WAITS_FOR_A_PERSON)
        live = f"""SELECT count(*) FROM runs r WHERE state < 10 AND state NOT IN ({waits}) AND planned_at < {before}
AND NOT EXISTS (SELECT 1 FROM runs s WHERE s.parent = r.id AND s.state = {RunState.HELD:d})"""
        due = f"SELECT count(*) FROM due WHERE due_at < {before}"
        unsent = f"SELECT count(*) FROM answers WHERE next_at IS NOT NULL AND created_at < {before}"
        return sum(self.all(each)[0][0] for each in (live, due, unsent))

    def damage(self) -> list[str]:
        """What the database itself finds wrong."""
        if not self.sqlite:
            return []
        return [str(row[0]) for row in self.all("PRAGMA integrity_check") if row[0] != "ok"]

    def close(self) -> None:
        self._connection.close()


@dataclass
class Tally:
    slots: int = 0
    steps: int = 0
    lost: int = 0
    duplicated: int = 0
    repeated: int = 0
    stale_accepted: int = 0
    unfinished: int = 0
    held: int = 0
    """Runs that wait for a person, because nobody knows what became of them."""
    copies: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Answers that arrived, and how often a part of one arrived again, by kind of destination."""
    notes: list[str] = field(default_factory=list[str])

    def add(self, what: str, count: int, note: str) -> None:
        if count:
            setattr(self, what, getattr(self, what) + count)
            self.notes.append(f"{what} {count}: {note}")

    def arrived(self, kind: str, answers: int, again: int) -> None:
        before = self.copies.get(kind, (0, 0))
        self.copies[kind] = before[0] + answers, before[1] + again

    def wrong(self, note: str) -> None:
        self.notes.append(note)


@dataclass(frozen=True)
class Record:
    id: int
    schedule_id: int
    slot: int | None
    request_key: str | None
    state: RunState
    epoch: int
    planned_at: int
    slots: int
    first_slot: int | None
    outcome: Any
    reason: str | None
    rev: int
    attempt: int
    owner: int | None
    parent: int | None
    step: int
    round: int | None
    works: bool
    """Whether it has a job of its own: no agent, no run of steps, nor a step whose result is that of another."""

    @property
    def first(self) -> int:
        """The first slot that it stands for."""
        assert self.slot is not None
        return self.slot if self.first_slot is None else self.first_slot

    @property
    def result(self) -> Any:
        """What its own job returned."""
        return self.outcome.get("result") if self.works and isinstance(self.outcome, dict) else None

    @property
    def mark(self) -> tuple[int, int]:
        """The attempt that its result is of."""
        return self.id, self.result["epoch"]


def reckon(
    url: str, lines: Sequence[Line], settled_at: int, *, memory_ms: int | None = None, notes: Path | None = None
) -> Tally:
    """Everything that must hold. Records older than `memory_ms` may be gone. `notes`: where answers were written."""
    pruned, since = memory_ms is not None, settled_at - memory_ms if memory_ms is not None else 0
    rows, tally = Rows(url), Tally()
    revisions = rows.all("SELECT schedule_id, rev, definition FROM revisions")
    definitions = {(schedule_id, rev): orjson.loads(text) for schedule_id, rev, text in revisions}
    records = [_record(row, definitions) for row in rows.all(_RUNS)]
    events = rows.all("SELECT schedule_id, run_id, type, at, data FROM events ORDER BY id")
    schedules = rows.all(SCHEDULES)
    _check_slots(tally, schedules, records, events, _retired(lines), settled_at, since)
    _check_ends(tally, records, events, settled_at, pruned)
    _check_epochs(tally, records, events)
    attempts = rows.all("SELECT run_id, epoch FROM attempts")
    parts = {record.id: _part(record, schedules, definitions) for record in records}
    _check_dispatches(tally, parts, records, attempts, lines, pruned)
    check_steps(tally, definitions, records, attempts, lines)
    _check_promises(tally, {row[0] for row in schedules}, records, lines, pruned)
    _check_permits(tally, records, rows.all("SELECT scope, run_id FROM permits WHERE run_id IS NOT NULL"))
    _check_answers(tally, parts, records, rows.all(_ANSWERS), lines, settled_at, notes)
    for damage in rows.damage():
        tally.wrong(f"damaged: {damage}")
    rows.close()
    matins = Matins(url)
    for fault in matins.audit.verify().problems:
        tally.wrong(f"audit: {fault}")
    matins.close()
    return tally


def _check_answers(
    tally: Tally,
    parts: Mapping[int, tuple[str, str]],
    records: Iterable[Record],
    answers: Iterable[Sequence[Any]],
    lines: Iterable[Line],
    settled: int,
    notes: Path | None,
) -> None:
    """Each success has an answer for each destination, which arrived: once by its key, or once and one marked copy.
    Where copies cannot be told, two that were cut off are unconfirmed, and said to be."""
    states = {(run, to): state for run, to, state in answers}
    letters: dict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in lines:
        if line["kind"] == "letter":
            letters[line["run"], line["to"]].append(line)
    written = Counter(path.stem.rpartition("-")[2] for path in notes.glob("*.md")) if notes is not None else None
    for record in records:
        if parts[record.id][0] != TOLD or record.state is not RunState.SUCCEEDED or record.planned_at >= settled:
            continue
        if written is not None:
            state, count = states.get((record.id, NOTES)), written[str(record.id)]
            said = f"the answer of run {record.id} to {NOTES}: {state}, {count} files"
            tally.add("lost", state != "delivered" or not count, said)
            tally.add("duplicated", count > 1, said)
            tally.arrived("file", count, max(0, count - 1))
        for to in LETTERBOXES:
            state, got = states.get((record.id, to)), letters[record.id, to]
            said = f"the answer of run {record.id} to {to}: {state}, {[(one['part'], one['again']) for one in got]}"
            sound = state == "delivered" or (to == UNKEYED and state == "unconfirmed")
            tally.add("lost", not sound or (state == "delivered" and {one["part"] for one in got} != {0, 1}), said)
            tally.arrived(to, bool(got), len(got) - len({one["part"] for one in got}))
            for number in range(2):
                copies = [one for one in got if one["part"] == number]
                if to == KEYED:
                    tally.add("duplicated", len({one["key"] for one in copies}) > 1, said)
                else:
                    tally.add("duplicated", sum(not one["again"] for one in copies) > 1 or len(copies) > 2, said)


def _part(record: Record, schedules: Iterable[Any], definitions: Mapping[tuple[int, int], _Words]) -> tuple[str, str]:
    """The name of its schedule, and the title of its step."""
    steps = definitions[record.schedule_id, record.rev].get("steps")
    name = next(row[1] for row in schedules if row[0] == record.schedule_id)
    return name, steps[record.step - 1]["title"] if record.step else ""


def _record(row: Sequence[Any], definitions: Mapping[tuple[int, int], _Words]) -> Record:
    found = Record(*row[:4], RunState(row[4]), *row[5:9], _json(row[9]), *row[10:], works=True)
    definition = definitions[found.schedule_id, found.rev]
    whole = not found.step and "steps" in definition
    return replace(found, works=not whole and found.reason != CARRIED_OVER and "prompt" not in definition)


# -- every slot has exactly one record


def _check_slots(
    tally: Tally,
    schedules: Iterable[Any],
    records: list[Record],
    events: list[Any],
    retired: Mapping[int, int],
    settled: int,
    since: int,
) -> None:
    by_schedule: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if record.slot is not None:
            by_schedule[record.schedule_id].append(record)
            tally.slots += 1
    gone, taken_back = _pauses(events), _taken_back(events)
    for schedule_id, name, state, definition, cursor, due_at, _ in schedules:
        beat = beat_of(orjson.loads(definition)["trigger"])
        mine = by_schedule[schedule_id]
        live = any(record.state.live for record in mine)
        if state == "active" and due_at is None and not (beat is None and live):
            tally.add("lost", 1, f"{name} stands still: nothing is due, and nothing is awaited")
        if due_at is not None and due_at < settled:
            tally.add("lost", 1, f"{name} is due since {settled - due_at} ms and was not planned")
        if beat is not None and due_at is not None and due_at > settled + _SOON_MS:
            tally.add("lost", 1, f"{name} is silent until {due_at - settled} ms after it should run again")
        if beat is None:
            twice = [a for a, b in pairwise(mine) if a.slot == b.slot]
            tally.add("duplicated", len(twice), f"{name}: {twice[:3]}")
        else:
            spans = [(0, since - 1), *gone[schedule_id]]
            end = min(ends.get(schedule_id, 1 << 62) for ends in (retired, taken_back))
            _check_row(tally, name, beat, mine, cursor if state == "active" else None, spans, end)


def _check_row(
    tally: Tally,
    name: str,
    beat: Beat,
    records: list[Record],
    cursor: int | None,
    gone: list[tuple[int, int]],
    retired: int,
) -> None:
    """Records do not touch each other or the cursor, and there is no gap before the cursor; some slots may be gone.
    Records beyond it are of a clock that was ahead: the slots between them are still to come."""
    for record in records:
        assert record.slot is not None
        if beat.next_ms(record.slot - 1) != record.slot or beat.next_ms(record.first - 1) != record.first:
            tally.wrong(f"{name}: {record} is for a slot that the schedule never had")
        if beat.count(record.first, record.slot + 1) != record.slots:
            tally.wrong(f"{name}: {record} does not cover what it says")
        if cursor is not None and record.first > cursor and record.planned_at < record.first:
            tally.wrong(f"{name}: {record} was planned before its time")
    end = cursor or retired
    here = [] if cursor is None else [(cursor, cursor - 1)]
    marks = sorted([*((record.first, record.slot or 0) for record in records), *here])
    for (first, last), (start, _) in pairwise(marks):
        if start <= last or start == first:
            tally.add("duplicated", beat.count(start, last + 1) or 1, f"{name}: {first} to {last}, next {start}")
        elif start <= end and beat.next_ms(last) != start:
            gap = _slots(beat, last + 1, start)
            missing = [slot for slot in gap if not any(a < slot <= b for a, b in gone)]
            tally.add("lost", len(missing), f"{name}: {missing[:3]} after {last}, next {start}")


def _retired(lines: Sequence[Line]) -> dict[int, int]:
    """How far schedules were when they were retired. If the clock went back afterwards, what came then never comes."""
    ends: dict[int, int] = {}
    now = 1 << 62
    for line in lines:
        if line["kind"] == "retired" and line["cursor"] is not None:
            ends[line["schedule"]] = min(line["cursor"], now)  # nobody may have seen yet that the clock went back
        elif line["kind"] == "stepped":
            now = line["at"]
            ends = {schedule: min(end, now) for schedule, end in ends.items()}
    return ends


def _taken_back(events: Iterable[Any]) -> dict[int, int]:
    """When the records of schedules that made none afterwards were last taken back. Engines may do that for a step of
    the clock before the last one, just when a schedule is retired."""
    back: dict[int, int] = {}
    newest: Counter[int] = Counter()
    for schedule_id, run_id, kind, at, _ in events:
        if kind in _TAKEN_BACK:
            back[schedule_id] = at
        elif run_id is not None and run_id > newest[schedule_id]:
            newest[schedule_id] = run_id
            back.pop(schedule_id, None)
    return back


def _slots(beat: Beat, first: int, end: int) -> list[int]:
    slots: list[int] = []
    slot = beat.next_ms(first - 1)
    while slot < end and len(slots) < 100_000:
        slots.append(slot)
        slot = beat.next_ms(slot)
    return slots


def _pauses(events: Iterable[Any]) -> dict[int, list[tuple[int, int]]]:
    """When schedules were paused, as (from, until)."""
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    since: dict[int, int] = {}
    for schedule_id, _, kind, at, _ in events:
        if kind == "schedule.paused":
            since.setdefault(schedule_id, at)
        elif kind == "schedule.resumed" and schedule_id in since:
            spans[schedule_id].append((since.pop(schedule_id), at))
    for schedule_id, at in since.items():
        spans[schedule_id].append((at, 1 << 62))
    return spans


# -- every run has exactly one end


def _check_ends(tally: Tally, records: list[Record], events: list[Any], settled: int, pruned: bool) -> None:
    ends: dict[int, list[RunState]] = defaultdict(list)
    for _, run_id, kind, _, _ in events:
        if kind in _ENDS and run_id is not None:
            ends[run_id].append(_ENDS[kind])
    held = {record.parent for record in records if record.state is RunState.HELD}
    for record in records:
        told = ends[record.id]
        expected = [] if record.state.live else [record.state]
        if told != expected and not (pruned and not told):
            tally.wrong(f"{record} has the ends {told}")
        waits = record.state in _WAITS_FOR_A_PERSON or record.id in held or record.planned_at >= settled
        if record.state.live and not waits:
            tally.add("unfinished", 1, f"{record}")


# -- no write from an older epoch


def _check_epochs(tally: Tally, records: list[Record], events: list[Any]) -> None:
    """A run leaves each epoch once, and its outcome is of its last. (Events of several writers have no order.)"""
    left = Counter(
        (run_id, _json(data)["epoch"]) for _, run_id, kind, _, data in events if kind in _ENDS_OF_AN_EPOCH and data
    )
    left.update((record.id, record.result["epoch"]) for record in records if record.result is not None)
    twice = {run_id for (run_id, _), times in left.items() if times > 1}
    old = {record.id for record in records if record.result is not None and record.result["epoch"] != record.epoch}
    tally.add("stale_accepted", len(twice | old), f"runs {sorted(twice | old)[:9]} went on from an epoch that was over")


# -- every dispatch was durable before it, and happened once


def _check_dispatches(
    tally: Tally,
    parts: Mapping[int, tuple[str, str]],
    records: list[Record],
    attempts: list[Any],
    lines: Sequence[Line],
    pruned: bool,
) -> None:
    begun = Counter((line["run"], line["epoch"]) for line in lines if line["kind"] == "begin")
    ended = {(line["run"], line["epoch"]) for line in lines if line["kind"] == "end"}
    durable = {(run_id, epoch) for run_id, epoch in attempts}
    for pair, times in begun.items():
        tally.add("duplicated", times - 1, f"(run, epoch) {pair} was dispatched {times} times")
        if pair not in durable and not pruned:
            tally.wrong(f"(run, epoch) {pair} was dispatched, but there is no attempt")
    dispatches = Counter(run_id for run_id, _ in begun)
    for record in records:
        again = max(0, dispatches[record.id] - 1)
        if parts[record.id] in ONCE:
            tally.add("duplicated", again, f"{record} began {again + 1} times although it was to be held")
        elif parts[record.id] not in RETRIED:
            tally.repeated += again
        if record.works and record.state is RunState.SUCCEEDED and record.mark not in ended:
            tally.wrong(f"{record} succeeded, but its job never ended")
    # A step keeps its key in every round of its run.
    whose = {record.id: (record.parent, record.step) for record in records if record.parent is not None}
    keys = {(whose.get(line["run"], line["run"]), line["key"]) for line in lines if line["kind"] == "begin"}
    if not len(keys) == len({key for _, key in keys}) == len({run for run, _ in keys}):
        tally.wrong("an idempotency key changed, or stood for two runs")


# -- what was promised is there


def _check_promises(
    tally: Tally, schedules: set[int], records: list[Record], lines: Sequence[Line], pruned: bool
) -> None:
    by_key = {record.request_key: record.id for record in records if record.request_key}
    for line in lines:
        if line["kind"] == "promised_run" and by_key.get(line["key"]) != line["run"] and not pruned:
            tally.add("lost", 1, f"{line}; there is {by_key.get(line['key'])}")
        if line["kind"] == "promised_schedule" and line["schedule"] not in schedules:
            tally.add("lost", 1, f"{line}")


def _check_permits(tally: Tally, records: list[Record], permits: list[Any]) -> None:
    live = {record.id for record in records if record.state.live}
    for scope, run_id in permits:
        if run_id not in live:
            tally.wrong(f"run {run_id} is over and still holds a permit of {scope}")


def _json(text: str | None) -> Any:
    return orjson.loads(text) if text else None
