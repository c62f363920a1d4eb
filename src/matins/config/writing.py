"""Changes written back into the text of `matins.yaml`: comments kept, and nothing else touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.config.reading import Draft, Said, Spot, read
from matins.config.words import OWN_WORDS
from matins.engine.given import check_words
from matins.errors import Conflict, InvalidInput
from matins.texts.yaml_nodes import Entries, Node, Scalar, plain, with_fields

_CHANGED_HERE = ("when", *OWN_WORDS)
"""Words become text as they are; and those that only a file may say, such as preset, decide who is asked."""


def with_words(text: str, spot: Spot, changes: Mapping[str, Any]) -> str:
    """The text with these words of one schedule set; None is written as null, which means the usual."""
    check_words("A schedule", changes, _CHANGED_HERE)
    draft = read(text)
    said = _said(draft, spot)
    node = said.block.spot.node
    others = [word for word in ("type", "interval", "expression") if word in said.block.spots]
    if "when" in changes and others:
        raise _unsafe(spot, f'it is said there with "{others[0]}"')
    if not isinstance(node, Entries):
        raise _unsafe(spot, "it has no words of its own")
    after = _behind(node, spot)
    try:
        new = with_fields(text, node, after, changes)
        new = _with_nulls(new, spot, changes)
    except InvalidInput as error:
        raise _unsafe(spot, error.message) from None
    except TypeError as error:
        raise _unsafe(spot, f"what is given cannot be written: {error}") from None
    _check(draft, new, said, {**said.block.values, **changes}, spot)
    return new


def _with_nulls(text: str, spot: Spot, changes: Mapping[str, Any]) -> str:
    """What was not there, and shall be the usual although a default says otherwise, is said too."""
    said = _said(read(text), spot)
    node = said.block.spot.node
    missing = [word for word, value in changes.items() if value is None and word not in said.block.spots]
    if not missing or not isinstance(node, Entries):
        return text
    line_end = text.find("\n", dict(_named(node))[_behind(node, spot)].place.end)
    if node.flow or line_end < 0:
        raise _unsafe(spot, "it stands on one line")
    indent = " " * (node.entries[0][0].place.column - 1)
    lines = "".join(f"{indent}{word}: null\n" for word in missing)
    return text[: line_end + 1] + lines + text[line_end + 1 :]


def without(text: str, spot: Spot) -> str:
    """The text without one thing: its name and what stands below it; comments of others stay."""
    draft = read(text)
    said = _said(draft, spot)
    lines = text.splitlines(keepends=True)
    first = spot.key.place.line - 1
    indent = spot.key.place.column - 1
    if lines[first][:indent].strip():
        raise _unsafe(spot, "it shares its line with others")
    last = first + 1
    while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > indent):
        last += 1
    while not lines[last - 1].strip():
        last -= 1
    new = "".join(lines[:first] + lines[last:])
    _check(draft, new, said, None, spot)
    return new


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _said(draft: Draft, spot: Spot) -> Said:
    return next(said for said in draft.said if said.block.spot.path == spot.path)


def _named(node: Entries) -> list[tuple[str, Node]]:
    return [(plain(key), value) for key, value in node.entries]


def _behind(node: Entries, spot: Spot) -> str:
    """The word behind which new ones stand: the last whose value ends on its line."""
    ends = [name for name, value in _named(node) if isinstance(value, Scalar) and value.ends_on_its_line]
    if not ends:
        raise _unsafe(spot, "none of its words ends on its line")
    return ends[-1]


def _check(before: Draft, text: str, said: Said, words: Mapping[str, Any] | None, spot: Spot) -> None:
    """Read again, all the rest must say what it said."""
    after = read(text)
    expected = [_thing(s, dict(words) if s is said and words is not None else s.block.values) for s in before.said
                if s is not said or words is not None]  # fmt: skip
    rest = (after.simple, after.defaults and after.defaults.values) == (
        before.simple,
        before.defaults and before.defaults.values,
    )
    if after.problems or not rest or [_thing(s, s.block.values) for s in after.said] != expected:
        raise _unsafe(spot, "it is written in a way that cannot be changed safely")


def _thing(said: Said, values: Mapping[str, Any]) -> tuple[str, str, str, dict[str, Any]]:
    return said.kind, said.name, said.agent, {word: value for word, value in values.items() if value is not None}


def _unsafe(spot: Spot, why: str) -> Conflict:
    message = f"{spot.path}, line {spot.key.place.line} of the file: {why}"
    return Conflict(message, value=spot.path, field="name", hint="change it in the file")
