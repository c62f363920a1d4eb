"""Changes of schedules inside a transaction: for use cases, and for the file.

What schedules listen to: resolved, stored for calls, and free of circles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matins.engine.audit import revision_fingerprint, schedule_fingerprint
from matins.engine.calls import following_renamed, listening
from matins.engine.jobs import SHELL, SHELL_AGENT
from matins.engine.planning import Timetable
from matins.engine.schedules import decode, encode
from matins.engine.steps import gets_schedule, parts_of, with_agent_renamed
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import Conflict, MatinsError, name_taken
from matins.model.access import Principal
from matins.model.call import CallTrigger, Listener, OnSchedule
from matins.model.rows import NewEvent, NewSchedule
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.records.agents import AGENTS
from matins.records.kind import RecordContext
from matins.records.money import BUDGETS
from matins.runtime import approval_requests
from matins.runtime.backfills import end_all
from matins.runtime.capacity import Capacity
from matins.runtime.new_runs import first_uncovered_slot
from matins.runtime.pausing import pause, resume
from matins.runtime.planner import Planner, live_runs, repeat_one_shot
from matins.runtime.run_changes import end_runs
from matins.runtime.zone_changes import note_zones
from matins.service.core import Core
from matins.service.drafts import Draft, changes_trigger, check_duplicates
from matins.service.proposals import Proposals
from matins.service.record_changes import RecordChanges
from matins.store.transaction import Transaction

_PORTION = 5_000
"""Schedules that are prepared between two statements: a server ends a transaction that is idle for too long."""


def is_for_shell(definition: ScheduleDefinition, agent: str) -> bool:
    """Whether one of its commands is for the agent that is made with the first one."""
    if definition.command is None and not definition.steps:
        return False
    return any(part.command is not None and name == SHELL for part, name in parts_of(definition, agent))


def listen(core: Core, transaction: Transaction, schedule_ids: Sequence[int]) -> None:
    """Store what these schedules listen to. Raises if one follows a schedule that does not exist, or itself."""
    schedules = [core.schedule(transaction, number) for number in schedule_ids]
    follows = any(isinstance(trigger, OnSchedule) for schedule in schedules for trigger in schedule.definition.on)
    if follows:
        transaction.lock_policies()  # otherwise two concurrent changes could close a circle
    for schedule in schedules:
        transaction.set_listeners(schedule.id, list(_listeners(core, transaction, schedule)))
    if follows:
        _check_circles(core, transaction, schedules)


def _listeners(core: Core, transaction: Transaction, schedule: ScheduleRecord) -> Iterator[Listener]:
    for trigger in schedule.definition.on:
        source, name = listening(trigger)
        agent = ""
        if isinstance(trigger, OnSchedule):
            followed = _followed(core, transaction, trigger)
            agent, name = followed.agent, followed.name
        yield Listener(source, name, agent, schedule.id)


def _followed(core: Core, transaction: Transaction, trigger: CallTrigger) -> ScheduleRecord:
    try:
        return core.find(transaction, listening(trigger)[1], None)
    except MatinsError as error:
        error.field = "on"  # type: ignore[attr-defined]
        raise


def _check_circles(core: Core, transaction: Transaction, schedules: Sequence[ScheduleRecord]) -> None:
    followers: dict[int, list[int]] = defaultdict(list)
    for source, follower in transaction.pipelines():
        followers[source].append(follower)
    for schedule in schedules:
        circle = _circle(schedule.id, followers)
        if circle:
            names = " → ".join(core.schedule(transaction, number).name for number in circle)
            message = f"The schedules would start each other for ever: {names}."
            raise Conflict(message, value=schedule.name, field="on", hint="Let one of them follow another schedule.")


def _circle(start: int, followers: Mapping[int, Sequence[int]]) -> list[int] | None:
    """A way from a schedule back to itself."""
    came_from: dict[int, int] = {}
    left = [start]
    while left:
        here = left.pop()
        for following in followers.get(here, ()):
            if following == start:
                way = [here]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return [*reversed(way), start]
            if following not in came_from:
                came_from[following] = here
                left.append(following)
    return None


@dataclass(frozen=True)
class ScheduleChanges:
    core: Core
    proposals: Proposals

    def insert(
        self, transaction: Transaction, principal: Principal, drafts: Sequence[Draft], now: int, *,
        listening: bool = True, notes: list[str] | None = None,
    ) -> list[NewSchedule]:  # fmt: skip
        """Insert schedules. `listening`: False when the caller inserts more, and calls `listen` for all of them.
        `notes` gets why a person decides about one-shots that the rules would approve."""
        if any(is_for_shell(draft.definition, draft.agent) for draft in drafts):
            self._make_shell(transaction, principal, now)
        authorship = self.proposals.authorship(transaction, principal, drafts)
        check_duplicates(drafts)
        ids = transaction.schedule_ids(len(drafts))
        rows: list[NewSchedule] = []
        for first in range(0, len(drafts), _PORTION):
            some = drafts[first : first + _PORTION]
            waits: dict[int, str] = {}
            for schedule_id, draft in zip(ids[first : first + _PORTION], some, strict=True):
                row, why = authorship.row(draft, schedule_id, now)
                rows.append(row)
                if why is not None:
                    waits[schedule_id] = why
                elif authorship.stands and row.state != "pending":  # the next one of this call is a moment later
                    authorship = authorship._replace(last_one_shot=now)
                    transaction.set_last_one_shot(principal.name, now)
            self._insert(transaction, principal, rows[first:], some, waits, now)
            if notes is not None:
                notes += waits.values()
        note_zones(transaction, (draft.trigger for draft in drafts))
        if listening:
            calls = [number for number, draft in zip(ids, drafts, strict=True) if draft.definition.on]
            if calls:
                self.listen(transaction, calls)
        return rows

    def _insert(
        self, transaction: Transaction, principal: Principal, rows: Sequence[NewSchedule], drafts: Sequence[Draft],
        waits: Mapping[int, str], now: int,
    ) -> None:  # fmt: skip
        """Insert schedules with their events, and request the approval of those that wait."""
        transaction.insert_schedules(rows, now)
        author = principal.signed
        for row, draft in zip(rows, drafts, strict=True):
            data: dict[str, Any] = {"name": row.name, "agent": row.agent, **author, "role": principal.role,
                                    "fingerprint": schedule_fingerprint(row)}  # fmt: skip
            if draft.definition.steps:
                data["next_run_at"] = draft.slot
            transaction.events.append(NewEvent(now, "schedule.created", row.id, None, data))
            if row.state == "pending":
                self.proposals.request(transaction, principal, row.id, now, waits.get(row.id))

    def _make_shell(self, transaction: Transaction, principal: Principal, now: int) -> None:
        """Make the agent of commands with the first one."""
        transaction.lock_policies()
        if SHELL not in self.core.catalog.policies(transaction).agents:
            value = AGENTS.complete(SHELL_AGENT, RecordContext(now, "UTC", {}))
            RecordChanges(self.core).set(transaction, principal, AGENTS, SHELL, value, now)

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
        if is_for_shell(definition, schedule.agent):
            self._make_shell(transaction, principal, now)
        rev = transaction.last_revision(schedule.id) + 1
        transaction.insert_revision(schedule.id, rev, encode(definition), now)
        note_zones(transaction, [trigger])
        transaction.set_author(schedule.id, rev, principal.who, principal.role, now)
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

    def rename(
        self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, name: str, now: int,
        agent: str | None = None,
    ) -> int:  # fmt: skip
        """Give a schedule another name, and return how many others follow it under that one. Its times stay, and runs
        that wait for approval keep what was shown. The cursors of all are locked. `agent`: its agent's
        new name."""
        agent = schedule.agent if agent is None else agent
        creator = schedule.created_by
        if agent != schedule.agent and creator == f"agent:{schedule.agent}":
            creator = f"agent:{agent}"
        for taken in transaction.taken_names([(agent, name)]) if schedule.state != "removed" else ():
            raise name_taken(taken)
        followers = self.followers(transaction, schedule)
        (row,) = transaction.definitions([(schedule.id, schedule.rev)])
        self.plan_due(transaction, schedule, now)
        last = transaction.last_revision(schedule.id)
        transaction.keep_name(schedule.id, last, schedule.agent, schedule.name, schedule.created_by, now)
        transaction.rename_schedule(schedule.id, agent, name, creator, now)
        text = row.definition
        if agent != schedule.agent and f'"{schedule.agent}"' in text:
            text = encode(with_agent_renamed(decode(text), schedule.agent, agent))
        transaction.insert_revision(schedule.id, last + 1, text, now)
        transaction.set_author(schedule.id, last + 1, principal.who, principal.role, now)
        transaction.renew_cursor(schedule.id, last + 1)
        for number in followers:
            follower = self.core.schedule(transaction, number)
            definition = following_renamed(follower.definition, schedule, name, agent)
            compiled = compile_trigger(definition.trigger)
            self.revise(transaction, principal, follower, definition, compiled, ["on"], now)
        was, full = f"{schedule.agent}/{schedule.name}", f"{agent}/{name}"
        for budget in self.core.catalog.policies(transaction).budgets:
            if budget.scope == "schedule" and budget.of == was:
                transaction.lock_policies()
                renamed = replace(budget, of=full)
                RecordChanges(self.core).put(transaction, principal, BUDGETS, budget.name, renamed, now)
        data: dict[str, Any] = {"was": schedule.name, "name": name, "rev": last + 1, **principal.signed}
        if agent != schedule.agent:
            data |= {"was_of": schedule.agent, "agent": agent}
        data["fingerprint"] = revision_fingerprint(transaction.bound_revision(schedule.id, last + 1))
        transaction.events.append(NewEvent(now, "schedule.renamed", schedule.id, None, data))
        if schedule.definition.on:
            self.listen(transaction, [schedule.id])
        self.proposals.request_again(transaction, principal, self.core.schedule(transaction, schedule.id), now)
        return len(followers)

    def undelete(self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, now: int) -> None:
        """Bring a deleted schedule back, paused. What the owner did not make is a proposal again, unless the owner
        brings it back."""
        compiled = self.core.compiled(transaction, schedule)
        transaction.set_schedule_state(schedule.id, "active", now, None, None)
        slot = first_uncovered_slot(transaction, schedule.id, compiled.timetable.trigger, now)
        transaction.replace_cursor(schedule.id, slot, None, schedule.rev, paused=True)
        if schedule.definition.on:
            self.listen(transaction, [schedule.id])
        transaction.events.append(NewEvent(now, "schedule.undeleted", schedule.id, None, {**principal.signed}))
        if principal.role == "owner" or schedule.creator_role == "owner":
            pause(transaction, schedule.id, now, principal.who, "undeleted")
            return
        transaction.set_schedule_state(schedule.id, "pending", now, None, None)
        self.proposals.request(transaction, principal, schedule.id, now)

    def followers(self, transaction: Transaction, schedule: ScheduleRecord) -> list[int]:
        """The schedules that its ends start."""
        return sorted({number for source, number in transaction.pipelines() if source == schedule.id})

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
        end_all(transaction, schedule.id, now)
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
