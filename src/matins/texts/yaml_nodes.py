"""YAML as a tree with positions, so that one value can be changed without touching any other byte."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from matins.errors import InvalidInput

_DEEPEST = 50
_NULLS = ("", "~", "null", "Null", "NULL")
_PLAIN = re.compile(r"[a-z]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_WORDS_WITH_A_MEANING = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_BEYOND_UNICODE = re.compile(r"\\U(?!000|0010)")
_COLON = re.compile(r"\s*:")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class Place(NamedTuple):
    """Line and column count from one."""

    start: int
    end: int
    line: int
    column: int


class Scalar(NamedTuple):
    place: Place
    value: str | None
    """The text as written: nothing is read as a number or a date."""
    block: bool = False
    quoted: bool = False

    @property
    def ends_on_its_line(self) -> bool:
        return not self.block and self.place.start < self.place.end


class Items(NamedTuple):
    place: Place
    items: tuple[Node, ...]
    flow: bool


class Entries(NamedTuple):
    place: Place
    entries: tuple[tuple[Node, Node], ...]
    flow: bool


Node = Scalar | Items | Entries


def parse(text: str) -> Node | None:
    """The document of a text; None when it is empty."""
    from ruamel.yaml import YAML  # slow to load, and most programs read no YAML
    from ruamel.yaml.error import YAMLError

    reader: Any = YAML(typ="safe", pure=True)
    try:
        return _document(iter(reader.parse(text)))
    except (YAMLError, ValueError, OverflowError) as error:  # the last two: an escape beyond Unicode
        raise refusal(_place_of(error, text), f"this is not YAML: {_reason(error)}") from None


def _place_of(error: Any, text: str) -> Place:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return Place(mark.index, mark.index, mark.line + 1, mark.column + 1)
    beyond = _BEYOND_UNICODE.search(text)
    at = getattr(error, "position", beyond.start() if beyond else 0)
    return Place(at, at, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _reason(error: Any) -> str:
    if hasattr(error, "character"):
        return f"the character {error.character:#x} is not allowed"
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


def refusal(
    place: Place, what: str, *, value: object = None, field: str | None = None, hint: str | None = None
) -> InvalidInput:
    message = f"line {place.line}, column {place.column}: {what}{'' if what.endswith('.') else '.'}"
    return InvalidInput(message, value=value, field=field, hint=hint)


def plain(node: Node) -> Any:
    """The values without positions, for comparison."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(item) for item in node.items]
        case Entries():
            return [(plain(key), plain(value)) for key, value in node.entries]


def meant(node: Node) -> Any:
    """The value by the rules of YAML 1.2: only numbers and booleans are recognised."""
    match node:
        case Scalar():
            return node.value if node.quoted or node.value is None else _meant(node.value)
        case Items():
            return [meant(item) for item in node.items]
        case Entries():
            return {plain(key): meant(value) for key, value in node.entries}


def _meant(text: str) -> Any:
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text in ("true", "True", "TRUE")
    if _INTEGER.fullmatch(text):
        return int(text)
    number = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return text if math.isinf(number) else number


def _document(events: Iterator[Any]) -> Node | None:
    root: Node | None = None
    for event in events:
        if _kind(event) == "DocumentStartEvent":
            if root is not None:
                raise refusal(
                    _place(event), "a second document begins here", hint="Keep one document: delete the line ---."
                )
            root = _node(next(events), events, 0)
    return None if isinstance(root, Scalar) and root.value is None else root


def _node(event: Any, events: Iterator[Any], depth: int) -> Node:
    place = _place(event)
    kind = _kind(event)
    if depth > _DEEPEST:
        raise refusal(place, f"nested deeper than {_DEEPEST} levels")
    if kind == "SequenceStartEvent":
        items, end = _children(events, "SequenceEndEvent", depth)
        return Items(place._replace(end=end), tuple(items), bool(event.flow_style))
    if kind == "MappingStartEvent":
        children, end = _children(events, "MappingEndEvent", depth)
        pairs = zip(children[::2], children[1::2], strict=True)
        whole = place._replace(end=end)
        return Entries(whole, tuple((key, _beside(key, value)) for key, value in pairs), bool(event.flow_style))
    if kind == "AliasEvent":
        raise refusal(place, f"*{event.anchor} repeats another part", hint="Write it out.")
    is_null = event.style is None and event.value in _NULLS
    return Scalar(place, None if is_null else event.value, event.style in ("|", ">"), event.style is not None)


def _beside(key: Node, value: Node) -> Node:
    """The value; a missing one is placed directly after its name."""
    if value.place.start < value.place.end or not isinstance(value, Scalar):
        return value
    return Scalar(Place(key.place.end, key.place.end, key.place.line, key.place.column), None)


def _children(events: Iterator[Any], end: str, depth: int) -> tuple[list[Node], int]:
    """The children and where they end; in block style, that is where the next item begins."""
    found: list[Node] = []
    while _kind(event := next(events)) != end:
        found.append(_node(event, events, depth + 1))
    return found, event.end_mark.index


def _kind(event: Any) -> str:
    return type(event).__name__


def _place(event: Any) -> Place:
    start, end = event.start_mark, event.end_mark
    return Place(start.index, end.index, start.line + 1, start.column + 1)


# changing a text


def with_fields(text: str, mapping: Entries, after: str, changes: Mapping[str, Any]) -> str:
    """The text with these fields set. New fields follow the field `after`, each on its own line."""
    found = {plain(key): value for key, value in mapping.entries}
    edits = [_set(text, found[name], value, mapping.flow) for name, value in changes.items() if name in found]
    new = {name: value for name, value in changes.items() if name not in found and value is not None}
    edits.append(_added(text, mapping, found[after].place.end, new))
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


_Edit = tuple[int, int, str]


def _set(text: str, old: Node, value: Any, flow: bool) -> _Edit:
    start, end = old.place.start, old.place.end
    if isinstance(old, (Items, Entries)) and not old.flow:  # comments among its lines would be lost
        raise refusal(
            old.place,
            "this is written in a way that cannot be changed safely",
            hint="Write it on one line, as […] or {…}.",
        )
    if start == end:
        colon = _COLON.match(text, start)
        at = colon.end() if colon else start
        return at, at, f" {written(value, flow=flow)}"
    return start, start + len(text[start:end].rstrip()), written(value, flow=flow)


def _added(text: str, mapping: Entries, after: int, new: Mapping[str, Any]) -> _Edit:
    if mapping.flow:
        return (
            after,
            after,
            "".join(f", {written(name, flow=True)}: {written(value, flow=True)}" for name, value in new.items()),
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = " " * (mapping.entries[0][0].place.column - 1)
    lines = [f"{indent}{name}: {written(value, flow=False)}" for name, value in new.items()]
    end = text.find("\n", after)
    if end < 0:
        return len(text), len(text), "".join(newline + line for line in lines)
    return end + 1, end + 1, "".join(line + newline for line in lines)


def written(value: Any, *, flow: bool) -> str:
    """The value as text; in flow style as JSON, so a JSON file stays JSON."""
    if value is None:
        return "null"
    if not flow and isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _WORDS_WITH_A_MEANING:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    """The character, escaped if YAML would refuse it or read it as a line end."""
    code = ord(character)
    return character if character.isprintable() else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
