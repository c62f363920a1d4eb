"""What an importer yields: entries of the file, each with the times at which the other system would have fired."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import orjson

from matins.config.presets import PRESETS
from matins.engine.when.parse import parse_trigger
from matins.errors import InvalidInput
from matins.importers.files import read_rows
from matins.importers.old_times import OldTimes
from matins.model.settings import MAX_NAME_LENGTH

SOURCE, DIGEST = "imported_from", "import_digest"
"""The labels of an imported schedule. By them a second import finds what the first one made."""


class ImportEntry(NamedTuple):
    kind: Literal["agent", "work_source", "inbound", "schedule"]
    name: str
    settings: Mapping[str, Any]
    """As they are written in the file."""
    origin: str
    """Where it stands in the other system's file."""
    old: OldTimes | None = None
    paused: bool = False
    notes: tuple[str, ...] = ()
    """What is different here."""


class Imported(NamedTuple):
    source: str
    entries: tuple[ImportEntry, ...]
    left_out: tuple[str, ...] = ()
    """What cannot be imported, and why."""


class Importer(NamedTuple):
    """Reads the schedules of another system."""

    help: str
    read: Callable[[str, str], Imported]
    """From a path, and the time zone of the machine."""
    target: str = "PATH"
    """How help names the path. In brackets, it may be left out, and `read` gets an empty text."""


def read_schedules(
    path: str, table: str, called: str, read: Callable[[dict[str, Any], str], ImportEntry]
) -> tuple[tuple[ImportEntry, ...], tuple[str, ...]]:
    """The schedules of a table, and what cannot be imported. `called` says what a row is: "mission {id}"."""
    entries: list[ImportEntry] = []
    left_out: list[str] = []
    for row in read_rows(path, table):
        origin = called.format_map(defaultdict(lambda: None, row))
        try:
            entries.append(read(row, origin))
        except InvalidInput as error:
            left_out.append(f"{origin}: {error.message}")
    return tuple(entries), tuple(left_out)


def with_preset(preset: str, when: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the defaults of another system, written out."""
    defaults = PRESETS[preset].settings_for(parse_trigger(when, now_ms=0).definition.when)
    return {"when": when, **{name: value for name, value in {**defaults, **settings}.items() if value is not None}}


def labelled(source: str, entry: ImportEntry) -> ImportEntry:
    """The entry with the labels by which the next import finds it."""
    if entry.kind != "schedule":
        return entry
    text = orjson.dumps([entry.settings, entry.paused], option=orjson.OPT_SORT_KEYS)
    labels = {**entry.settings.get("labels", {}), SOURCE: source, DIGEST: sha256(text).hexdigest()[:16]}
    return entry._replace(settings={**entry.settings, "labels": labels})


def slug(text: str, taken: set[str], default: str) -> str:
    """A name from the text that is not taken, and is taken from now on."""
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[: MAX_NAME_LENGTH // 4] or default
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name
