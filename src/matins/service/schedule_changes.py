"""Changes of schedules inside a transaction: for use cases, and for the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matins.engine.audit_definitions import revision_fingerprint, schedule_fingerprint
from matins.engine.missions import gets_schedule
from matins.engine.planning import Timetable
from matins.engine.schedules import encode
from matins.engine.when.triggers import Trigger
from matins.model.access import Principal
from matins.model.rows import NewEvent, NewSchedule
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.runtime import approval_requests
from matins.runtime.capacity import Capacity
from matins.runtime.pausing import resume
from matins.runtime.planner import Planner, live_runs
from matins.runtime.repeated_runs import repeat_one_shot
from matins.runtime.run_changes import end_runs
from matins.runtime.uncovered_slots import first_uncovered_slot
from matins.runtime.zone_changes import note_zones
from matins.service.core import Core
from matins.service.drafts import Draft, changes_trigger, check_available, check_duplicates
from matins.service.listening import listen
from matins.service.proposals import Proposals
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class ScheduleChanges:
    core: Core
    proposals: Proposals

    def insert(
        self, transaction: Transaction, principal: Principal, drafts: Sequence[Draft], now: int, *,
        listening: bool = True, notes: list[str] | None = None,
    ) -> list[int]:  # fmt: skip
        """Insert schedules. `listening`: False when the caller inserts more, and calls `listen` for all of them.
        `notes` gets why a person decides about one-shots that the rules would approve."""
        authorship = self.proposals.authorship(transaction, principal, drafts)
        ids = transaction.schedule_ids(len(drafts))
        rows: list[NewSchedule] = []
        waits: dict[int, str] = {}
        for schedule_id, draft in zip(ids, drafts, strict=True):
            row, why = authorship.row(draft, schedule_id, now)
            rows.append(row)
            if why is not None:
                waits[schedule_id] = why
            elif authorship.stands and row.state != "pending":  # the next one of this call is less than a moment later
                authorship = authorship._replace(last_one_shot=now)
                transaction.set_last_one_shot(principal.name, now)
        if notes is not None:
            notes += waits.values()
        check_duplicates(rows)
        check_available(transaction, rows)
        transaction.insert_schedules(rows, now)
        note_zones(transaction, (draft.timetable.trigger for draft in drafts))
        author = principal.signed
        for row, draft in zip(rows, drafts, strict=True):
            data: dict[str, Any] = {"name": row.name, "agent": row.agent, **author, "role": principal.role,
                                    "fingerprint": schedule_fingerprint(row)}  # fmt: skip
            if draft.timetable.definition.steps:
                data["next_run_at"] = draft.slot
            transaction.events.append(NewEvent(now, "schedule.created", row.id, None, data))
            if row.state == "pending":
                self.proposals.request(transaction, principal, row.id, now, waits.get(row.id))
        if listening:
            calls = [number for number, draft in zip(ids, drafts, strict=True) if draft.timetable.definition.on]
            self.listen(transaction, calls)
        return list(ids)

    def listen(self, transaction: Transaction, schedule_ids: Sequence[int]) -> None:
        """Store what these schedules listen to."""
        listen(self.core, transaction, schedule_ids)

    def revise(
        self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord,
        definition: ScheduleDefinition, trigger: Trigger, names: Sequence[str], now: int, *, listening: bool = True,
    ) -> None:  # fmt: skip
        """Write a new revision with checked settings. The next slot is computed again if the trigger changes."""
        cursor = self.plan_due(transaction, schedule, now)
        schedule = self.core.schedule(transaction, schedule.id)  # planning may have ended it
        rev = transaction.last_revision(schedule.id) + 1
        transaction.insert_revision(schedule.id, rev, encode(definition), now)
        note_zones(transaction, [trigger])
        transaction.set_author(schedule.id, rev, principal.who, principal.role)
        more = definition.max_executions is None or schedule.executions < definition.max_executions
        again = changes_trigger(names) or schedule.state == "rejected" or (cursor is None and more)
        slot = first_uncovered_slot(transaction, schedule.id, trigger, now) if again else cursor
        if slot is not None and slot < now and schedule.state != "pending":  # the schedule waits for a completion
            slot = trigger.next_ms(now)
        state = "active" if schedule.state in ("completed", "expired") else schedule.state
        if schedule.state == "expired":
            transaction.set_schedule_state(schedule.id, "active", now, None, None)
            slot = first_uncovered_slot(transaction, schedule.id, trigger, now)
        due_at = Timetable(definition, trigger).due_at(schedule.id, slot) if state == "active" else None
        transaction.replace_cursor(schedule.id, slot, due_at, rev, paused=state != "active")
        if schedule.state == "broken":  # the state in the store may not be broken yet
            transaction.set_schedule_state(schedule.id, "broken", now, "edited: resume it", principal.who)
        if listening and (definition.on or schedule.definition.on):
            self.listen(transaction, [schedule.id])
        data = {"rev": rev, "settings": sorted(names), **principal.signed}
        data["fingerprint"] = revision_fingerprint(transaction.bound_revision(schedule.id, rev))
        transaction.events.append(NewEvent(now, "schedule.updated", schedule.id, None, data))
        if definition.steps and "when" in names and slot is not None:
            kind = "schedule.timed" if gets_schedule(schedule.definition, names) else "schedule.retimed"
            transaction.events.append(NewEvent(now, kind, schedule.id, None, {"next_run_at": slot}))
        self.proposals.request_again(transaction, principal, self.core.schedule(transaction, schedule.id), now)

    def resume(self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, now: int) -> None:
        voided = approval_requests.void_approvals(transaction, schedule.id, now, "the schedule was resumed", money=True)
        resume(transaction, schedule, self.core.compiled(transaction, schedule), now, principal.who)
        repeat_one_shot(transaction, self.core.catalog, schedule, principal.as_requester, now)
        for approval in voided:
            self.proposals.request_next(transaction, approval, now)

    def delete(self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, now: int) -> None:
        transaction.set_schedule_state(schedule.id, "removed", now, None, principal.who)
        transaction.replace_cursor(schedule.id, None, None, schedule.rev)
        transaction.set_listeners(schedule.id, [])
        approval_requests.void_approvals(transaction, schedule.id, now, "the schedule was deleted")
        live = [run for run, _ in live_runs(transaction, [schedule.id]).get(schedule.id, [])]
        end_runs(transaction, self.core.catalog, live, now, "schedule_removed")
        transaction.events.append(NewEvent(now, "schedule.deleted", schedule.id, None, {**principal.signed}))

    def plan_due(self, transaction: Transaction, schedule: ScheduleRecord, now: int) -> int | None:
        """Plan slots before a change with the old settings. Returns the next slot."""
        rows = transaction.lock_due([schedule.id])
        planner = Planner(self.core.catalog)
        planner.recorded_until = transaction.recorded_until()
        slot = None if schedule.due_at is None else rows[0].slot
        while slot is not None and slot <= now:  # its jitter may not be over: there is no later
            planner.plan_rows(transaction, rows, now, 0, Capacity(0))
            rows = transaction.lock_due([schedule.id])
            slot = rows[0].slot if rows[0].slot != slot and slot <= planner.recorded_until else None
        return rows[0].slot
