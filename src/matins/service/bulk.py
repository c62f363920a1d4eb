"""One action on many schedules or runs, with one reason and one story in the log; pauses of several schedules.

Those of one call are changed in transactions of a hundred, so that the engine does not wait for all of them. A call
that was cut off is repeated: what it did is left alone.
"""

from __future__ import annotations

import builtins
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from matins.api.results import BulkPreview, BulkResult, Pause, RunsPreview, RunsResult, SkippedRun, SkippedSchedule
from matins.api.runs import BulkAction, RunAction
from matins.config.file import file_format
from matins.engine.reasons import rfc3339
from matins.engine.selectors import format_selector
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, MatinsError, NotFound, Stale
from matins.model.access import Principal, name_of
from matins.model.overview import PausedSchedule
from matins.model.rows import FileEntry, NewEvent
from matins.model.run import RunRecord, RunState
from matins.model.schedule import ScheduleRecord
from matins.model.selector import RunQuery, ScheduleFilter, Selector, Term, Value
from matins.runtime.catalog import run_record, schedule_record
from matins.runtime.pausing import pause
from matins.service.core import MAX_ID, Core
from matins.service.drafts import check_note
from matins.service.listing import run_filter
from matins.service.permissions import check_fresh, check_granted, check_reach
from matins.service.runs import Runs
from matins.service.schedule_changes import ScheduleChanges
from matins.service.schedules import Schedules, does_not_run
from matins.store.transaction import Transaction

T = TypeVar("T")
_BATCH = 100
"""Schedules in one transaction."""
_PAGE = 1_000
_SHOWN = 2
_MAX_NAMED = 3
_CHANGED_BY = {
    "pause": ("active",),
    "resume": ("paused", "broken"),
    "run": ("active", "paused", "completed"),
    "delete": None,
    "edit": None,
}
"""The states in which an action changes a schedule; None for all."""
_DONE = {"pause": "paused", "resume": "active"}
"""The state in which a schedule is already as the action makes it."""


class Chosen(NamedTuple):
    """What a selector selects, and what an action would do to it."""

    changed: builtins.list[ScheduleRecord]
    already: int
    """Schedules that are already as the action makes them."""
    skipped: builtins.list[SkippedSchedule]

    @property
    def digest(self) -> str:
        """Digest of the schedules to change, with their number."""
        return _digest(one.id for one in self.changed)


def _digest(ids: Iterable[int]) -> str:
    text = ",".join(map(str, sorted(ids)))
    return f"{text.count(',') + bool(text)}-{sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Bulk:
    core: Core
    changes: ScheduleChanges
    schedules: Schedules
    runs: Runs

    def preview(self, principal: Principal, do: BulkAction, select: Selector) -> BulkPreview:
        chosen = self._chosen(principal, do, select)
        return BulkPreview(
            do=do,
            select=format_selector(select),
            total=len(chosen.changed),
            sentence=_sentence(do, chosen, select),
            schedules=[full_name(one) for one in chosen.changed[:_PAGE]],
            already=chosen.already,
            skipped=chosen.skipped,
            digest=chosen.digest,
        )

    def apply(
        self,
        principal: Principal,
        do: BulkAction,
        select: Selector,
        *,
        expect: str | None = None,
        note: str | None = None,
        until: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> BulkResult:
        now = self.core.clock.now_ms()
        _check_arguments(do, note, until, settings, now)
        if do == "delete":
            check_fresh(principal, now)
        chosen = self._chosen(principal, do, select)
        if expect is not None and expect != chosen.digest:
            raise _changed_since(chosen, expect)
        if not chosen.changed:
            done = f"{chosen.already} already {_DONE[do]}, " if chosen.already else ""
            shown = format_selector(select)
            message = f"Nothing to {do}: {done}{len(chosen.skipped)} skipped, for {shown}."
            raise NotFound(message, value=shown, field="select", hint="List what matches: matins list")
        number = secrets.token_hex(4)
        act = _Act(do, number, note, until, settings or {})
        data: dict[str, Any] = {"bulk": number, "do": do, "select": format_selector(select), **principal.signed}
        begun = {**data, "total": len(chosen.changed), "digest": chosen.digest, "note": note}
        batches = builtins.list(_batches(chosen.changed))
        names: builtins.list[str] = []
        skipped = chosen.skipped
        for place, some in enumerate(batches):
            done, refused = self._batch(principal, act, some, now, begun if place == 0 else None)
            names += done
            skipped = [*skipped, *refused]
            if place == len(batches) - 1:
                with self.core.store.transaction(now) as transaction:
                    ended = {**data, "changed": len(names), "skipped": len(skipped)}
                    transaction.events.append(NewEvent(now, "bulk.done", None, None, ended))
        self.core.notify()
        return BulkResult(number, do, len(names), names[:_PAGE], chosen.already, skipped)

    def _batch(
        self, principal: Principal, act: _Act, some: Sequence[ScheduleRecord], now: int, begun: dict[str, Any] | None
    ) -> tuple[builtins.list[str], builtins.list[SkippedSchedule]]:
        done: builtins.list[str] = []
        skipped: builtins.list[SkippedSchedule] = []
        alone: builtins.list[ScheduleRecord] = []
        """Those that a use case of its own changes, in a transaction of its own."""
        with self.core.store.transaction(now) as transaction:
            if begun is not None:
                transaction.events.append(NewEvent(now, "bulk.started", None, None, begun))
            of_file = _of_file(transaction, some)
            transaction.lock_due([one.id for one in some])
            for schedule in some:
                if act.do in ("run", "edit") or (act.do == "delete" and schedule.id in of_file):
                    alone.append(schedule)
                    continue
                try:
                    changed = self._change(transaction, principal, act, schedule, of_file.get(schedule.id), now)
                except MatinsError as error:
                    skipped.append(_skipped(schedule, error))
                else:
                    done += [full_name(schedule)] if changed else []
        for schedule in alone:
            try:
                self._call(principal, act, schedule)
            except MatinsError as error:
                skipped.append(_skipped(schedule, error))
            else:
                done.append(full_name(schedule))
        return done, skipped

    def _change(
        self, transaction: Transaction, principal: Principal, act: _Act, schedule: ScheduleRecord,
        entry: FileEntry | None, now: int,
    ) -> bool:  # fmt: skip
        """Whether this call changed it: another one may have been faster."""
        present = self.core.schedule(transaction, schedule.id)
        if present.state == "removed":
            return False
        self.core.check_may_change(principal, present, act.do == "delete")
        match act.do:
            case "delete":
                self.changes.delete(transaction, principal, present, now)
                return True
            case "resume":
                if present.state not in ("paused", "broken"):
                    return False
                self.changes.resume(transaction, principal, present, now)
                return True
            case _:
                pass
        if present.state != "active":
            return False
        reason = None if entry is None else file_format(entry.path).not_pausable(present.definition)
        if reason is not None:
            message = f'"{present.name}" {reason} and cannot be paused.'
            raise InvalidInput(message, value=present.name, field="select", hint="Delete it instead.")
        self.changes.plan_due(transaction, present, now)
        paused = pause(transaction, schedule.id, now, principal.who, act.note, act.until)
        if paused:
            transaction.set_pause(schedule.id, act.number)
        return paused

    def _call(self, principal: Principal, act: _Act, schedule: ScheduleRecord) -> None:
        name, agent = schedule.name, schedule.agent
        match act.do:
            case "run":
                check_granted(principal, "run", "run schedules")
                self.runs.run(principal, name, agent=agent, key=f"bulk {act.number}")
            case "delete":
                self.schedules.delete(principal, name, agent=agent)
            case _:
                self.schedules.edit(principal, name, agent=agent, **act.settings)

    def pauses(self, principal: Principal) -> builtins.list[Pause]:
        with self.core.store.reading() as transaction:
            grouped: dict[str, builtins.list[PausedSchedule]] = defaultdict(list)
            for row in transaction.paused_in(None):
                grouped[row.pause_id].append(row)
        return [_pause_result(rows) for rows in grouped.values()]

    def _chosen(self, principal: Principal, do: BulkAction, select: Selector) -> Chosen:
        """An agent selects only what it made."""
        reader = self.core.limited_reader(principal)
        with self.core.store.reading() as transaction:
            found = builtins.list(_all_of(transaction, ScheduleFilter(select, reader=reader)))
            if principal.role == "agent":
                found = [one for one in found if one.creator_role == "agent" and one.created_by == principal.who]
            if not found:
                raise _nothing(transaction, select)
        states = _CHANGED_BY[do]
        changed = [one for one in found if states is None or one.state in states]
        for one in changed:
            check_reach(principal, one.agent, one.definition)
        done = _DONE.get(do)
        others = [one for one in found if one not in changed and one.state != done] if states else []
        skipped = [_skipped(one, does_not_run(one)) for one in others]
        return Chosen(changed, sum(one.state == done for one in found), skipped)


class _Act(NamedTuple):
    do: BulkAction
    number: str
    note: str | None
    until: int | None
    settings: Mapping[str, Any]


def _all_of(transaction: Transaction, chosen: ScheduleFilter) -> Iterator[ScheduleRecord]:
    after = 0
    while rows := transaction.listed(chosen, "created", after, _PAGE):
        yield from map(schedule_record, rows)
        after = rows[-1].id


def _check_arguments(
    do: BulkAction, note: str | None, until: int | None, settings: Mapping[str, Any] | None, now: int
) -> None:
    check_note(note)
    if until is not None and do != "pause":
        raise InvalidInput('"until" is for pause.', value=until, field="until", hint="Omit it.")
    if until is not None and until <= now:
        raise InvalidInput('"until" is in the past.', value=until, field="until", hint="Give a time in the future.")
    if (do == "edit") != bool(settings):
        message = '"settings" are missing.' if do == "edit" else '"settings" are for edit.'
        raise InvalidInput(message, field="settings", hint='For example: {"retries": 2}, with "do": "edit".')


def _nothing(transaction: Transaction, select: Selector) -> NotFound:
    """What was looked for; and a name that was written out and does not exist."""
    shown = format_selector(select)
    message, hint = f"No schedule matches: {shown}.", "List schedules: matins list"
    for term in select.terms:
        if term.key == "pause":
            message, hint = f"No schedule is paused by {shown}.", "List pauses in force: matins resume"
        elif len(select.terms) > 1 and not term.negated and not transaction.tab_counts(Selector((term,)), None).all:
            message += f" None has {format_selector(Selector((term,)))}."
    return NotFound(message, value=shown, field="select", hint=hint)


def _changed_since(chosen: Chosen, expect: str) -> Stale:
    """The names of what came since, where there is a difference."""
    before = expect.partition("-")[0]
    more = len(chosen.changed) - (int(before) if before.isdecimal() else 0)
    newest = sorted(chosen.changed, key=lambda one: (one.updated_at, one.id), reverse=True)
    came, stayed = newest[: max(more, 0)], newest[max(more, 0) :]
    names = ""
    if more > 0 and _digest([one.id for one in stayed]) == expect:
        names = ": " + ", ".join(full_name(one) for one in came[:_MAX_NAMED]) + (" …" if more > _MAX_NAMED else "")
    noun = "schedule matches" if abs(more) == 1 else "schedules match"
    message = f"{more} more {noun} now{names}." if more > 0 else f"{-more} {noun} no more." if more < 0 else (
        "Other schedules match now."
    )  # fmt: skip
    return Stale(message, value=expect, field="expect", hint="Preview again.")


def _sentence(do: BulkAction, chosen: Chosen, select: Selector) -> str:
    """For example: 41 active schedules of 6 agents: ops/backup, ops/report … and 39 more. 2 are paused already and stay
    so."""
    changed = chosen.changed
    names = [full_name(one) for one in changed]
    state = {"pause": "active ", "resume": "paused "}.get(do, "")
    agents = len({one.agent for one in changed})
    of = f" of {agents} agents" if agents > 1 else ""
    listed = ", ".join(names[:_SHOWN]) + (f" … and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    noun = "schedule" if len(names) == 1 else "schedules"
    parts = [f"{len(names)} {state}{noun}{of}: {listed}." if names else f"Nothing to {do}."]
    if chosen.already:
        verb, stay = ("is", "stays") if chosen.already == 1 else ("are", "stay")
        parts.append(f"{chosen.already} {verb} {_DONE[do]} already and {stay} so.")
    states = Counter(one.reason for one in chosen.skipped)
    if chosen.skipped:
        parts.append(f"{len(chosen.skipped)} skipped: {next(iter(states))}" + (" …" if len(states) > 1 else ""))
    return " ".join(parts)


def _of_file(transaction: Transaction, schedules: Iterable[ScheduleRecord]) -> dict[int, FileEntry]:
    """What files define of these schedules, by id."""
    keys = {f"{one.agent}/{one.name}": one.id for one in schedules}
    return {keys[entry.name]: entry for entry in transaction.file_entries_named("schedule", builtins.list(keys))}


def _skipped(schedule: ScheduleRecord, error: MatinsError) -> SkippedSchedule:
    return SkippedSchedule(full_name(schedule), error.message)


def _pause_result(rows: Sequence[PausedSchedule]) -> Pause:
    first = rows[0]
    return Pause(
        id=first.pause_id,
        note=first.note,
        by=name_of(first.paused_by),
        at=to_datetime(first.paused_at),
        until=to_datetime(first.paused_until),
        schedules=[full_name(row) for row in rows],
    )


def full_name(one: PausedSchedule | ScheduleRecord) -> str:
    return f"{one.agent}/{one.name}" if one.agent else one.name


def paused_by(pause_id: str) -> Selector:
    return Selector((Term("pause", (Value(pause_id),)),))


def _batches(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


_MAX_RUNS = 10_000


class RunChoice(NamedTuple):
    """The states of the runs that an action on many runs changes."""

    lowest: RunState
    highest: RunState
    others: str
    """How the others are."""

    def takes(self, state: RunState) -> bool:
        return self.lowest <= state <= self.highest


_RUN_CHOICES: Mapping[RunAction, RunChoice] = {
    "cancel": RunChoice(RunState.WAITING, RunState.HELD, "over"),
    "retry": RunChoice(RunState.FAILED, RunState.BLOCKED, "live or succeeded"),
}


@dataclass(frozen=True)
class RunBulk:
    core: Core
    runs: Runs

    def preview_bulk(
        self,
        principal: Principal,
        do: RunAction,
        *,
        runs: Sequence[int] | None = None,
        schedule: str | None = None,
        agent: str | None = None,
        select: Selector | None = None,
        state: tuple[str, ...] | None = None,
        reason: str | None = None,
        text: str | None = None,
        min_cost: str | None = None,
        min_duration: str | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> RunsPreview:
        query = RunQuery(schedule, agent, select, state, reason, text, min_cost, min_duration, since, until)
        changed, others = self._chosen(principal, do, runs, query)
        return RunsPreview(
            do=do,
            total=len(changed),
            sentence=_runs_sentence(do, changed, others),
            runs=[str(run.id) for run in changed[:_PAGE]],
            others=others,
            digest=_digest(run.id for run in changed),
        )

    def bulk(
        self,
        principal: Principal,
        do: RunAction,
        *,
        runs: Sequence[int] | None = None,
        schedule: str | None = None,
        agent: str | None = None,
        select: Selector | None = None,
        state: tuple[str, ...] | None = None,
        reason: str | None = None,
        text: str | None = None,
        min_cost: str | None = None,
        min_duration: str | None = None,
        since: int | None = None,
        until: int | None = None,
        expect: str | None = None,
        note: str | None = None,
    ) -> RunsResult:
        query = RunQuery(schedule, agent, select, state, reason, text, min_cost, min_duration, since, until)
        check_note(note)
        if note is not None and do != "cancel":
            raise InvalidInput('"note" is for cancel.', value=note, field="note", hint="Omit it.")
        changed, others = self._chosen(principal, do, runs, query)
        if expect is not None and expect != (digest := _digest(run.id for run in changed)):
            more = len(changed) - int(expect.partition("-")[0]) if expect.partition("-")[0].isdecimal() else 0
            noun = "run matches" if abs(more) == 1 else "runs match"
            message = f"{more} more {noun} now." if more > 0 else f"{-more} {noun} no more." if more < 0 else (
                "Other runs match now."
            )  # fmt: skip
            raise Stale(message, value=digest, field="expect", hint="Preview again.")
        shown = _query_text(runs, query)
        if not changed:
            message = f"{_runs_sentence(do, changed, others)} Looked for: {shown}."
            raise NotFound(message, value=shown, field="select", hint="List what matches: matins runs")
        now, number = self.core.clock.now_ms(), secrets.token_hex(4)
        data: dict[str, Any] = {"bulk": number, "do": f"{do} runs", "select": shown, **principal.signed}
        begun = {**data, "total": len(changed), "digest": _digest(run.id for run in changed), "note": note}
        done: builtins.list[str] = []
        skipped: builtins.list[SkippedRun] = []
        for place, some in enumerate(_batches(changed)):
            with self.core.store.transaction(now) as transaction:
                if place == 0:
                    transaction.events.append(NewEvent(now, "bulk.started", None, None, begun))
                ended = some if do == "cancel" else ()
                done += self._each(ended, partial(self._cancel, transaction, principal, now, note), skipped)
            retried = some if do == "retry" else ()
            done += self._each(retried, partial(self._retry, principal, number), skipped)
        with self.core.store.transaction(now) as transaction:
            data |= {"changed": len(done), "skipped": len(skipped)}
            transaction.events.append(NewEvent(now, "bulk.done", None, None, data))
        self.core.notify()
        return RunsResult(number, do, len(done), done[:_PAGE], others, skipped)

    def _each(
        self, some: Iterable[RunRecord], act: Callable[[RunRecord], str], skipped: builtins.list[SkippedRun]
    ) -> Iterator[str]:
        """The runs that were cancelled or made."""
        for run in some:
            try:
                yield act(run)
            except MatinsError as error:
                skipped.append(SkippedRun(str(run.id), run.schedule, error.message))

    def _cancel(
        self, transaction: Transaction, principal: Principal, now: int, note: str | None, run: RunRecord
    ) -> str:
        self.runs.end(transaction, principal, run.id, note or "cancelled", now)
        return str(run.id)

    def _retry(self, principal: Principal, number: str, run: RunRecord) -> str:
        return self.runs.retry(principal, run.id, key=f"bulk {number} {run.id}").id

    def _chosen(
        self, principal: Principal, do: RunAction, numbers: Sequence[int] | None, query: RunQuery
    ) -> tuple[builtins.list[RunRecord], int]:
        """The runs that the action changes, the newest first, and how many match that it leaves as they are. An agent
        reaches only runs of what it made."""
        choice = _RUN_CHOICES[do]
        if numbers is None and query == RunQuery():
            hint = 'For example: {"select": "all"}, {"state": "failed"} or {"runs": [12, 13]}.'
            raise InvalidInput("Say which runs.", field="select", hint=hint)
        if numbers is not None and query != RunQuery():
            raise InvalidInput('"runs" says which: give no other filter.', field="runs", hint="Omit the others.")
        with self.core.store.reading() as transaction:
            if numbers is not None:
                found = [self.core.run(transaction, number) for number in dict.fromkeys(numbers)]
            else:
                only = run_filter(self.core, transaction, principal, query)
                if only.states is None:
                    only = only._replace(states=sum(1 << state for state in RunState if choice.takes(state)))
                last = MAX_ID if query.until is None else transaction.first_planned(query.until) or 0
                found = [run_record(row) for row in transaction.listed_runs(only, last, _MAX_RUNS + 1)]
            if principal.role == "agent":
                made = self.core.schedules(transaction, {run.schedule_id for run in found})
                own = {number for number, one in made.items() if one.created_by == principal.who}
                found = [run for run in found if run.schedule_id in own]
        if len(found) > _MAX_RUNS:
            hint = "Narrow them: a schedule, a label, since or until."
            raise InvalidInput(
                f"More than {_MAX_RUNS:,} runs match.", value=_query_text(numbers, query), field="select", hint=hint
            )
        changed = [run for run in found if choice.takes(run.state)]
        if principal.granted:
            with self.core.store.reading() as transaction:
                of = self.core.schedules(transaction, {run.schedule_id for run in changed})
            for one in of.values():
                check_reach(principal, one.agent, one.definition)
        return changed, len(found) - len(changed)


def _query_text(numbers: Sequence[int] | None, query: RunQuery) -> str:
    """For example: select label.team=ops, state failed,unknown."""
    texts: dict[str, Any] = query._asdict()
    texts["runs"] = ",".join(map(str, numbers)) if numbers else None
    texts["select"] = format_selector(query.select) if query.select else None
    texts["state"] = ",".join(query.state) if query.state else None
    texts |= {name: rfc3339(texts[name]) for name in ("since", "until") if texts[name] is not None}
    return ", ".join(f"{name} {text}" for name, text in texts.items() if text is not None)


def _runs_sentence(do: RunAction, changed: Sequence[RunRecord], others: int) -> str:
    """For example: 118 failed runs of 31 schedules: nightly, report … and 29 more. 4 are live or succeeded."""
    states = {run.display_state for run in changed}
    state = f"{states.pop().replace('_', ' ')} " if len(states) == 1 else ""
    names = list(dict.fromkeys(run.schedule for run in changed))
    of = f" of {len(names)} schedules" if len(names) > 1 else ""
    listed = ", ".join(names[:_SHOWN]) + (f" … and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    noun = "run" if len(changed) == 1 else "runs"
    text = f"{len(changed)} {state}{noun}{of}: {listed}." if changed else f"No run to {do}."
    return f"{text} {others} {'is' if others == 1 else 'are'} {_RUN_CHOICES[do].others}." if others else text
