"""Changes of records that a file defines: refused, or written into the file if it allows that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from matins.config.file import ConfigFile, Content, FileState, file_format
from matins.config.interpretation import Entry, Interpretation
from matins.config.reader import Location
from matins.config.writer import edit_settings, remove_item, rename_item, set_settings, write_back_failed
from matins.engine.reasons import rfc3339
from matins.engine.schedules import SETTINGS
from matins.engine.settings import ParseContext, parse_setting
from matins.errors import Conflict, ManagedByFile, NotAllowed
from matins.model.access import Principal
from matins.model.rows import FileEntry
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import Instant
from matins.records import kinds_by_name
from matins.service.core import Core
from matins.service.file.apply import File
from matins.store.transaction import Transaction

_EDIT = 'Edit the file, or set "edits: write_back" in it.'


class Edited(NamedTuple):
    """Changed settings of a schedule; None resets one."""

    settings: Mapping[str, Any]

    def write(self, text: str, location: Location) -> str:
        return edit_settings(text, location, {name: _as_text(name, value) for name, value in self.settings.items()})

    def holds(self, kind: str, entry: Entry | None) -> bool:
        return entry is not None


class Replaced(NamedTuple):
    """Settings of a record: `only` these, or merged with its others. The result must equal `value`."""

    settings: Mapping[str, Any]
    value: Any
    only: bool = True

    def write(self, text: str, location: Location) -> str:
        zone = getattr(self.value, "timezone", None)
        return set_settings(text, location, self.settings, only=self.only, zone=zone)

    def holds(self, kind: str, entry: Entry | None) -> bool:
        return entry is not None and _comparable(kind, entry.meant) == _comparable(kind, self.value)


class Deleted(NamedTuple):
    def write(self, text: str, location: Location) -> str:
        return remove_item(text, location)

    def holds(self, kind: str, entry: Entry | None) -> bool:
        return entry is None


class Renamed(NamedTuple):
    name: str
    """The new one."""

    def write(self, text: str, location: Location) -> str:
        return rename_item(text, location, self.name)

    def holds(self, kind: str, entry: Entry | None) -> bool:
        return entry is None


InFile = Edited | Replaced | Deleted | Renamed


@dataclass(frozen=True)
class FileWriter:
    core: Core
    file: File

    def change(
        self,
        principal: Principal,
        kind: str,
        name: str,
        now: int,
        in_store: Callable[[Transaction], Any],
        in_file: InFile,
        check: Callable[[Transaction], None] = lambda transaction: None,
    ) -> Any:
        """Change a record where it is defined: in the store, or in the file. `check` locks and checks before the
        change. For a file, it is called again after reading; a later change of the file raises Conflict."""
        with self.core.store.transaction(now) as transaction:
            check(transaction)
            entry = transaction.file_entry(kind, name)
            done = in_store(transaction) if entry is None else None
        if entry is None:
            self.core.notify()
            return done
        self._write_back(principal, entry, in_file, check)
        return None

    def add(self, principal: Principal, name: str | None, agent: str, definition: ScheduleDefinition) -> str | None:
        """Add the schedule to the file, if this engine uses one whose format takes it. Returns its name there."""
        file = self.core.local.file
        entry = file.format.entry_of(name, agent, definition) if file is not None and principal.is_human else None
        content = file.read() if file is not None and entry is not None else None
        if file is None or entry is None or content is None or content.file is None:
            return None
        self._write(principal, file, content, content._replace(text=entry.added_to(content.text)))
        return entry.name

    def _write_back(
        self, principal: Principal, known: FileEntry, change: InFile, check: Callable[[Transaction], None]
    ) -> None:
        """Write the change into the text, and apply the text to the store."""
        file = self.core.local.file
        own = file is not None and (not file.shared or known.path in file.places)
        content = file.read() if file is not None and own else None
        interpretation = self.file.interpret(file, content) if file and content and content.file else None
        key = known.kind, known.name
        entry = _entry(interpretation, key)
        if not file or not content or not interpretation or entry is None or not _allows(file, interpretation, change):
            raise managed_by_file(known)
        with self.core.store.reading() as transaction:
            if self.file.plan_in(transaction, file, content, interpretation).moves:
                message = f"{file.path} has changes that are not applied."
                raise Conflict(message, value=str(file.path), hint="Apply it first: matins apply.")
        with self.core.store.transaction(self.core.clock.now_ms()) as transaction:
            check(transaction)
        without = file.format.without
        if without is not None:
            new = content._replace(text=without(content.text, known.name.partition("/")[2]))
        else:
            new = content._replace(text=change.write(content.text, entry.location))
        after = self.file.interpret(file, new)
        if not after.problems and not change.holds(known.kind, _entry(after, key)):  # problems are raised below
            raise write_back_failed(entry.location)
        self._write(principal, file, content, new)

    def _write(self, principal: Principal, file: ConfigFile, before: Content, new: Content) -> None:
        if principal.granted:
            message, hint = f"A grant does not reach into {file.path}.", "Ask the owner to change it there."
            raise NotAllowed(message, value=principal.name, field="principal", hint=hint)
        with file.writing():
            self.file.apply_content(principal, file, new, lambda: file.replace(before, new.text))
            file.state = FileState("applied", digest=file.written or "")


def _allows(file: ConfigFile, interpretation: Interpretation, change: InFile) -> bool:
    """Whether the change may be written into the file."""
    return isinstance(change, Deleted) if file.format.without is not None else interpretation.edits == "write_back"


def _as_text(name: str, value: Any) -> Any:
    """The value as written in a file: a datetime or milliseconds become an RFC 3339 text."""
    if isinstance(value, (datetime, int)) and name in SETTINGS and isinstance(SETTINGS[name].kind, Instant):
        return rfc3339(parse_setting(SETTINGS[name], value, ParseContext(0)))
    return value


def managed_by_file(entry: FileEntry) -> ManagedByFile:
    hint = _EDIT if file_format(entry.path).without is None else "Edit the file."
    message = f'"{entry.name.removeprefix("/")}" is managed by {entry.path} (line {entry.line}).'
    return ManagedByFile(message, value=entry.path, field="name", hint=hint)


def _entry(interpretation: Interpretation | None, key: tuple[str, str]) -> Entry | None:
    return next((entry for entry in interpretation.entries if entry.key == key), None) if interpretation else None


def _comparable(kind: str, value: Any) -> bytes:
    """The record as stored, with an agent's variables sorted."""
    data = kinds_by_name()[kind].dump(value)
    if isinstance(data.get("environment"), tuple):
        data["environment"] = sorted(data["environment"])
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
