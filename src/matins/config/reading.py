"""The text of `matins.yaml` → what it says, each part with its place, and all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from matins.config.problems import Problem, nearest
from matins.config.soundness import twins, unfit
from matins.config.values import value_of
from matins.config.words import DEFAULTS, NESTED, NUMBERED, OWN_WORDS, SCHEDULE, SECTIONS, SIMPLE, TOP, Section, Table
from matins.errors import InvalidInput
from matins.texts.yaml_nodes import Entries, Items, Node, Place, Scalar, parse


class Spot(NamedTuple):
    """Where something stands."""

    path: str
    key: Node
    node: Node


class Block(NamedTuple):
    """A mapping of words, read."""

    spot: Spot
    values: dict[str, Any]
    spots: dict[str, Spot]
    """Of each word that stands there, also where its value is wrong."""


class Said(NamedTuple):
    """A thing that the file says, in its own words."""

    kind: str
    name: str
    agent: str
    """Of a schedule that stands below it."""
    block: Block


class Draft(NamedTuple):
    """What a file says, before anybody asks what it means."""

    simple: dict[str, Any]
    defaults: Block | None
    said: tuple[Said, ...]
    problems: tuple[Problem, ...]
    empty: bool = False
    top: Mapping[str, Spot] = {}
    """Where the words of the file itself stand."""


def read(text: str) -> Draft:
    try:
        root = parse(text)
    except InvalidInput as error:
        return Draft({}, None, (), (_not_yaml(error, text),))
    if root is None:
        return Draft({}, None, (), (), True)
    return _Reader().read(root)


def _not_yaml(error: InvalidInput, text: str) -> Problem:
    """Its message begins with its place."""
    where, _, what = error.message.partition(": ")
    line, column = (int(part.split()[1]) for part in where.split(", "))
    lines = text.splitlines()
    tab = line <= len(lines) and "\t" in lines[line - 1][: column + 1]
    hint = "YAML wants spaces where this line has a tab" if tab else error.hint or "look at this line and the one above"
    return Problem(Place(0, 0, line, column), "", what, hint=hint)


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read(self, root: Node) -> Draft:
        if not isinstance(root, Entries):
            self._say(root, "", "a mapping must stand here", hint="schedules:\n  morning:\n    when: every day at 9am")
            return Draft({}, None, (), tuple(self.problems))
        self.problems += unfit(root)
        if self.problems:
            return Draft({}, None, (), tuple(self.problems))
        self.problems += twins(root)
        top = self._entries(root, "", TOP)
        simple = {word: self._value(top[word], SIMPLE[word]) for word in SIMPLE if word in top}
        defaults = self._block(top[DEFAULTS], OWN_WORDS) if DEFAULTS in top else None
        said = [thing for word in top for thing in self._things(word, top[word])]
        return Draft(simple, defaults, tuple(said), tuple(self.problems), top=top)

    def _things(self, word: str, spot: Spot) -> Iterator[Said]:
        if word in SECTIONS:
            yield from self._section(spot, SECTIONS[word])
        elif word in NUMBERED:
            for name, inner in self._entries(spot.node, spot.path, ()).items():
                value = self._value(inner, NUMBERED[word])
                if value is not None:
                    yield Said(word, name, "", Block(inner, {"value": value}, {"value": inner}))

    def _section(self, spot: Spot, section: Section) -> Iterator[Said]:
        for name, inner in self._named(spot, section):
            if section.kind == "hook" and not isinstance(inner.node, Entries):
                command = self._value(inner, section.table["command"])
                yield Said("hook", name, "", Block(inner, {"command": command}, {"command": inner}))
                continue
            table = section.table
            extra = (NESTED, "name") if section.kind == "agent" else ()
            yield Said(section.kind, name, "", self._block(inner, table, extra))
            if section.kind == "agent" and isinstance(inner.node, Entries):
                yield from self._nested(name, inner)

    def _nested(self, agent: str, spot: Spot) -> Iterator[Said]:
        for key, node in spot.node.entries if isinstance(spot.node, Entries) else ():
            if _is(key, NESTED):
                below = Spot(f"{spot.path}.{NESTED}", key, node)
                for name, inner in self._named(below, SECTIONS["schedules"]):
                    yield Said("schedule", name, agent, self._block(inner, SCHEDULE))

    def _named(self, spot: Spot, section: Section) -> Iterable[tuple[str, Spot]]:
        """By name; as a list, each says its own."""
        if not isinstance(spot.node, Items):
            return self._entries(spot.node, spot.path, section.names).items()
        found: list[tuple[str, Spot]] = []
        for number, item in enumerate(spot.node.items):
            path = f"{spot.path}[{number}]"
            names = [value for key, value in item.entries if _is(key, "name")] if isinstance(item, Entries) else []
            if section.kind == "agent" and names and isinstance(names[0], Scalar) and names[0].value:
                if names[0].value in dict(found):
                    self._say(names[0], path, f'"{names[0].value}" stands there twice', hint="take one of them out")
                found.append((names[0].value, Spot(path, names[0], item)))
            else:
                hint = "- name: scout" if section.kind == "agent" else "write them as name: and words below"
                self._say(item, path, "something with a name must stand here", hint=hint)
        return found

    def _block(self, spot: Spot, table: Table, extra: tuple[str, ...] = ()) -> Block:
        spots = self._entries(spot.node, spot.path, (*table, *extra))
        values = {word: self._value(inner, table[word]) for word, inner in spots.items() if word in table}
        return Block(spot, values, spots)

    def _value(self, spot: Spot, word: Any) -> Any:
        try:
            return value_of(spot.node, word)
        except InvalidInput as error:
            self._say(spot.node, spot.path, error.message, error.value, error.allowed, error.hint)
            return None

    def _entries(self, node: Node, path: str, words: Iterable[str]) -> dict[str, Spot]:
        """By name; where only some names are known, others are told, and left out."""
        if isinstance(node, Scalar) and node.value is None:
            return {}
        if not isinstance(node, Entries):
            self._say(node, path, "a mapping must stand here", hint="write name: value on lines below it")
            return {}
        words = tuple(words)
        found: dict[str, Spot] = {}
        for key, value in node.entries:
            name = str(key.value) if isinstance(key, Scalar) else ""
            if words and name not in words:
                self._say(key, path, f'there is no "{name}"', name, ", ".join(words), nearest(name, words))
            else:
                found.setdefault(name, Spot(f"{path}.{name}" if path else name, key, value))
        return found

    def _say(
        self, node: Node, path: str, what: str, value: Any = None, allowed: str | None = None, hint: str | None = None
    ) -> None:
        self.problems.append(Problem(node.place, path, what, value, allowed, hint))


def _is(key: Node, name: str) -> bool:
    return isinstance(key, Scalar) and key.value == name
