"""Writes changes back into the text of `matins.yaml`.

Comments and other text stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, cast

from matins.config.interpretation import SPELLINGS
from matins.config.reader import FileItem, Location, ParsedFile, read
from matins.engine.schedules import SETTINGS
from matins.engine.settings import REFERENCES
from matins.engine.validation import check_names_known
from matins.errors import Conflict, InvalidInput
from matins.records import kinds_by_name
from matins.texts.yaml_nodes import (
    MappingNode,
    Node,
    Position,
    Scalar,
    SequenceNode,
    parse,
    plain,
    to_yaml,
    with_fields,
)

_COMMENT = re.compile(r"(^|\s)#", re.MULTILINE)
_BARE = re.compile(r"(?!(null|Null|NULL)$)[A-Za-z_][A-Za-z0-9_-]*")
_KEY = "here"


def replace_settings(text: str, mapping: MappingNode, before: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The text with the settings of a mapping changed from `before` to exactly these. Edits go from the last to the
    first, so that earlier positions stay valid."""
    names = [plain(key) for key, _ in mapping.entries]
    new = {name: value for name, value in settings.items() if name not in names and value is not None}
    stays = [name in settings or before.get(name) is None for name in names]
    if mapping.flow and not any(stays):
        return set_value(text, mapping, None, dict(settings), flow=True)
    behind = _behind(mapping, stays) if new else None
    for number, (_, node) in reversed(list(enumerate(mapping.entries))):
        name = names[number]
        if number == behind:
            first, end = mapping.entries[0][0], content_end(text, node)
            alone = mapping._replace(entries=((first, Scalar(Position(end, end, 0, 0), "")),))
            named = {each if mapping.flow or _BARE.fullmatch(each) else _json(each): new[each] for each in new}
            text = with_fields(text, alone, plain(first), named)
        if not stays[number]:
            text = without_field(text, mapping, number, last=not any(stays[number:]))
        elif not same(settings.get(name), before.get(name)):
            text = set_value(text, node, before.get(name), settings[name], flow=mapping.flow)
    return text


def set_value(text: str, node: Node, before: Any, value: Any, *, flow: bool) -> str:
    """The text with this value replaced. Of a mapping, only what differs is replaced."""
    if isinstance(node, MappingNode) and node.entries and _has_no_null(before) and _has_no_null(value):
        return replace_settings(text, node, before, value)
    if isinstance(node, SequenceNode) and not node.flow and value is not None:
        return _set_items(text, node, value)
    if not isinstance(node, Scalar):
        _check_no_comments(text[node.position.start : node.position.end])
    alone = MappingNode(node.position, ((Scalar(node.position, _KEY), node),), flow)
    return with_fields(text, alone, _KEY, {_KEY: value})


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, also in type: in Python, 1 equals True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _has_no_null(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether the value is a mapping without null: in a mapping of settings null means the default, elsewhere null."""
    return isinstance(value, dict) and None not in cast("dict[str, Any]", value).values()


def _set_items(text: str, node: SequenceNode, value: Any) -> str:
    """The text with the items of a list replaced. Items that stay keep their lines and comments."""
    wanted = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else None
    stays = [wanted is not None and plain(item) in wanted for item in node.items]
    kept = [plain(item) for item, stay in zip(node.items, stays, strict=True) if stay]
    if wanted is None or not kept or wanted[: len(kept)] != kept:
        lines = [_json(value)] if wanted is None else [f"- {_json(item)}" for item in wanted]
        start, end = _dash(text, node, 0), content_end(text, node)
        _check_no_comments(text[start : _line_end(text, end)])
        return text[:start] + ((_newline(text) + " " * _column(text, start)).join(lines) or "[]") + text[end:]
    at = _line_end(text, content_end(text, node))
    column = _column(text, _dash(text, node, 0))
    text = _with_lines(text, at, [f"{' ' * column}- {_json(item)}" for item in wanted[len(kept) :]])
    for number in reversed([number for number, stay in enumerate(stays) if not stay]):
        text = without_item(text, node, number)
    return text


def _with_lines(text: str, at: int, lines: Sequence[str]) -> str:
    """The text with these lines at `at`, which is the start of a line or the end of the text."""
    newline = _newline(text)
    ended = text[:at].endswith("\n")
    return text[:at] + "".join(line + newline if ended else newline + line for line in lines) + text[at:]


def _json(value: Any) -> str:
    return to_yaml(value, flow=True)


def _behind(mapping: MappingNode, stays: list[bool]) -> int:
    """The index of the setting to insert new ones after: the last that ends on its own line, or a block."""
    nodes = [(number, node) for number, (_, node) in enumerate(mapping.entries) if stays[number] or not any(stays)]
    ends = [n for n, node in nodes if (node.ends_on_its_line if isinstance(node, Scalar) else node.flow)]
    ends = ends or [n for n, node in nodes if not isinstance(node, Scalar)]
    if not ends:
        raise InvalidInput("no setting ends on its own line")
    return ends[-1]


def with_nulls(text: str, mapping: MappingNode, settings: Sequence[str]) -> str:
    """The text with these settings set to null, each on its own line."""
    if mapping.flow:
        raise InvalidInput("it is written on one line")
    indent = " " * (mapping.entries[0][0].position.column - 1)
    behind = mapping.entries[_behind(mapping, [True] * len(mapping.entries))][1]
    return _with_lines(text, _line_end(text, content_end(text, behind)), [f"{indent}{name}: null" for name in settings])


def without_field(text: str, mapping: MappingNode, number: int, *, last: bool) -> str:
    """The text without one entry. In braces, a comma before or after it goes too."""
    key, node = mapping.entries[number]
    if not mapping.flow:
        return _without_lines(text, key.position.start, node)
    start = content_end(text, mapping.entries[number - 1][1]) if last and number else key.position.start
    end = content_end(text, node) if last else mapping.entries[number + 1][0].position.start
    _check_no_comments(text[start:end])
    return text[:start] + text[end:]


def without_item(text: str, items: SequenceNode, number: int) -> str:
    node = items.items[number]
    if items.flow:
        raise InvalidInput("it shares a line with other records")
    return _without_lines(text, _dash(text, items, number), node)


def _without_lines(text: str, start: int, node: Node) -> str:
    """The text without the lines of an entry and the deeper lines below. Other lines stay."""
    first = _line_start(text, start)
    if text[first:start].strip():
        raise InvalidInput("it shares a line with other records")
    end = at = _line_end(text, max(start, content_end(text, node)))
    while at < len(text):
        line = text[at : _line_end(text, at)]
        if line.strip() and len(line) - len(line.lstrip(" ")) <= start - first:
            break
        at += len(line)
        end = at if line.strip() else end
    return text[:first] + text[end:]


def holder(root: Node | None, key: Position) -> tuple[MappingNode | SequenceNode, int] | None:
    """The mapping that has this key, or the list that has the item with it; and the index in it."""
    if isinstance(root, MappingNode):
        for number, (name, node) in enumerate(root.entries):
            if name.position == key:
                return root, number
            if found := holder(node, key):
                return found
    if isinstance(root, SequenceNode):
        for number, item in enumerate(root.items):
            if isinstance(item, MappingNode) and any(node.position == key for _, node in item.entries):
                return root, number
            if found := holder(item, key):
                return found
    return None


def content_end(text: str, node: Node) -> int:
    """The end of the node's content, without the comments after it."""
    if isinstance(node, SequenceNode) and not node.flow and node.items:
        return content_end(text, node.items[-1])
    if isinstance(node, MappingNode) and not node.flow and node.entries:
        return content_end(text, node.entries[-1][1])
    return node.position.start + len(text[node.position.start : node.position.end].rstrip())


def _check_no_comments(part: str) -> None:
    if "\n" in part and _COMMENT.search(part):  # a part of one line has no comment
        raise InvalidInput("the change would delete comments")


def _dash(text: str, items: SequenceNode, number: int) -> int:
    return text.rindex("-", 0, items.items[number].position.start)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _column(text: str, at: int) -> int:
    return at - _line_start(text, at)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """The start of the next line."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


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


def rename_item(text: str, location: Location, name: str) -> str:
    """The text with another name of one record."""
    parsed = read(text)
    item = _item(parsed, location)
    key = location.key
    if not isinstance(key, Scalar) or plain(key) != item.name:
        raise _unsafe(location, "its name is not the key of a mapping")
    new = text[: key.position.start] + (name if _BARE.fullmatch(name) else _json(name)) + text[key.position.end :]
    before, after = _records(parsed), _records(read(new))
    before[item.kind, name, item.agent] = before.pop((item.kind, item.name, item.agent))
    if before != after:
        raise _unsafe(location, "its form in the file cannot be changed safely")
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
