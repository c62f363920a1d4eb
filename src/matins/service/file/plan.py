"""The plan of a file: its entries compared with those applied before, and whether it needs confirmation.

Agents that the schedules of a file wake, and that do not exist: Cortex's file names profiles, and has none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from matins.api.results import FileChange, FilePlan, SettingChange
from matins.config.file import ConfigFile, Content, SentFile
from matins.config.interpretation import Entry, FileSchedule, Interpretation, name_of_file
from matins.config.reader import ParsedFile, Problem
from matins.engine.jobs import wakes_agent
from matins.engine.policies import Policies
from matins.engine.reasons import rfc3339
from matins.engine.schedules import SETTINGS, schedule_settings
from matins.engine.settings import is_private, origin
from matins.engine.steps import parts_of
from matins.model.access import name_of
from matins.model.rows import AppliedFile, FileEntry
from matins.model.schedule import ScheduleRecord
from matins.records import kinds_by_name
from matins.runtime.catalog import schedule_record
from matins.store.transaction import Transaction

Action = Literal["added", "changed", "removed", "same", "past"]


class Ownership(NamedTuple):
    """What a file owns, and whether the place from which it is applied is still the one that applies its name."""

    name: str
    names: frozenset[str]
    """Its name, and the one that it had when it was applied from this place before."""
    applied: AppliedFile | None
    """The file of this name as it was applied last."""
    elsewhere: bool
    """Whether another place applied it last."""

    def owns(self, entry: FileEntry) -> bool:
        return entry.file in self.names


def ownership(transaction: Transaction, file: ConfigFile, parsed: ParsedFile | None) -> Ownership | None:
    """The ownership of a file. None: there is no file, and there was none."""
    rows = {row.name: row for row in transaction.applied_files()}
    before = [name for name, row in rows.items() if row.place in file.places]
    if parsed is None and not before:
        return None
    name = before[0] if parsed is None else name_of_file(parsed)
    applied = rows.get(name)
    elsewhere = file.shared and applied is not None and name not in before
    former = [] if isinstance(file, SentFile) else before  # one folder of a CI server has many files
    return Ownership(name, frozenset([name, *former]), applied, elsewhere)


class Change(NamedTuple):
    kind: str
    name: str
    action: Action
    line: int
    settings: tuple[tuple[str, Any, Any], ...]
    """The changed settings, before and after."""
    entry: Entry | None
    """None when the file no longer has the record."""
    known: FileEntry | None
    """None when the record is new."""
    was: str | None = None
    """The name before, where the file gives it another one."""


class Plan(NamedTuple):
    file: ConfigFile
    owner: Ownership
    content: Content
    changes: tuple[Change, ...]
    waits: str | None
    """Why the plan needs confirmation; None when it does not."""

    def of(self, *actions: Action) -> list[Change]:
        return [change for change in self.changes if change.action in actions]

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def place(self) -> str:
        return self.file.places[0]

    @property
    def moves(self) -> list[Change]:
        return self.of("added", "changed", "removed")

    def count(self, action: Action, kind: str | None = None) -> int:
        return sum(1 for change in self.of(action) if kind in (None, change.kind))

    def with_notes(self, notes: Mapping[tuple[str, str], str]) -> Plan:
        """The plan with further notes of entries, by their keys."""
        changes = [
            change._replace(entry=entry._replace(notes=(*entry.notes, notes[entry.key])))
            if (entry := change.entry) is not None and entry.key in notes
            else change
            for change in self.changes
        ]
        return self._replace(changes=tuple(changes))

    def note(self, kind: str | None = None) -> str:
        return f"+{self.count('added', kind)} -{self.count('removed', kind)} ~{self.count('changed', kind)}"

    def result(self, *, applied: bool = False, whole: bool = True) -> FilePlan:
        """The result. `whole`: for principals that may govern."""
        waits = None if applied else self.waits
        shown = self.of("added", "changed", "removed", "past")
        return FilePlan(
            name=self.owner.name,
            path=str(self.path),
            state="applied" if applied else "waits" if waits else "ready" if self.moves else "same",
            added=self.count("added"),
            removed=self.count("removed"),
            changed=self.count("changed"),
            same=self.count("same"),
            note=self.note(),
            waits=waits,
            entries=[_change_result(change, whole=whole) for change in shown],
            digest=self.content.digest,
        )


def _change_result(change: Change, *, whole: bool) -> FileChange:
    def shown(setting: str, value: Any) -> Any:
        return value if whole or not isinstance(value, str) or not _private(change.kind, setting) else origin(value)

    settings = [SettingChange(s, shown(s, before), shown(s, after)) for s, before, after in change.settings]
    assert change.action != "same"
    was = None if change.was is None else change.was.removeprefix("/")
    name = change.name.removeprefix("/")
    return FileChange(change.kind, name, change.action, change.line, settings, _notes(change), was)


def _notes(change: Change) -> list[str]:
    return [] if change.entry is None else list(change.entry.notes)


def _private(kind: str, setting: str) -> bool:
    """Whether the setting is a URL whose path may contain a key."""
    declared = (SETTINGS if kind == "schedule" else kinds_by_name()[kind].table).get(setting)
    return declared is not None and is_private(declared)


def make_plan(
    transaction: Transaction,
    policies: Policies,
    file: ConfigFile,
    owner: Ownership,
    content: Content,
    interpretation: Interpretation,
    now: int,
) -> Plan:
    """The plan of a file. Nothing is written, and unchanged entries are not compared again."""
    known = {(entry.kind, entry.name): entry for entry in transaction.file_entries() if owner.owns(entry)}
    present = {entry.key: entry for entry in interpretation.entries}
    changes = [_change(transaction, policies, entry, known.get(entry.key), now) for entry in interpretation.entries]
    if interpretation.records_past:
        changes = [change._replace(action="added") if change.action == "past" else change for change in changes]
    for key, before in known.items():
        if key not in present:
            held = settings_before(transaction, policies, *key)
            settings = tuple((setting, value, None) for setting, value in held.items())
            changes.append(Change(*key, "removed", before.line, settings, None, before))
    plan = Plan(file, owner, content, tuple(_with_renames(changes)), None)
    return plan._replace(waits=_waits(transaction, plan, interpretation, known))


def _with_renames(changes: Sequence[Change]) -> Iterator[Change]:
    """The changes; one schedule that is gone and a new one of the same agent with the same settings are one that gets
    another name."""
    alike: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        if change.kind == "schedule" and change.action in ("added", "removed"):
            digest = change.entry.digest if change.entry else change.known.digest if change.known else ""
            alike.setdefault((change.name.partition("/")[0], digest), []).append(change)
    pairs = [(gone, new) for new, *others in alike.values() for gone in others[:1] if len(others) == 1]
    renamed = {new.name: gone for gone, new in pairs if (gone.action, new.action) == ("removed", "added")}
    left = {gone.name for gone in renamed.values()}
    for change in changes:
        gone = renamed.get(change.name) if change.action == "added" else None
        if gone is not None:
            names = [each.name.partition("/")[2] for each in (gone, change)]
            change = change._replace(action="changed", known=gone.known, was=gone.name, settings=(("name", *names),))
        if not (change.action == "removed" and change.name in left):
            yield change


def _is_past(schedule: FileSchedule, now: int) -> bool:
    """Whether the schedule would never run: its times are past, and no call starts it."""
    on_call = bool(schedule.definition.on) or schedule.trigger.kind == "never"
    return not on_call and schedule.trigger.first_ms(now) is None


def _change(transaction: Transaction, policies: Policies, entry: Entry, known: FileEntry | None, now: int) -> Change:
    if known is not None and known.digest == entry.digest:
        return Change(*entry.key, "same", entry.line, (), entry, known)
    before = {} if known is None else settings_before(transaction, policies, *entry.key)
    after = settings_after(entry)
    both = [*after, *(setting for setting in before if setting not in after)]
    settings = tuple((s, before.get(s), after.get(s)) for s in both if before.get(s) != after.get(s))
    new = known is None
    past = new and entry.kind == "schedule" and _is_past(entry.meant, now)
    return Change(*entry.key, "past" if past else "added" if new else "changed", entry.line, settings, entry, known)


def _waits(
    transaction: Transaction, plan: Plan, interpretation: Interpretation, known: Mapping[tuple[str, str], FileEntry]
) -> str | None:
    applied = plan.owner.applied
    if plan.moves and plan.owner.elsewhere and applied is not None:
        last = f"{applied.place} at {rfc3339(applied.at)}"
        return f'the file "{applied.name}" was applied last from {last}, and this one differs'
    if not plan.moves or not known:
        return None
    if plan.content.file is None:
        return "the file is gone"
    if interpretation.empty:
        return "the file is empty"
    total, dropped = sum(1 for kind, _ in known if kind == "schedule"), plan.count("removed", "schedule")
    if total >= 2 and dropped * 2 > total:
        return f"it drops {dropped} of its {total} schedules"
    text = transaction.applied_text(plan.owner.name)
    if text is not None and text != plan.content.text and text.startswith(plan.content.text):
        return "it is only the beginning of what was applied last"
    return None


def find_schedule(transaction: Transaction, name: str) -> ScheduleRecord | None:
    """The schedule with this agent/name."""
    agent, _, own = name.partition("/")
    ids = transaction.schedules_named(own, agent)
    row = transaction.schedule(ids[0]) if ids else None
    return None if row is None else schedule_record(row)


def conflicts(
    transaction: Transaction, policies: Policies, owner: Ownership, interpretation: Interpretation
) -> Iterator[Problem]:
    """Problems of entries whose record exists already outside the file."""
    known = {(entry.kind, entry.name): entry for entry in transaction.file_entries()}
    for entry in interpretation.entries:
        other = known.get(entry.key)
        if other is not None and owner.owns(other):
            continue
        if other is not None:
            by, hint = f', of the file "{other.file}": {other.path}, line {other.line}', "Remove one of them."
        else:
            by, hint = _author(transaction, policies, entry), "Delete that one, or use another name here."
        if by is not None:
            one = "schedule" if entry.kind == "schedule" else kinds_by_name()[entry.kind].one
            what = f'there is a {one} "{entry.name.removeprefix("/")}" already{by}'
            yield Problem(entry.location.key.position, entry.location.path, what, entry.name, hint=hint)


def _author(transaction: Transaction, policies: Policies, entry: Entry) -> str | None:
    """The author of the record with this name, as the end of a sentence; None when there is no such record."""
    if entry.kind == "schedule":
        found = find_schedule(transaction, entry.name)
        return None if found is None else f", made by {name_of(found.created_by)}"
    kind = kinds_by_name()[entry.kind]
    return "" if entry.name in kind.storage.read(kind, transaction, policies) else None


def settings_before(transaction: Transaction, policies: Policies, kind: str, name: str) -> dict[str, Any]:
    """The settings in the store, as people write them."""
    if kind == "schedule":
        found = find_schedule(transaction, name)
        return {} if found is None else schedule_settings(found.definition) | _paused(found.state == "paused")
    record = kinds_by_name()[kind]
    held = record.storage.read(record, transaction, policies).get(name)
    return {} if held is None else _record_settings(kind, held)


def settings_after(entry: Entry) -> dict[str, Any]:
    if entry.kind == "schedule":
        return schedule_settings(entry.meant.definition) | _paused(bool(entry.paused))
    return _record_settings(entry.kind, entry.meant)


def _record_settings(kind: str, value: Any) -> dict[str, Any]:
    """The settings that differ from the default. A secret is shown only as its reference."""
    record = kinds_by_name()[kind]
    value = record.as_written(value)
    defaults = {name: declared.default for name, declared in record.table.items()}
    held = {name: getattr(value, declared.field) for name, declared in record.table.items()}
    document = record.document(value)
    return {name: document[name] for name in record.table if held[name] != defaults[name]}


def _paused(paused: bool) -> dict[str, Any]:
    return {"paused": True} if paused else {}


_NAMED = 5


class MissingAgent(NamedTuple):
    name: str
    schedules: Sequence[str]

    @property
    def sentence(self) -> str:
        names, more = ", ".join(self.schedules[:_NAMED]), len(self.schedules) - _NAMED
        whose = f"{names} and {more} more" if more > 0 else names
        return f'There is no agent "{self.name}", so runs of {whose} are skipped'

    @property
    def fix(self) -> str:
        return f"matins agents set {shlex.quote(self.name)} --runner claude"


def missing_agents(transaction: Transaction, policies: Policies) -> list[MissingAgent]:
    """The agents of active schedules of files that do not exist."""
    found: dict[str, list[str]] = {}
    for entry in transaction.file_entries():
        if entry.kind != "schedule" or entry.name.partition("/")[0] in policies.agents:
            continue
        schedule = find_schedule(transaction, entry.name)
        if schedule is not None and schedule.state == "active":
            for part, agent in parts_of(schedule.definition, schedule.agent):
                if wakes_agent(part) and agent not in policies.agents:
                    found.setdefault(agent, []).append(schedule.name)
    return [MissingAgent(name, schedules) for name, schedules in sorted(found.items())]
