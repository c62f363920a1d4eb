"""What an importer yields: entries of the file, each with the times at which the other system would have fired."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import orjson

from matins.config.presets import PRESETS
from matins.engine.when.parse import parse_trigger
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


def slug(text: str, taken: Iterable[str], default: str) -> str:
    """A name from the text that is not taken."""
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[: MAX_NAME_LENGTH // 4] or default
    names, number = set(taken), 2
    name = base
    while name in names:
        name, number = f"{base}-{number}", number + 1
    return name
