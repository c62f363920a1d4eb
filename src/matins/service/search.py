"""Use cases that search: schedules, agents, requests, incidents and what runs said; and the lines of their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from matins.api.results import Found, FoundLine, FoundLines
from matins.engine.run_texts import excerpt, parse_search
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.model.run import RunRecord
from matins.model.schedule import ScheduleRecord
from matins.model.selector import RunFilter, RunQuery, ScheduleFilter, Selector, Term, Value
from matins.runtime.catalog import run_record, schedule_record
from matins.service.core import MAX_ID, Core
from matins.service.listing import run_filter, run_rows
from matins.service.output import MAX_BYTES, Outputs, Source, StreamName, entries_of
from matins.store.transaction import Transaction

_MAX_QUERY_LENGTH = 200
_DIGITS = 18
_MAX_PENDING, _MAX_INCIDENTS = 200, 200
_MAX_READ, _MAX_READ_MS = 64 << 20, 4_000
"""How much of outputs one call reads, and for how long."""
_RUNS = 50
_STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")
_MAX_LINE = 2_000


@dataclass(frozen=True)
class Search:
    core: Core
    outputs: Outputs

    def search(self, principal: Principal, text: str, *, limit: int = 10) -> list[Found]:
        if len(text) > _MAX_QUERY_LENGTH:
            message = f'"text" is longer than {_MAX_QUERY_LENGTH} characters.'
            raise InvalidInput(message, value=text[:60], field="text", hint="Give fewer words.")
        if not text.strip():
            raise InvalidInput('"text" is empty.', value=text, field="text", hint="Give a name, a word or a number.")
        words = text.strip().lower()
        selector = Selector((Term("text", (Value(words),)),))
        reader = self.core.limited_reader(principal)
        with self.core.store.reading() as transaction:
            named = [*self._run(transaction, words), *self._agents(transaction, words)]
            rows = transaction.listed(ScheduleFilter(selector, reader=reader), "name", 0, limit)
            named += _by_name([schedule_record(row) for row in rows], words)
            said = [
                *_approvals(transaction, words),
                *_incidents(transaction, words),
                *self._texts(transaction, text, limit, reader),
            ]
        said = said[: max(limit // 2, limit - len(named))]  # neither hides the other
        return [*named[: limit - len(said)], *said]

    def _run(self, transaction: Transaction, words: str) -> Iterable[Found]:
        number = words.removeprefix("run").strip().removeprefix("#")
        if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS):
            return
        row = transaction.run(int(number))
        if row is not None:
            run = run_record(row)
            yield Found("run", str(run.id), f"{run.schedule}, run {run.id}", None, run.display_state)

    def _agents(self, transaction: Transaction, words: str) -> Iterable[Found]:
        for agent in self.core.catalog.policies(transaction).agents.values():
            if words in agent.name.lower():
                yield Found("agent", agent.name, agent.name, agent.name, agent.runner)

    def _texts(self, transaction: Transaction, text: str, limit: int, reader: str | None) -> Iterator[Found]:
        try:
            search = parse_search(text)
        except InvalidInput:  # signs alone: names may have them, the index has none
            return
        for row in transaction.listed_runs(RunFilter(search=search, reader=reader), MAX_ID, limit):
            run, written = run_record(row), transaction.run_text(row.id) or ""
            title, found = f"{run.schedule}, run {run.id}", excerpt(written, search)
            yield Found("run", str(run.id), title, None, run.display_state, str(run.schedule_id), found)

    def grep(
        self,
        principal: Principal,
        text: str,
        *,
        schedule: str | None = None,
        agent: str | None = None,
        select: Selector | None = None,
        since: int | None = None,
        until: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> FoundLines:
        parts = _parts(text)
        reader = self.core.limited_reader(principal)
        query = RunQuery(schedule, agent if reader is None else reader, select, since=since, until=until)
        reading = _Reading(self.core.clock, self.core.clock.boot_ms() + _MAX_READ_MS)
        lines: list[FoundLine] = []
        cut: list[str] = []
        last: RunRecord | None = None
        for run, steps in self._started(principal, query, MAX_ID if before is None else before):
            if len(lines) >= limit or reading.over:
                assert last is not None
                return FoundLines(lines, cut, reading.runs, reading.bytes, str(last.id), to_datetime(last.planned_at))
            found = (line for one in steps or [run] for line in self._lines(one, run, parts, reading))
            lines += islice(found, limit)
            if next(found, None) is not None:
                cut.append(str(run.id))
            reading.runs += 1
            last = run
        back_to = None if last is None else to_datetime(last.planned_at)
        return FoundLines(lines, cut, reading.runs, reading.bytes, None, back_to)

    def _started(
        self, principal: Principal, query: RunQuery, before: int
    ) -> Iterator[tuple[RunRecord, list[RunRecord]]]:
        """The runs that started, the newest first, with their steps."""
        while True:
            with self.core.store.reading() as transaction:
                chosen = run_filter(self.core, transaction, principal, query)
                rows = run_rows(transaction, chosen, query, before, _RUNS)
                started = [run_record(row) for row in rows if row.started_at is not None]
                steps = {run.id: [run_record(row) for row in transaction.steps_of(run.id)] for run in started}
            yield from ((run, steps[run.id]) for run in started)
            if len(rows) < _RUNS:
                return
            before = rows[-1].id

    def _lines(
        self, run: RunRecord, whole: RunRecord, parts: tuple[bytes, ...], reading: _Reading
    ) -> Iterator[FoundLine]:
        number = f"{whole.id}/{run.step}" if run.step else str(run.id)
        for stream in _STREAMS:
            source = self.outputs.source(run.id, stream, 0, MAX_BYTES)
            for line in reading.lines(source):
                if _has(line.lower(), parts):
                    for told in _told(line, parts):
                        yield FoundLine(str(run.schedule_id), number, whole.schedule, stream, told[:_MAX_LINE])


class _Reading:
    """How much was read, and until when there is time."""

    def __init__(self, clock: Clock, until: int) -> None:
        self._clock = clock
        self._until = until
        self.runs = 0
        self.bytes = 0

    @property
    def over(self) -> bool:
        return self.bytes >= _MAX_READ or self._clock.boot_ms() >= self._until

    def lines(self, source: Source) -> Iterator[bytes]:
        at, rest = 0, b""
        while not self.over or at == 0:
            chunk = source.read(at, MAX_BYTES)
            self.bytes += len(chunk.data)
            *whole, rest = (rest + chunk.data if chunk.at == at else chunk.data).split(b"\n")
            yield from whole
            at = chunk.at + len(chunk.data)
            if not chunk.data or at >= chunk.total:
                break
        if rest:
            yield rest


def _parts(text: str) -> tuple[bytes, ...]:
    """What a line must have, one after the other: a text in which `*` is any text."""
    found = tuple(part.lower().encode() for part in text.split("*") if part)
    if not found:
        message = '"text" is empty.' if not text else f'"text" is any text: {text!r}.'
        raise InvalidInput(
            message, value=text, field="text", hint='Give a text. "*" stands for any text: "quota*exceeded".'
        )
    return found


def _has(line: bytes, parts: tuple[bytes, ...]) -> bool:
    at = 0
    for part in parts:
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _told(line: bytes, parts: tuple[bytes, ...]) -> Iterator[str]:
    """The line as people read it; of an event of a tool, the lines that have the text."""
    for entry in entries_of(line):
        if entry.kind == "line":
            yield entry.text
        else:
            yield from (one for one in entry.text.split("\n") if _has(one.lower().encode(), parts))


def _approvals(transaction: Transaction, words: str) -> Iterator[Found]:
    for approval in transaction.approvals_in("pending", 0, _MAX_PENDING):
        if words in approval.schedule.lower():
            yield Found(
                "approval", str(approval.id), f"Approval {approval.id}: {approval.schedule}", None, approval.state
            )


def _incidents(transaction: Transaction, words: str) -> Iterator[Found]:
    found = transaction.unresolved_incidents(None, MAX_ID, _MAX_INCIDENTS)
    names = {row.id: row.name for row in transaction.schedules_with({incident.schedule_id for incident in found})}
    for incident in found:
        name = names.get(incident.schedule_id)
        title = incident.summary if name is None else f"{name}: {incident.summary}"
        if all(word in title.lower() for word in words.split()):
            yield Found("incident", str(incident.id), title, None, incident.state)


def _by_name(schedules: list[ScheduleRecord], words: str) -> list[Found]:
    """Those whose name begins with the words first, then those that have them in the name."""

    def rank(schedule: ScheduleRecord) -> int:
        name = schedule.name.lower()
        return 0 if name.startswith(words) else 1 if words in name else 2

    return [
        Found("schedule", str(schedule.id), schedule.name, schedule.agent, schedule.state)
        for schedule in sorted(schedules, key=rank)
    ]
