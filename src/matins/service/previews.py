"""Use cases on the future: the next slots, after an edit or an outage, and the meaning of a trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from matins.api.results import EditForecast, FireTime, Forecast, NewForecast, Preview, SettingChange
from matins.engine.approvals import check_rules, limit_lifetime, notable_settings
from matins.engine.english.describe import explain
from matins.engine.planning import Timetable
from matins.engine.schedules import OWN_SETTINGS, idle_settings, schedule_settings, trigger_text
from matins.engine.settings import format_setting
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger, compile_trigger, to_datetime
from matins.model.access import OWNER, Principal
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.trigger import DstGap, DstOverlap
from matins.runtime.catalog import schedule_record
from matins.runtime.new_runs import first_uncovered_slot
from matins.service.core import Core
from matins.service.drafts import changes_trigger, check_available
from matins.service.forecasts import budget_shortage, forecast_result
from matins.service.proposals import Proposals
from matins.service.schedules import Additions
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class Previews:
    core: Core
    proposals: Proposals
    additions: Additions

    def preview_new(
        self,
        principal: Principal,
        name: str | None = None,
        *,
        when: Any = None,
        agent: str = "",
        create_agent: bool = False,
        count: int = 5,
        context: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> NewForecast:
        now = self.core.clock.now_ms()
        given = {"name": name, "when": when, "agent": agent, "context": context, **settings}
        addition = self.additions.prepare(principal, now, given, create_agent=create_agent)
        with self.core.store.reading() as transaction:
            draft = addition.named(transaction)
            row, waits = self.proposals.authorship(transaction, principal, [draft], lock=False).row(draft, 0, now)
            check_available(transaction, [row])
            policies, definition = self.core.catalog.policies(transaction), draft.definition
            forecast = forecast_result(
                transaction, policies, schedule_record(row.stored(now)), draft.timetable, count, now
            )
        notes = [f'It would create the agent "{one.name}" with the runner {one.runner}.' for one in addition.agents]
        notes += [*idle_settings(definition, settings), *self.additions.notes(principal, addition, now)]
        return NewForecast(
            forecast=forecast,
            settings=schedule_settings(definition),
            needs_approval=row.state == "pending",
            highlights=notable_settings(definition) if row.state == "pending" else [],
            notes=notes if waits is None else [*notes, waits],
        )

    def preview(self, principal: Principal, name: str, *, count: int = 5, agent: str | None = None) -> Forecast:
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent)
            compiled, policies = self.core.compiled(transaction, schedule), self.core.catalog.policies(transaction)
            shortage = budget_shortage(transaction, policies, compiled, now)
            return forecast_result(transaction, policies, schedule, compiled.timetable, count, now, shortage)

    def preview_edit(
        self,
        principal: Principal,
        name: str,
        *,
        agent: str | None = None,
        count: int = 5,
        context: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> EditForecast:
        now = self.core.clock.now_ms()
        given = self.proposals.check_settings(principal, settings, editing=True, context=context)
        jobs = self.core.jobs.names()
        with self.core.store.reading() as transaction:
            policies = self.core.catalog.policies(transaction)
            schedule = self.core.find(transaction, name, agent)
        edited = self.proposals.edited(policies, schedule, given, jobs, now)
        before = Timetable(schedule.definition, compile_trigger(schedule.definition.trigger))
        with self.core.store.reading() as transaction:
            after = self._checked(transaction, principal, schedule, *edited, now)
            changed = _after_edit(transaction, principal, schedule, after, now, again=changes_trigger(settings))
            return EditForecast(
                schedule_id=str(schedule.id),
                before=forecast_result(transaction, policies, schedule, before, count, now),
                after=forecast_result(transaction, policies, changed, after, count, now),
                settings=differences(before.definition, after.definition),
                voids=[str(a.id) for a in transaction.open_approvals(schedule.id) if a.kind == "schedule"],
            )

    def _checked(
        self,
        transaction: Transaction,
        principal: Principal,
        schedule: ScheduleRecord,
        definition: ScheduleDefinition,
        trigger: Trigger,
        now: int,
    ) -> Timetable:
        # As the owner: an edit by an agent locks the policies, and a preview locks nothing.
        definition = self.proposals.check_edit(transaction, OWNER, schedule, definition, trigger, now)
        if principal.role == "agent":
            rules = self.core.catalog.policies(transaction).rules_for(principal.name)
            check_rules(trigger, rules, 0, 0)
            definition = limit_lifetime(definition, rules, now)
        return Timetable(definition, trigger)

    def next_times(
        self,
        principal: Principal,
        text: str,
        *,
        timezone: str | None = None,
        after: int | None = None,
        count: int = 5,
        dst_gap: DstGap = "after",
        dst_overlap: DstOverlap = "first",
        strict: bool = False,
        name: str | None = None,
    ) -> Preview:
        start = self.core.clock.now_ms() if after is None else after
        trigger = parse_trigger(
            text,
            now_ms=start,
            timezone=self.core.clock.local_zone() if timezone == "local" else timezone,
            dst_gap=dst_gap,
            dst_overlap=dst_overlap,
            strict=strict,
            name=name,
        )
        instants = _following(trigger, start, count)
        return Preview(
            text=text,
            kind=trigger.kind,
            trigger_text=trigger.describe(),
            timezone=trigger.timezone,
            fires=[_fire(trigger, at, start) for at in instants],
            notes=list(trigger.notes),
            clock_changes=_clock_changes(trigger, start, instants),
        )


def _after_edit(
    transaction: Transaction, principal: Principal, schedule: ScheduleRecord, new: Timetable, now: int, *, again: bool
) -> ScheduleRecord:
    """The schedule as an edit would leave it."""
    maximum = new.definition.max_executions
    more = schedule.next_slot is None and (maximum is None or schedule.executions < maximum)
    slot = schedule.next_slot
    if again or more or schedule.state in ("expired", "rejected"):
        slot = first_uncovered_slot(transaction, schedule.id, new.trigger, now)
    state = "active" if schedule.state in ("completed", "expired") else schedule.state
    if principal.role == "agent" or state == "rejected":
        state = "pending"
    elif state == "active" and slot is None and new.trigger.kind != "never":
        state = "completed"
    due_at = new.due_at(schedule.id, slot) if state == "active" else None
    return replace(schedule, definition=new.definition, state=state, next_slot=slot, due_at=due_at, failed_at=None)


def differences(before: ScheduleDefinition, after: ScheduleDefinition) -> list[SettingChange]:
    changes: list[SettingChange] = []
    if before.trigger != after.trigger:
        changes.append(SettingChange("when", _trigger(before), _trigger(after)))
    for name, declared in OWN_SETTINGS.items():
        old, new = getattr(before, declared.field), getattr(after, declared.field)
        if old != new:
            changes.append(SettingChange(name, format_setting(declared, old), format_setting(declared, new)))
    return changes


def _trigger(definition: ScheduleDefinition) -> str:
    return f"{trigger_text(definition.trigger)} ({definition.trigger.timezone})"


def _following(trigger: Trigger, start: int, count: int) -> list[int]:
    instants: list[int] = []
    at = trigger.next_ms(start)
    while at is not None and len(instants) < count:
        instants.append(at)
        at = trigger.next_ms(at)
    return instants


def _fire(trigger: Trigger, at: int, start: int) -> FireTime:
    seconds, rest = divmod(at - start, 1000)
    return FireTime(
        trigger.local(at), to_datetime(at), seconds + rest / 1000 if rest else seconds, trigger.dst_effect(at)
    )


def _clock_changes(trigger: Trigger, start: int, instants: list[int]) -> list[str]:
    if not instants:
        return []
    changes = trigger.dst_changes(trigger.local(start), trigger.local(instants[-1] + 1))
    return [explain(change, trigger.zone) for change in changes]
