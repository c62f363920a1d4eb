"""Writes changes back into the text of `matins.yaml`. Comments and other text stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matins.config.file_schedules import SPELLINGS
from matins.config.reader import FileItem, Location, ParsedFile, read
from matins.config.text_edits import holder, replace_settings, same, set_value, with_nulls, without_field, without_item
from matins.engine.schedules import SETTINGS
from matins.engine.setting_values import REFERENCES
from matins.engine.validation import check_names_known
from matins.errors import Conflict, InvalidInput
from matins.records import kinds_by_name
from matins.texts.yaml_nodes import MappingNode, SequenceNode, parse

_EDITABLE = ("when", *SETTINGS)
"""The settings that can be written back. Settings of the file only, such as preset, are edited in the file."""
Records = dict[tuple[str, str, str], Mapping[str, Any]]


def edit_settings(text: str, location: Location, changes: Mapping[str, Any]) -> str:
    """The text with these settings of one schedule changed; None is written as null, which means the default."""
    check_names_known("A schedule", changes, _EDITABLE)
    parsed = read(text)
    item = _item(parsed, location)
    others = [name for name in ("type", *SPELLINGS) if name in item.block.locations]
    if "when" in changes and others:
        raise _unsafe(location, f'the file uses "{others[0]}" instead of "when"')
    settings = {**item.block.values, **changes}
    new = _written(location, lambda: _replaced(text, item, settings))
    missing = [name for name, value in changes.items() if value is None and name not in item.block.locations]
    if missing:
        new = _written(location, lambda: _with_nulls(new, location, missing))
    _check(parsed, new, item, settings)
    return new


def set_settings(
    text: str, location: Location, settings: Mapping[str, Any], *, only: bool = True, zone: str | None = None
) -> str:
    """The text with these settings of a record other than a schedule: `only` these, or merged with its others; None
    removes one. `zone` is written if `defaults` has a time zone. The caller checks the meaning of the result."""
    parsed = read(text)
    item = _item(parsed, location)
    wanted = settings if only else {**item.block.values, **settings}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if zone and parsed.defaults and parsed.defaults.values.get("timezone"):
        wanted.setdefault("timezone", zone)
    _check_secrets(item, wanted)
    new = _written(location, lambda: _replaced(text, item, wanted))
    _check(parsed, new, item)
    return new


def remove_item(text: str, location: Location) -> str:
    """The text without one record and everything below it. Comments of other records stay."""
    parsed = read(text)
    item = _item(parsed, location)
    new = _written(location, lambda: _removed(text, location))
    _check(parsed, new, item, removed=True)
    return new


def write_back_failed(location: Location) -> Conflict:
    """The error for a change that would have another meaning in the file."""
    return _unsafe(location, "written to the file, the change would have another meaning")


def _written(location: Location, write: Callable[[], str]) -> str:
    try:
        return write()
    except InvalidInput as error:
        raise _unsafe(location, error.message) from None
    except TypeError as error:
        raise _unsafe(location, f"the value cannot be written: {error}") from None


def _replaced(text: str, item: FileItem, settings: Mapping[str, Any]) -> str:
    node, before = item.block.location.node, item.block.values
    if isinstance(node, MappingNode) and node.entries:
        return replace_settings(text, node, before, settings)
    return set_value(text, node, None, _alone(item.kind, settings), flow=False) if not same(settings, before) else text


def _alone(kind: str, settings: Mapping[str, Any]) -> Any:
    """The bare value of a record that has only that setting; otherwise its mapping."""
    alone = "" if kind == "schedule" else kinds_by_name()[kind].alone
    return settings[alone] if alone and [*settings] == [alone] else dict(settings)


def _removed(text: str, location: Location) -> str:
    held = holder(parse(text), location.key.position)
    assert held is not None, location.path
    mapping, number = held
    if isinstance(mapping, SequenceNode):
        return without_item(text, mapping, number)
    return without_field(text, mapping, number, last=number + 1 == len(mapping.entries))


def _with_nulls(text: str, location: Location, names: list[str]) -> str:
    """Write null for settings to reset that the record does not have: `defaults` may have another value."""
    node = _item(read(text), location).block.location.node
    assert isinstance(node, MappingNode), location.path
    return with_nulls(text, node, names)


def _item(parsed: ParsedFile, location: Location) -> FileItem:
    for item in parsed.items:
        if item.block.location.key.position == location.key.position:
            return item
    raise _unsafe(location, "it is part of the preset", "Add it to the file, under limits.")


def _check_secrets(item: FileItem, settings: Mapping[str, Any]) -> None:
    """Raise when the value of a secret would replace its reference in the file."""
    before: Mapping[str, str] = item.block.values.get("environment") or {}
    after: Mapping[str, str] = settings.get("environment") or {}
    for name in before.keys() & after.keys():
        if before[name].startswith(REFERENCES) and not after[name].startswith(REFERENCES):
            location = item.block.locations["environment"]
            raise _unsafe(
                location, f"{name} refers to its value and cannot be set to one", "Use env:NAME or file:/path."
            )


def _check(
    before: ParsedFile, text: str, item: FileItem, settings: Mapping[str, Any] | None = None, *, removed: bool = False
) -> None:
    """Raise unless the new text, read again, changes only this record, and gives it these settings."""
    parsed = read(text)
    old, new, key = _records(before), _records(parsed), (item.kind, item.name, item.agent)
    old.pop(key)
    found = new.pop(key, None)
    wrong = settings is not None and not same(found, settings)
    if parsed.problems or wrong or (found is None) != removed or new != old:
        raise _unsafe(item.block.location, "its form in the file cannot be changed safely")


def _records(parsed: ParsedFile) -> Records:
    """Everything that a file defines."""
    defaults = {("defaults", "", ""): parsed.defaults.values} if parsed.defaults else {}
    simple = {("top", name, ""): {"value": value} for name, value in parsed.simple.items()}
    items = {(item.kind, item.name, item.agent): item.block.values for item in parsed.items}
    return {**defaults, **simple, **items}


def _unsafe(location: Location, reason: str, hint: str = "Change it in the file.") -> Conflict:
    message = f"{location.path}, line {location.key.position.line} of the file: {reason}."
    return Conflict(message, value=location.path, field="name", hint=hint)
