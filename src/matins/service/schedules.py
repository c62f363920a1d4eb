"""Use cases on schedules."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from matins.engine.planning import Rule
from matins.engine.schedules import encode
from matins.engine.when.triggers import Trigger
from matins.errors import Conflict, InvalidInput, NotFound, Stale
from matins.model.principal import Principal
from matins.model.records import NewEvent
from matins.model.schedule import Schedule, ScheduleDefinition
from matins.ports import Transaction
from matins.runtime import asking
from matins.runtime.limits import Free
from matins.runtime.pausing import pause, resume
from matins.runtime.planner import Planner, live_runs
from matins.runtime.recorder import end_runs
from matins.runtime.replan import first_free
from matins.runtime.rows import schedule_of
from matins.service.definitions import Defined, check_note, edited, refuse_taken, refuse_twins, says_when
from matins.service.proposals import Proposals
from matins.service.rights import check_hand, check_own, needs


class Schedules(Proposals):
    @needs("change")
    def add(self, principal: Principal, name: str, when: str | Trigger, agent: str = "", **words: Any) -> Schedule:
        """A new schedule. A name that is taken is an error: nothing is replaced unasked. What an agent adds is a
        proposal, and does nothing until somebody approves it."""
        ids = self.add_many(principal, [{"name": name, "when": when, "agent": agent, **words}])
        return self._by_id(ids[0])

    @needs("change")
    def add_many(self, principal: Principal, schedules: Sequence[Mapping[str, Any]]) -> builtins.list[int]:
        """Many at once, in the words of `add`; all of them or, when one cannot be used, none."""
        now = self._clock.now_ms()
        items = self._prepared(principal, schedules, now)
        with self._store.transaction(now) as transaction:
            ids = self._insert(transaction, principal, items, now)
        self._changed()
        return ids

    def _insert(
        self, transaction: Transaction, principal: Principal, items: Sequence[Defined], now: int
    ) -> builtins.list[int]:
        origin = self._origin(transaction, principal, items)
        ids = transaction.schedule_ids(len(items))
        rows = [origin.row(item, schedule_id) for schedule_id, item in zip(ids, items, strict=True)]
        refuse_twins(rows)
        refuse_taken(transaction, rows)
        transaction.insert_schedules(rows, now)
        for row in rows:
            data = {"name": row.name, "agent": row.agent, "by": principal.name, "role": principal.role}
            transaction.events.append(NewEvent(now, "schedule.created", row.id, None, data))
            if row.state == "pending":
                self._ask(transaction, principal, row.id, now)
        return list(ids)

    @needs("change")
    def edit(
        self, principal: Principal, name: str, agent: str | None = None, if_rev: int | None = None, **words: Any
    ) -> Schedule:
        """Change what a schedule says. What is due under the old words is planned first; runs in flight keep theirs.
        What was approved was the old words: it is asked about again. `if_rev`: only if it still has this revision."""
        now = self._clock.now_ms()
        given = self._checked_words(principal, words, changing=True)
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)
            check_hand(principal, schedule)
            refuse_stale(schedule, if_rev)
            self._refuse_of_file(transaction, "schedule", f"{schedule.agent}/{schedule.name}")
            definition, trigger = edited(schedule, given, now, self._catalog.policies(transaction).rates)
            definition = self._bounded(transaction, principal, schedule, definition, trigger, now)
            self._revise(transaction, principal, schedule, (definition, trigger), tuple(given), now)
        self._changed()
        return self._by_id(schedule.id)

    def _revise(
        self, transaction: Transaction, principal: Principal, schedule: Schedule,
        meant: tuple[ScheduleDefinition, Trigger], words: Sequence[str], now: int,
    ) -> None:  # fmt: skip
        """A new revision, in words that are checked; its cursor is found anew where they say when."""
        definition, trigger = meant
        cursor = self._plan_what_is_due(transaction, schedule, now)
        schedule = self._schedule(transaction, schedule.id)  # that may have been its end
        rev = transaction.last_revision(schedule.id) + 1
        transaction.insert_revision(schedule.id, rev, encode(definition), now)
        transaction.set_author(schedule.id, rev, principal.name, principal.role)
        more = definition.max_executions is None or schedule.executions < definition.max_executions
        anew = says_when(words) or schedule.state == "rejected" or (cursor is None and more)
        slot = first_free(transaction, schedule.id, trigger, now) if anew else cursor
        if slot is not None and slot < now and schedule.state != "pending":  # it waits for a completion
            slot = trigger.next_ms(now)
        state = "active" if schedule.state in ("completed", "expired") else schedule.state
        if schedule.state == "expired":
            transaction.set_schedule_state(schedule.id, "active", now, None, None)
            slot = first_free(transaction, schedule.id, trigger, now)
        due_at = Rule(definition, trigger).due_at(schedule.id, slot) if state == "active" else None
        transaction.replace_cursor(schedule.id, slot, due_at, rev, paused=state != "active")
        if schedule.state == "broken":  # nobody but the reader of its row may have noticed yet
            transaction.set_schedule_state(schedule.id, "broken", now, "edited: resume it", principal.name)
        data = {"rev": rev, "words": sorted(words), "by": principal.name}
        transaction.events.append(NewEvent(now, "schedule.updated", schedule.id, None, data))
        self._ask_again(transaction, principal, self._schedule(transaction, schedule.id), now)

    @needs("change")
    def pause(
        self,
        principal: Principal,
        name: str,
        agent: str | None = None,
        note: str | None = None,
        until: int | None = None,
    ) -> Schedule:
        """Nothing new starts; runs that wait are held back; runs that have started go on. `until`: an instant at which
        it goes on by itself."""
        check_note(note)
        now = self._clock.now_ms()
        if until is not None and until <= now:
            raise InvalidInput('"until" is past', value=until, field="until", hint="give a time to come")
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)
            check_hand(principal, schedule)
            self._plan_what_is_due(transaction, schedule, now)
            if not pause(transaction, schedule.id, now, principal.name, note, until):
                raise _does_not_run(schedule)
        self._changed()
        return self._by_id(schedule.id)

    @needs("change")
    def resume(self, principal: Principal, name: str, agent: str | None = None) -> Schedule:
        """Go on: an interval from now, everything else at its next occurrence."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)
            check_hand(principal, schedule)
            if schedule.state in ("pending", "rejected"):
                raise _does_not_run(schedule)
            if schedule.state not in ("paused", "broken"):
                return schedule
            self._let_go_on(transaction, principal, schedule, now)
        self._changed()
        return self._by_id(schedule.id)

    def _let_go_on(self, transaction: Transaction, principal: Principal, schedule: Schedule, now: int) -> None:
        void = asking.void(transaction, schedule.id, now, "it was resumed", money=True)
        resume(transaction, schedule, self._known(transaction, schedule), now, principal.name)
        for asked in void:
            self._ask_the_next(transaction, asked, now)

    @needs("change")
    def remove(self, principal: Principal, name: str, agent: str | None = None) -> bool:
        """Gone from every list, its history stays. False when there is no such schedule."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            try:
                schedule = self._find_locked(transaction, name, agent)
            except NotFound:
                return False
            check_own(principal, schedule)
            self._refuse_of_file(transaction, "schedule", f"{schedule.agent}/{schedule.name}")
            self._take_out(transaction, principal, schedule, now)
        self._changed()
        return True

    def _take_out(self, transaction: Transaction, principal: Principal, schedule: Schedule, now: int) -> None:
        transaction.set_schedule_state(schedule.id, "removed", now, None, principal.name)
        transaction.replace_cursor(schedule.id, None, None, schedule.rev)
        asking.void(transaction, schedule.id, now, "the schedule was removed")
        live = [run for run, _ in live_runs(transaction, [schedule.id]).get(schedule.id, [])]
        end_runs(transaction, self._catalog, live, now, "schedule_removed")
        transaction.events.append(NewEvent(now, "schedule.removed", schedule.id, None, {"by": principal.name}))

    @needs("read")
    def get(self, principal: Principal, name: str, agent: str | None = None) -> Schedule:
        with self._store.reading() as transaction:
            return self._find(transaction, name, agent)

    @needs("read")
    def list(
        self, principal: Principal, agent: str | None = None, after: int = 0, limit: int = 100
    ) -> builtins.list[Schedule]:
        """A page of schedules in the order in which they were made."""
        with self._store.reading() as transaction:
            return [schedule_of(row) for row in transaction.schedules(after, agent, limit)]

    def _plan_what_is_due(self, transaction: Transaction, schedule: Schedule, now: int) -> int | None:
        """Slots that came before a change get their records under the old words; where the cursor stands then."""
        rows = transaction.due_rows([schedule.id])
        if schedule.due_at is not None and rows[0].slot <= now:  # its jitter may not be over: there is no later
            Planner(self._catalog).plan_rows(transaction, rows, now, 0, Free(0))
            rows = transaction.due_rows([schedule.id])
        return rows[0].slot


def refuse_stale(schedule: Schedule, if_rev: int | None) -> None:
    if if_rev is not None and schedule.rev != if_rev:
        raise Stale(
            f'"{schedule.name}" was changed: it is at revision {schedule.rev}, not {if_rev}',
            value=schedule.rev,
            field="if_rev",
            hint="read it again, then change it",
        )


def _does_not_run(schedule: Schedule) -> Conflict:
    hints = {
        "pending": "it waits for approval: see the approvals",
        "rejected": "it was rejected: remove it, or edit it to ask again",
        "broken": "edit it, then resume it",
        "expired": "nothing of it runs; a later end revives it",
    }
    return Conflict(
        f'"{schedule.name}" is {schedule.state}', value=schedule.state, field="state", hint=hints.get(schedule.state)
    )
