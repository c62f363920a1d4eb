"""Use cases on the file: plan its changes, and apply them in one transaction."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from matins.api.results import FilePlace, FilePlan
from matins.api.use_case import USE_CASES
from matins.config.file import ConfigFile, Content, FileState, SentFile
from matins.config.interpretation import Entry, Interpretation, name_of_file, when_changed
from matins.config.reader import FileItem, invalid_file
from matins.engine.calls import follows_schedule
from matins.engine.schedules import encode
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import Conflict, InvalidInput, Stale
from matins.model.access import Principal
from matins.model.rows import AppliedFile, FileEntry, NewEvent
from matins.model.schedule import ScheduleRecord
from matins.model.trigger import Once
from matins.records import kinds_by_name, record_kinds
from matins.records.kind import RecordContext
from matins.runtime.command_files import with_files
from matins.runtime.pausing import pause
from matins.service.core import LEASE_MS, Core
from matins.service.drafts import Draft
from matins.service.file.plan import (
    Change,
    Ownership,
    Plan,
    conflicts,
    find_schedule,
    make_plan,
    ownership,
)
from matins.service.permissions import check_right, governs
from matins.service.record_changes import RecordChanges, users_of
from matins.service.schedule_changes import ScheduleChanges
from matins.store.transaction import Transaction

_MAX_NAMED = 100
_AGAIN = "Plan again, and read the new plan."


@dataclass(frozen=True)
class File:
    core: Core
    schedules: ScheduleChanges
    records: RecordChanges

    def place(self, principal: Principal, noun: str, name: str) -> FilePlace | None:
        kind = record_kinds().get(noun)
        if kind is None:
            hint = f"Name one of {', '.join(record_kinds())}."
            raise InvalidInput(f'There are no records "{noun}".', value=noun, field="noun", hint=hint)
        with self.core.store.reading() as transaction:
            entry = transaction.file_entry(kind.kind, name)
        return None if entry is None else FilePlace(entry.path, entry.line)

    def plan(self, principal: Principal, *, text: str | None = None, path: str | None = None) -> FilePlan:
        file = self.file_of(principal, text, path)
        content = file.read()
        interpretation = self.interpret(file, content)
        with self.core.store.reading() as transaction:
            plan = self.plan_in(transaction, file, content, interpretation)
        return self._noted(plan).result(whole=governs(principal))

    def apply(
        self, principal: Principal, *, digest: str | None = None, text: str | None = None, path: str | None = None
    ) -> FilePlan:
        file = self.file_of(principal, text, path)
        content = file.read()
        if digest is not None and digest != content.digest:
            raise Stale(f"{file.path} was changed since.", value=content.digest, field="digest", hint=_AGAIN)
        plan = self.apply_content(principal, file, content)
        file.state = FileState("applied", digest=content.digest)
        return self._noted(plan).result(applied=True)

    def _noted(self, plan: Plan) -> Plan:
        """The plan, with a note for each schedule that no live node can run."""
        moved = [change.entry for change in plan.of("added", "changed") if change.entry is not None]
        engines = self.core.store.engines(LEASE_MS) if any(entry.kind == "schedule" for entry in moved) else []
        if not engines:
            return plan
        policies = self.core.policies()
        agents = {entry.name: entry.meant for entry in moved if entry.kind == "agent"}
        policies = replace(policies, agents={**policies.agents, **agents})
        nowhere = {
            entry.key: self.core.jobs.no_node(entry.meant.definition, entry.meant.agent, engines, policies)
            for entry in moved
            if entry.kind == "schedule"
        }
        return plan.with_notes({key: text for key, text in nowhere.items() if text is not None})

    def file_of(self, principal: Principal, text: str | None, path: str | None) -> ConfigFile:
        """The text that the caller sent, with where the caller has it; or the file of this process."""
        own, shared = self.core.local.file, self.core.store.shared
        if text is None and own is None:
            hint = "Name one: matins up --file matins.yaml, or matins apply --file matins.yaml."
            raise InvalidInput("There is no file.", field="file", hint=hint)
        if text is None and path is not None:
            raise InvalidInput('"path" needs "text".', value=path, field="text", hint="Send the text of the file.")
        if own is not None and (text is None or (path in own.called and own.read().text == text)):
            return own
        assert text is not None
        check_right(principal, USE_CASES["file.apply"])
        place = path or f"{principal.name}:matins.yaml"
        sent = SentFile(place if shared else place.removeprefix(f"{socket.gethostname()}:"), text, shared=shared)
        if own is not None and not shared:
            _check_other_name(own, sent)
        return sent

    def interpret(self, file: ConfigFile, content: Content) -> Interpretation:
        """The interpretation of the content. Other records are read first, so that no transaction is open meanwhile."""
        draft, jobs = file.parse(content.text), self.core.jobs.names()
        with self.core.store.reading() as transaction:
            owner = self._owner(transaction, file, content)
            by_name = any(_names_schedules(item) for item in draft.items)
            context = self._context(transaction, owner, with_schedules=by_name)._replace(jobs=jobs)
            parsed = file.format.complete(draft, transaction, self.core.catalog.policies(transaction))
        return file.interpret(parsed, context)

    def plan_in(
        self, transaction: Transaction, file: ConfigFile, content: Content, interpretation: Interpretation
    ) -> Plan:
        """The plan of the content. Raises one InvalidFile with all problems."""
        policies, owner = self.core.catalog.policies(transaction), self._owner(transaction, file, content)
        problems = [*interpretation.problems, *conflicts(transaction, policies, owner, interpretation)]
        if problems:
            raise invalid_file(file.path, problems)
        now = self.core.clock.now_ms()
        plan = make_plan(transaction, policies, file, owner, content, interpretation, now)
        self._check_removals(transaction, plan)
        return plan

    def _owner(self, transaction: Transaction, file: ConfigFile, content: Content) -> Ownership:
        owner = ownership(transaction, file, None if content.file is None else file.parse(content.text))
        if owner is None:
            message = f"There is no file {file.path}."
            raise InvalidInput(message, value=str(file.path), field="file", hint="Create it.")
        return owner

    def _context(self, transaction: Transaction, owner: Ownership, *, with_schedules: bool) -> RecordContext:
        """The context of the file: records that the file may refer to and does not define."""
        core, policies = self.core, self.core.catalog.policies(transaction)
        own = {(entry.kind, entry.name) for entry in transaction.file_entries() if owner.owns(entry)}
        known = {
            kind.noun: frozenset(
                name for name in kind.storage.read(kind, transaction, policies) if (kind.kind, name) not in own
            )
            for kind in record_kinds().values()
        }
        schedules = [f"{s.agent}/{s.name}" for s in core.all_schedules(transaction)] if with_schedules else []
        known["schedules"] = frozenset(name for name in schedules if ("schedule", name) not in own)
        return RecordContext(
            now=core.clock.now_ms(),
            zone=core.clock.local_zone(),
            rates={name: rate for name, rate in policies.rates.items() if ("rate", name) not in own},
            workdir=core.workdir,
            allowed_hosts=() if ("allowed_hosts", "allowed_hosts") in own else policies.allowed_hosts,
            known=known,
        )

    def _check_removals(self, transaction: Transaction, plan: Plan) -> None:
        """Raise if schedules outside the file need a record that would be removed."""
        removed = [change for change in plan.of("removed") if change.kind != "schedule"]
        if not removed:
            return
        of_file = {change.name for change in plan.changes if change.kind == "schedule"}
        schedules = [s for s in self.core.all_schedules(transaction) if f"{s.agent}/{s.name}" not in of_file]
        for change in removed:
            kind = kinds_by_name()[change.kind]
            users = users_of(kind.noun, change.name, schedules)
            if users:
                dropped = f'the {kind.one} "{change.name}" (line {change.line} before)'
                message = f"{plan.path} drops {dropped}, which {', '.join(users[:5])} needs."
                hint = "Change those schedules first: they are not in the file."
                raise Conflict(message, value=change.name, field=change.kind, hint=hint)

    def apply_content(
        self, principal: Principal, file: ConfigFile, content: Content, before_commit: Callable[[], Any] = lambda: None
    ) -> Plan:
        """Apply the content in one transaction. It is interpreted before; conflicts are checked again inside."""
        now = self.core.clock.now_ms()
        interpretation = self.interpret(file, content)
        with self.core.store.reading() as transaction:
            ahead = self.plan_in(transaction, file, content, interpretation)
        with self._discarding(), self.core.store.transaction(now) as transaction:
            self._lock(transaction, ahead, now)
            transaction.lock_policies()  # from here on no other process applies the file
            plan = self.plan_in(transaction, file, content, interpretation)
            if principal.kind == "file" and plan.waits:
                raise Stale(f"{file.path} waits: {plan.waits}", value=content.digest, field="digest", hint=_AGAIN)
            if plan.moves:
                self._carry_out(transaction, principal, plan, now)
            if plan.moves or not plan.owner.elsewhere:
                self._keep_entries(transaction, principal, plan, now)
            before_commit()
        self.core.notify()
        return plan

    @contextmanager
    def _discarding(self) -> Generator[None]:
        """Clear the cache of policies if the transaction fails."""
        try:
            yield
        except BaseException:
            self.core.catalog.clear()
            raise

    def _lock(self, transaction: Transaction, plan: Plan, now: int) -> None:
        """Lock cursors and runs before policies, in the order used everywhere."""
        for name in {change.kind for change in plan.moves if change.kind != "schedule"}:
            self.records.wake(transaction, kinds_by_name()[name], now)
        names = [c.was or c.name for c in plan.moves if c.kind == "schedule" and c.known is not None]
        found = [schedule for name in names if (schedule := find_schedule(transaction, name)) is not None]
        renamed = any(change.was for change in plan.moves)
        more = [number for one in found for number in self.schedules.followers(transaction, one)] if renamed else []
        transaction.lock_due(sorted({*(schedule.id for schedule in found), *more}))

    def _carry_out(self, transaction: Transaction, principal: Principal, plan: Plan, now: int) -> None:
        """Apply the changes: records are set before the schedules that need them, and deleted after them."""
        others = [change for change in plan.moves if change.kind != "schedule"]
        for change in others:
            if change.entry is not None:
                kind = kinds_by_name()[change.kind]
                self.records.set(transaction, principal, kind, change.name, change.entry.meant, now)
        listening = [
            number
            for change in plan.moves
            if change.kind == "schedule"
            and (number := self._change_schedule(transaction, principal, change, now)) is not None
        ]
        self.schedules.listen(transaction, listening)  # when all are there: they may follow each other
        for change in others:
            if change.entry is None:
                self.records.delete(transaction, principal, kinds_by_name()[change.kind], change.name, now)
        names = {
            action: [f"{c.kind} {c.name.removeprefix('/')}" for c in plan.of(action)][:_MAX_NAMED]
            for action in ("added", "removed", "changed")
        }
        note = f"{plan.path.name} hot-reloaded: {plan.note('schedule')} task(s)"  # as Cortex writes it
        data = {
            "name": plan.owner.name,
            "path": plan.place,
            **principal.signed,
            "note": note,
            "digest": plan.content.digest,
            **names,
        }
        transaction.events.append(NewEvent(now, "file.applied", None, None, data))

    def _keep_entries(self, transaction: Transaction, principal: Principal, plan: Plan, now: int) -> None:
        """Store the entries, also those that only moved in the file, and the applied text."""
        owner, content, place = plan.owner, plan.content, plan.place
        entries = [
            FileEntry(c.entry.kind, c.entry.name, owner.name, place, c.entry.line, c.entry.digest)
            for c in plan.changes
            if c.entry is not None and c.action != "past"
        ]
        known = {(entry.kind, entry.name): entry for entry in transaction.file_entries() if owner.owns(entry)}
        transaction.upsert_file_entries(entry for entry in entries if known.get((entry.kind, entry.name)) != entry)
        kept = {(entry.kind, entry.name) for entry in entries}
        transaction.delete_file_entries(key for key in known if key not in kept)
        for former in owner.names - {owner.name}:
            transaction.delete_applied_file(former)
        if owner.applied is None or (owner.applied.place, owner.applied.digest) != (place, content.digest):
            transaction.set_applied_file(
                AppliedFile(owner.name, place, content.digest, now, principal.name), content.text
            )

    def _change_schedule(self, transaction: Transaction, principal: Principal, change: Change, now: int) -> int | None:
        """Apply the change of a schedule. Returns its id if what it listens to may have changed."""
        schedule = find_schedule(transaction, change.was or change.name) if change.known is not None else None
        entry = change.entry
        if entry is None:
            if schedule is not None:
                self.schedules.delete(transaction, principal, schedule, now)
            return None
        if schedule is not None and change.was is not None:
            self.schedules.rename(transaction, principal, schedule, entry.meant.name, now)
            return None
        if schedule is None:
            meant = entry.meant
            definition = with_files(meant.definition, meant.agent, self.core.catalog.policies(transaction))
            slot = _first_slot(meant.trigger, now)
            draft = Draft(meant.agent, meant.name, encode(definition), slot, definition, meant.trigger)
            (row,) = self.schedules.insert(transaction, principal, [draft], now, listening=False)
            schedule = self.core.schedule(transaction, row.id)
            listens = bool(meant.definition.on)
        else:
            self._revise(transaction, principal, schedule, change, now)
            listens = bool(schedule.definition.on or entry.meant.definition.on)
        was_paused = change.known is not None and change.known.digest.endswith("+paused")
        self._set_paused(transaction, principal, schedule.id, entry, was_paused, now)
        return schedule.id if listens else None

    def _revise(
        self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, change: Change, now: int
    ) -> None:
        """Revise the schedule. Its next slot stays, unless the file changes the trigger."""
        assert change.entry is not None
        assert change.known is not None
        definition, trigger = change.entry.meant.definition, change.entry.meant.trigger
        names = [name for name, _, _ in change.settings]
        if when_changed(change.known.digest, change.entry.digest):
            names.append("when")
        else:
            definition = replace(definition, trigger=schedule.definition.trigger)
            trigger = compile_trigger(definition.trigger)
            names = [name for name in names if name != "when"]
        policies = self.core.catalog.policies(transaction)
        definition = with_files(definition, schedule.agent, policies, schedule.definition)
        if definition != schedule.definition:
            self.schedules.revise(
                transaction, principal, schedule, definition, trigger, sorted(set(names)), now, listening=False
            )

    def _set_paused(
        self, transaction: Transaction, principal: Principal, schedule_id: int, entry: Entry, was: bool, now: int
    ) -> None:
        """Pause or resume only if the file changes it: a pause by a person stays."""
        schedule = self.core.schedule(transaction, schedule_id)
        if entry.paused and not was:
            note = entry.paused if isinstance(entry.paused, str) else None
            self.schedules.plan_due(transaction, schedule, now)
            pause(transaction, schedule_id, now, principal.who, note)
        elif was and not entry.paused and schedule.state in ("paused", "broken"):
            self.schedules.resume(transaction, principal, schedule, now)


def _check_other_name(own: ConfigFile, sent: SentFile) -> None:
    """Raise if the file of this process has the name that was sent: it would be applied again with the next start."""
    followed = own.read()
    name = name_of_file(sent.parse(sent.read().text))
    if followed.file is not None and name_of_file(own.parse(followed.text)) == name:
        message = f'Matins follows the file "{name}" at {own.path}.'
        hint = "Change that file, or give the other one a name of its own: name: team-a"
        raise Conflict(message, value=name, field="name", hint=hint)


def _names_schedules(item: FileItem) -> bool:
    """Whether the item may refer to a schedule: a budget's scope, or a call."""
    values = item.block.values
    if item.kind == "budget":
        return values.get("scope") == "schedule"
    return item.kind == "schedule" and (values.get("on") is not None or follows_schedule(values.get("when")))


def _first_slot(trigger: Trigger, now: int) -> int | None:
    """The first slot. A one-shot that is past keeps its slot, which its grace judges."""
    when = trigger.definition.when
    return when.at_ms if isinstance(when, Once) else trigger.first_ms(now)
