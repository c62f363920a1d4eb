"""Use cases on the file: what it would change, and having it changed, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson

from matins.config.defining import World
from matins.config.file import ConfigFile, Content, FileState
from matins.config.meaning import Entry, Meaning, when_changed
from matins.config.problems import invalid
from matins.engine.planning import Rule
from matins.engine.schedules import encode
from matins.engine.when.triggers import compile_trigger
from matins.errors import Conflict, InvalidInput, Stale
from matins.model.desk import FileEntry
from matins.model.principal import Principal
from matins.model.records import NewEvent
from matins.model.schedule import Schedule
from matins.model.subscription import Subscription
from matins.ports import Transaction
from matins.runtime.pausing import pause
from matins.service.agents import Agents
from matins.service.definitions import Defined
from matins.service.events import Events, tell
from matins.service.file_plans import (
    APPLIED,
    Change,
    Plan,
    applied_text,
    conflicts,
    defined_by,
    draw,
    find_schedule,
    users,
)
from matins.service.governing import all_schedules, resize, scope_of
from matins.service.rights import needs, rights_of
from matins.service.schedules import Schedules

_MOST_NAMED = 100


class Files(Schedules, Agents, Events):
    @needs("read")
    def plan(self, principal: Principal) -> dict[str, Any]:
        """What the file would change, word by word; nothing is written."""
        file = self._named_file()
        content = file.read()
        meaning = self._understood(file, content)
        with self._store.reading() as transaction:
            plan = self._drawn(transaction, file, content, meaning)
        return plan.document(whole="govern" in rights_of(principal))

    @needs("govern")
    def apply(self, principal: Principal, digest: str | None = None) -> dict[str, Any]:
        """Do what the file says, all of it or nothing. `digest`: only if it is still what `plan` has shown."""
        file = self._named_file()
        content = file.read()
        if digest is not None and digest != content.digest:
            hint = "plan again, and look what it says now"
            raise Stale(f"{file.path} was changed since", value=content.digest, field="digest", hint=hint)
        plan = self._applied(principal, file, content)
        file.state = FileState("applied", digest=content.digest)
        return plan.document("applied")

    # -- how it is done

    def _named_file(self) -> ConfigFile:
        if self.file is None:
            raise InvalidInput(
                "No file is named", field="file", hint="name one: matins up --file matins.yaml, or matins plan --file …"
            )
        return self.file

    def _understood(self, file: ConfigFile, content: Content) -> Meaning:
        """What it means, in a world that is read first: nobody waits at the store meanwhile."""
        draft = file.draft(content.text)
        with self._store.reading() as transaction:
            if content.file is None and not defined_by(transaction, file.path):
                raise InvalidInput(f"There is no file {file.path}", value=str(file.path), field="file", hint="write it")
            by_name = any(s.kind == "budget" and s.block.values.get("scope") == "schedule" for s in draft.said)
            world = self._world(transaction, with_schedules=by_name)
        return file.understand(content.text, world)

    def _drawn(self, transaction: Transaction, file: ConfigFile, content: Content, meaning: Meaning) -> Plan:
        """All that is wrong with it is raised at once."""
        problems = [*meaning.problems, *conflicts(transaction, meaning)]
        if problems:
            raise invalid(file.path, problems)
        plan = draw(transaction, file.path, content, meaning, self._clock.now_ms())
        self._refuse_needed(transaction, plan)
        return plan

    def _world(self, transaction: Transaction, *, with_schedules: bool) -> World:
        """What is beside the file: names that it may refer to and does not define."""
        policies = self._catalog.policies(transaction)
        own = {(entry.kind, entry.name) for entry in transaction.file_entries()}

        def beside(kind: str, names: Iterable[str]) -> frozenset[str]:
            return frozenset(name for name in names if (kind, name) not in own)

        schedules = [f"{s.agent}/{s.name}" for s in all_schedules(transaction)] if with_schedules else []
        return World(
            now=self._clock.now_ms(),
            zone=self._clock.local_zone(),
            rates={name: rate for name, rate in policies.rates.items() if ("rate", name) not in own},
            workdir=self._workdir,
            allowed_hosts=() if ("setting", "allowed_hosts") in own else policies.settings.get("allowed_hosts", ()),
            agents=beside("agent", policies.agents),
            quiet_hours=beside("quiet_hours", policies.quiet_hours),
            work=beside("work", policies.work),
            schedules=beside("schedule", schedules),
        )

    def _refuse_needed(self, transaction: Transaction, plan: Plan) -> None:
        """What schedules beside the file need cannot go with it."""
        dropped = [c for c in plan.of("removed") if c.kind in ("agent", "quiet_hours", "work")]
        if not dropped:
            return
        of_file = {c.name for c in plan.changes if c.kind == "schedule"}
        schedules = all_schedules(transaction)
        for change in dropped:
            needing = users(schedules, change.kind, change.name, of_file)
            if needing:
                raise Conflict(
                    f'{plan.path} drops {change.kind.replace("_", " ")} "{change.name}" (line {change.line} before), '
                    f"which {', '.join(needing[:5])} needs",
                    value=change.name,
                    field=change.kind,
                    hint="change those schedules first: they are not in the file",
                )

    def _applied(
        self, principal: Principal, file: ConfigFile, content: Content, before_commit: Callable[[], Any] = lambda: None
    ) -> Plan:
        """In one transaction. It is understood before, and what stands in its way is looked at again inside."""
        now = self._clock.now_ms()
        meaning = self._understood(file, content)
        with self._store.reading() as transaction:
            ahead = self._drawn(transaction, file, content, meaning)
        with self._forgetting(), self._store.transaction(now) as transaction:
            self._lock(transaction, ahead, now)
            transaction.lock_policies()  # by now nobody else applies it
            plan = self._drawn(transaction, file, content, meaning)
            if plan.moves:
                self._carry_out(transaction, principal, plan, now)
            self._note_entries(transaction, plan, now)
            before_commit()
        self._changed()
        return plan

    @contextmanager
    def _forgetting(self) -> Generator[None]:
        """Policies that were read inside a transaction that came to nothing never were."""
        try:
            yield
        except BaseException:
            self._catalog.forget()
            raise

    def _lock(self, transaction: Transaction, plan: Plan, now: int) -> None:
        """Cursors and runs come before policies, here as everywhere."""
        for kind in {change.kind for change in plan.moves}:
            self._wake_for(transaction, kind, now)
        names = [c.name for c in plan.moves if c.kind == "schedule" and c.known is not None]
        found = [find_schedule(transaction, name) for name in names]
        transaction.due_rows(sorted(schedule.id for schedule in found if schedule is not None))

    def _carry_out(self, transaction: Transaction, principal: Principal, plan: Plan, now: int) -> None:
        """What schedules need comes before them, and goes after them."""
        things = [c for c in plan.moves if c.kind != "schedule"]
        for change in things:
            if change.entry is not None:
                self._set_entry(transaction, principal, change.entry, now)
        for change in plan.moves:
            if change.kind == "schedule":
                self._set_schedule(transaction, principal, change, now)
        for change in things:
            if change.entry is None:
                self._drop_entry(transaction, principal, change.kind, change.name, now)
        transaction.events.append(NewEvent(now, "file.applied", None, None, _told(plan, principal)))

    def _note_entries(self, transaction: Transaction, plan: Plan, now: int) -> None:
        """Where each stands now, also those that only moved in the file; and the text, to know it again."""
        entries = [_file_entry(c.entry, plan) for c in plan.changes if c.entry is not None and c.how != "past"]
        known = {(entry.kind, entry.name): entry for entry in transaction.file_entries()}
        transaction.put_file_entries(entry for entry in entries if known.get((entry.kind, entry.name)) != entry)
        kept = {(entry.kind, entry.name) for entry in entries}
        transaction.drop_file_entries(key for key in known if key not in kept)
        if applied_text(transaction) != plan.content.text:
            text = orjson.dumps(plan.content.text).decode()
            transaction.put_policy(*APPLIED, text, now, plan.path.name)

    # -- one thing

    def _set_schedule(self, transaction: Transaction, principal: Principal, change: Change, now: int) -> None:
        schedule = find_schedule(transaction, change.name) if change.known is not None else None
        entry = change.entry
        if entry is None:
            if schedule is not None:
                self._take_out(transaction, principal, schedule, now)
            return
        if schedule is None:
            meant = entry.meant
            rule = Rule(meant.definition, meant.trigger)
            item = Defined(meant.agent, meant.name, encode(meant.definition), meant.trigger.first_ms(now), rule)
            schedule = self._schedule(transaction, self._insert(transaction, principal, [item], now)[0])
        else:
            self._reword(transaction, principal, schedule, change, now)
        was_paused = change.known is not None and change.known.digest.endswith("+paused")
        self._set_paused(transaction, principal, schedule.id, entry, was_paused, now)

    def _reword(
        self, transaction: Transaction, principal: Principal, schedule: Schedule, change: Change, now: int
    ) -> None:
        """Its cursor stays where it is, unless the file says anew when it fires."""
        assert change.entry is not None
        assert change.known is not None
        definition, trigger = change.entry.meant.definition, change.entry.meant.trigger
        words = [word for word, _, _ in change.words]
        if when_changed(change.known.digest, change.entry.digest):
            words.append("when")
        else:
            definition = replace(definition, trigger=schedule.definition.trigger)
            trigger = compile_trigger(definition.trigger)
            words = [word for word in words if word != "when"]
        if definition != schedule.definition:
            self._revise(transaction, principal, schedule, (definition, trigger), sorted(set(words)), now)

    def _set_paused(
        self, transaction: Transaction, principal: Principal, schedule_id: int, entry: Entry, was: bool, now: int
    ) -> None:
        """Only where the file says it anew: what a person paused stays so."""
        schedule = self._schedule(transaction, schedule_id)
        if entry.paused and not was:
            note = entry.paused if isinstance(entry.paused, str) else None
            self._plan_what_is_due(transaction, schedule, now)
            pause(transaction, schedule_id, now, principal.name, note)
        elif was and not entry.paused and schedule.state in ("paused", "broken"):
            self._let_go_on(transaction, principal, schedule, now)

    def _set_entry(self, transaction: Transaction, principal: Principal, entry: Entry, now: int) -> None:
        kind, name, data = entry.kind, entry.name, entry.meant
        if kind == "webhook":
            self._set_webhook(transaction, principal, name, data, now)
            return
        self._set_thing(transaction, principal, kind, name, data, now)

    def _set_webhook(
        self, transaction: Transaction, principal: Principal, name: str, data: Mapping[str, Any], now: int
    ) -> None:
        """One that leads elsewhere begins anew; other types go on where it stood."""
        target = {"url": data["url"], "secret": data["secret"]}
        found = next((s for s in transaction.subscriptions() if s.name == name), None)
        if found is not None and found.target == target:
            transaction.set_types(name, data["types"])
            return
        if found is not None:
            transaction.drop_subscription(name)
        horizon = transaction.event_horizon()
        made = Subscription(name, "webhook", target, tuple(data["types"]), horizon, "active", None, now, principal.name)
        transaction.put_subscription(made)
        tell(transaction, "subscription.created", made, principal, now)

    def _drop_entry(self, transaction: Transaction, principal: Principal, kind: str, name: str, now: int) -> None:
        if kind == "webhook":
            found = next((s for s in transaction.subscriptions() if s.name == name), None)
            if found is not None and transaction.drop_subscription(name):
                tell(transaction, "subscription.dropped", found, principal, now)
            return
        if kind == "agent" and self._limits(transaction, name) is not None:
            resize(transaction, principal, scope_of(name), 0, now)
        self._drop_thing(transaction, principal, kind, name, now)


def _file_entry(entry: Entry, plan: Plan) -> FileEntry:
    return FileEntry(entry.kind, entry.name, str(plan.path), entry.line, entry.digest)


def _told(plan: Plan, principal: Principal) -> dict[str, Any]:
    """In the words of the seed for schedules, and by name for all."""
    names = {
        how: [f"{c.kind} {c.name.removeprefix('/')}" for c in plan.of(how)][:_MOST_NAMED]
        for how in ("added", "removed", "changed")
    }
    note = f"{plan.path.name} hot-reloaded: {plan.note('schedule')} task(s)"
    return {"path": str(plan.path), "by": principal.name, "note": note, "digest": plan.content.digest, **names}
