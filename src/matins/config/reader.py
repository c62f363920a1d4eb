"""Reads the text of `matins.yaml`: records and settings with their locations, and all problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from matins.config.herdctl import github_source
from matins.config.meant_settings import meant_setting
from matins.config.nodes import read_node
from matins.config.problems import Problem, in_file
from matins.config.quoting import cut_by_comment, without_quotes
from matins.config.sections import DEFAULTS, SCHEDULE, SCHEDULES, TOP, default_settings, sections, singles, top_level
from matins.config.structure import duplicate_keys, structure_problems
from matins.engine.settings import default_hint
from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.model.settings import Declared, Table
from matins.records.kind import RecordKind
from matins.texts.yaml_nodes import MappingNode, Node, Position, Scalar, SequenceNode, parse, to_python

_IN_LIST = re.compile(r"\[([0-9]+)\]\.(\w+)$")


class Location(NamedTuple):
    """The location of a setting or a record."""

    path: str
    key: Node
    node: Node


class SettingsBlock(NamedTuple):
    """The settings of a record, as read."""

    location: Location
    values: dict[str, Any]
    locations: dict[str, Location]
    """The location of each setting, also when its value is invalid."""


class FileItem(NamedTuple):
    """A record as written in the file."""

    kind: str
    name: str
    agent: str
    """The agent that a schedule is below; otherwise empty."""
    block: SettingsBlock


class ParsedFile(NamedTuple):
    """The content of a file before it is interpreted."""

    simple: dict[str, Any]
    defaults: SettingsBlock | None
    items: tuple[FileItem, ...]
    problems: tuple[Problem, ...]
    empty: bool = False
    top: Mapping[str, Location] = {}
    """The locations of the top-level keys."""


def read(text: str) -> ParsedFile:
    try:
        root = parse(text)
    except InvalidInput as error:
        return ParsedFile({}, None, (), (_not_yaml(error, text),))
    if root is None:
        return ParsedFile({}, None, (), (), True)
    return _Reader(text).read(root)


def _not_yaml(error: InvalidInput, text: str) -> Problem:
    """The problem for invalid YAML. The message of the error begins with its position."""
    where, _, what = error.message.partition(": ")
    line, column = (int(part.split()[1]) for part in where.split(", "))
    lines = text.splitlines()
    written = lines[line - 1] if line <= len(lines) else ""
    if "\t" in written[: column + 1]:
        hint = "Replace the tab in this line with spaces."
    elif unquoted := without_quotes(written, column):
        what, hint = unquoted
    else:
        hint = (
            error.hint
            or "Check this line and the one above: a text with a colon, or with a mark of YAML, needs quotes."
        )
    return Problem(Position(0, 0, line, column), "", what, hint=hint)


def _as_key(names: list[Node]) -> str:
    """The hint for an entry of a list, where the name is a key."""
    name = names[0].value if names and isinstance(names[0], Scalar) else None
    if name:
        return f"Write {name}: in place of - name: {name}, with its settings below it."
    return "Write name: in place of each dash, with its settings below it."


def _cut_by_comma(node: MappingNode, value: Node, found: Mapping[str, Location]) -> str | None:
    """The hint for a name without a value within braces: a comma has ended the value before it."""
    if not node.flow or not found or not isinstance(value, Scalar) or value.value is not None:
        return None
    return f'A comma ends a value here: put the value of "{list(found)[-1]}" in quotes.'


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[Problem] = []

    def read(self, root: Node) -> ParsedFile:
        if not isinstance(root, MappingNode):
            self._add(root, "", "must be a mapping", hint="schedules:\n  morning:\n    when: every day at 9am")
            return ParsedFile({}, None, (), tuple(self.problems))
        self.problems += structure_problems(root)
        if self.problems:
            return ParsedFile({}, None, (), tuple(self.problems))
        self.problems += duplicate_keys(root)
        self.problems += cut_by_comment(root, self.text)
        top = self._entries(root, "", top_level())
        simple = {name: self._value(top[name], TOP[name]) for name in TOP if name in top}
        defaults = self._block(top[DEFAULTS], default_settings()) if DEFAULTS in top else None
        items = [item for name in top for item in self._items(name, top[name])]
        return ParsedFile(simple, defaults, tuple(items), tuple(self.problems), top=top)

    def _items(self, name: str, location: Location) -> Iterator[FileItem]:
        if name == SCHEDULES:
            yield from self._schedules("", location)
        elif name in singles():
            yield from self._record(singles()[name], name, location)
        elif name in sections():
            kind = sections()[name]
            for key, inner in self._named(location, kind):
                yield from self._record(kind, key, inner)

    def _record(self, kind: RecordKind[Any], name: str, location: Location) -> Iterator[FileItem]:
        if kind.alone and not isinstance(location.node, MappingNode):
            value = self._value(location, kind.table[kind.alone])
            if value is not None:
                yield FileItem(
                    kind.kind, name, "", SettingsBlock(location, {kind.alone: value}, {kind.alone: location})
                )
            return
        agent = kind.noun == "agents"
        yield FileItem(kind.kind, name, "", self._block(location, kind.table, (SCHEDULES, "name") if agent else ()))
        for key, node in location.node.entries if agent and isinstance(location.node, MappingNode) else ():
            if _is(key, SCHEDULES):
                yield from self._schedules(name, Location(f"{location.path}.{SCHEDULES}", key, node))

    def _schedules(self, agent: str, location: Location) -> Iterator[FileItem]:
        for name, inner in self._named(location, None):
            inner, source = self._inline_source(f"{agent}-{name}" if agent else name, inner)
            if source is not None:
                yield source
            yield FileItem("schedule", name, agent, self._block(inner, SCHEDULE))

    def _inline_source(self, name: str, location: Location) -> tuple[Location, FileItem | None]:
        """The schedule with the name of its work source, and that source, if it is written inside, as herdctl does."""
        for number, (key, node) in enumerate(location.node.entries if isinstance(location.node, MappingNode) else ()):
            if _is(key, "work_source") and isinstance(node, MappingNode):
                inner = Location(f"{location.path}.work_source", key, node)
                try:
                    settings = github_source(to_python(node))
                except InvalidInput as error:
                    self._add(node, inner.path, error.message, error.value, error.allowed, error.hint)
                    return location, None
                entries = list(cast("MappingNode", location.node).entries)
                entries[number] = key, Scalar(node.position, name)
                replaced = cast("MappingNode", location.node)._replace(entries=tuple(entries))
                block = SettingsBlock(inner, settings, dict.fromkeys(settings, inner))
                return location._replace(node=replaced), FileItem("work_source", name, "", block)
        return location, None

    def _named(self, location: Location, kind: RecordKind[Any] | None) -> Iterable[tuple[str, Location]]:
        """The entries of a section by name. Agents may be a list, in which each has a name."""
        if not isinstance(location.node, SequenceNode):
            return self._entries(location.node, location.path, kind.keys if kind else ()).items()
        listed = kind is not None and kind.noun == "agents"
        found: list[tuple[str, Location]] = []
        for number, item in enumerate(location.node.items):
            path = f"{location.path}[{number}]"
            names = [value for key, value in item.entries if _is(key, "name")] if isinstance(item, MappingNode) else []
            if listed and names and isinstance(names[0], Scalar) and names[0].value:
                if names[0].value in dict(found):
                    self._add(names[0], path, f'"{names[0].value}" is there twice', hint="Remove one of them.")
                found.append((names[0].value, Location(path, names[0], item)))
            else:
                hint = "- name: scout" if listed else _as_key(names)
                self._add(item, path, "must have a name" if listed else "must not be a list", hint=hint)
        return found

    def _block(self, location: Location, table: Table, extra: tuple[str, ...] = ()) -> SettingsBlock:
        locations = self._entries(location.node, location.path, (*table, *extra))
        values = {name: self._value(inner, table[name]) for name, inner in locations.items() if name in table}
        return SettingsBlock(location, values, locations)

    def _value(self, location: Location, declared: Declared) -> Any:
        try:
            return read_node(location.node, declared.kind)
        except InvalidInput as error:
            named = location.path.rpartition(".")[2] == declared.name
            hint = in_file(error.hint or default_hint(declared), named=named)
            place = within(location, error.field)
            if any(problem.path.startswith(f"{place.path}[") for problem in self.problems):  # an empty item of a list
                return None
            self._add(place.node, place.path, error.message, error.value, error.allowed, hint)
            return None

    def _entries(self, node: Node, path: str, names: Iterable[str]) -> dict[str, Location]:
        """The entries of a mapping by name. If `names` are given, others are reported and left out."""
        if isinstance(node, Scalar) and node.value is None:
            return {}
        if not isinstance(node, MappingNode):
            self._add(node, path, "must be a mapping", hint="Write name: value on the lines below it.")
            return {}
        names = tuple(names)
        found: dict[str, Location] = {}
        for key, value in node.entries:
            name = str(key.value) if isinstance(key, Scalar) else ""
            if names and name not in names:
                hint = _cut_by_comma(node, value, found) or meant_setting(name, names) or nearest(name, names)
                self._add(key, path, f'there is no "{name}"', name, ", ".join(names), hint)
            else:
                found.setdefault(name, Location(f"{path}.{name}" if path else name, key, value))
        return found

    def _add(
        self, node: Node, path: str, what: str, value: Any = None, allowed: str | None = None, hint: str | None = None
    ) -> None:
        self.problems.append(Problem(node.position, path, what, value, allowed, hint))


def within(location: Location, field: str | None) -> Location:
    """The place of a setting of a record in a list, such as `[2].retries`; the location itself for any other field.
    Such records are numbered from 1."""
    found = _IN_LIST.search(field or "")
    items = location.node.items if isinstance(location.node, SequenceNode) else ()
    item = items[int(found[1]) - 1] if found and 0 < int(found[1]) <= len(items) else None
    if found is None or not isinstance(item, MappingNode):
        return location
    path = f"{location.path}[{found[1]}]"
    for key, node in item.entries:
        if _is(key, found[2]):
            return Location(f"{path}.{found[2]}", key, node)
    return Location(path, item, item)


def _is(key: Node, name: str) -> bool:
    return isinstance(key, Scalar) and key.value == name
