"""YAML as a tree with positions, so that one value can be changed without touching any other byte."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from matins.errors import InvalidInput

_MAX_DEPTH = 50
_NULLS = ("", "~", "null", "Null", "NULL")
_PLAIN = re.compile(r"[a-z]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_RESERVED = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_BEYOND_UNICODE = re.compile(r"\\U(?!000|0010)")
_COLON = re.compile(r"\s*:")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class Position(NamedTuple):
    """Line and column count from one."""

    start: int
    end: int
    line: int
    column: int


class Scalar(NamedTuple):
    position: Position
    value: str | None
    """The text as written: nothing is read as a number or a date."""
    block: bool = False
    quoted: bool = False

    @property
    def ends_on_its_line(self) -> bool:
        return not self.block and self.position.start < self.position.end


class SequenceNode(NamedTuple):
    position: Position
    items: tuple[Node, ...]
    flow: bool


class MappingNode(NamedTuple):
    position: Position
    entries: tuple[tuple[Node, Node], ...]
    flow: bool


Node = Scalar | SequenceNode | MappingNode


def parse(text: str) -> Node | None:
    """The document of a text; None when it is empty."""
    from ruamel.yaml import YAML  # slow to load, and most programs read no YAML
    from ruamel.yaml.error import YAMLError

    reader: Any = YAML(typ="safe", pure=True)
    try:
        return _document(iter(reader.parse(text)))
    except (YAMLError, ValueError, OverflowError) as error:  # the last two: an escape beyond Unicode
        raise yaml_error(_position_of(error, text), f"this is not YAML: {_reason(error)}") from None


def _position_of(error: Any, text: str) -> Position:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return Position(mark.index, mark.index, mark.line + 1, mark.column + 1)
    beyond = _BEYOND_UNICODE.search(text)
    at = getattr(error, "position", beyond.start() if beyond else 0)
    return Position(at, at, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _reason(error: Any) -> str:
    if hasattr(error, "character"):
        return f"the character {error.character:#x} is not allowed"
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


def yaml_error(
    position: Position, what: str, *, value: object = None, field: str | None = None, hint: str | None = None
) -> InvalidInput:
    message = f"line {position.line}, column {position.column}: {what}{'' if what.endswith('.') else '.'}"
    return InvalidInput(message, value=value, field=field, hint=hint)


def plain(node: Node) -> Any:
    """The values without positions, for comparison."""
    match node:
        case Scalar():
            return node.value
        case SequenceNode():
            return [plain(item) for item in node.items]
        case MappingNode():
            return [(plain(key), plain(value)) for key, value in node.entries]


def to_python(node: Node) -> Any:
    """The value by the rules of YAML 1.2: only numbers and booleans are recognised."""
    match node:
        case Scalar():
            return node.value if node.quoted or node.value is None else _parse_scalar(node.value)
        case SequenceNode():
            return [to_python(item) for item in node.items]
        case MappingNode():
            return {_name(key): to_python(value) for key, value in node.entries}


def _name(key: Node) -> str | None:
    if not isinstance(key, Scalar):
        raise yaml_error(key.position, "a list or a mapping stands in place of a name", hint="Write a text.")
    return key.value


def not_finite(node: Node) -> Scalar | None:
    """The first number that is NaN, an infinity, or too large by the rules of YAML 1.2. `to_python` gives its text."""
    match node:
        case Scalar():
            text = "" if node.quoted or node.value is None else node.value
            too_large = _DECIMAL.fullmatch(text) is not None and math.isinf(float(text))
            return node if too_large or _NOT_FINITE.fullmatch(text) else None
        case SequenceNode():
            return next(filter(None, map(not_finite, node.items)), None)
        case MappingNode():
            return next(filter(None, (not_finite(value) for _, value in node.entries)), None)


def _parse_scalar(text: str) -> Any:
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
                raise yaml_error(
                    _position(event), "a second document begins here", hint="Keep one document: delete the line ---."
                )
            root = _node(next(events), events, 0)
    return None if isinstance(root, Scalar) and root.value is None else root


def _node(event: Any, events: Iterator[Any], depth: int) -> Node:
    position = _position(event)
    kind = _kind(event)
    if depth > _MAX_DEPTH:
        raise yaml_error(position, f"nested deeper than {_MAX_DEPTH} levels")
    if kind == "SequenceStartEvent":
        items, end = _children(events, "SequenceEndEvent", depth)
        return SequenceNode(position._replace(end=end), tuple(items), bool(event.flow_style))
    if kind == "MappingStartEvent":
        children, end = _children(events, "MappingEndEvent", depth)
        pairs = zip(children[::2], children[1::2], strict=True)
        whole = position._replace(end=end)
        return MappingNode(whole, tuple((key, _beside(key, value)) for key, value in pairs), bool(event.flow_style))
    if kind == "AliasEvent":
        raise yaml_error(position, f"*{event.anchor} repeats another part", hint="Write it out.")
    sign = f"&{event.anchor}" if event.anchor else event.tag if event.tag and event.tag.startswith("!") else None
    if sign is not None and sign != "!":  # it would be missing in the value
        raise yaml_error(position, f"{sign} is a mark of YAML's own", hint="Remove it, or put the value in quotes.")
    is_null = event.style is None and event.value in _NULLS
    return Scalar(position, None if is_null else event.value, event.style in ("|", ">"), event.style is not None)


def _beside(key: Node, value: Node) -> Node:
    """The value; a missing one is placed directly after its name."""
    if value.position.start < value.position.end or not isinstance(value, Scalar):
        return value
    return Scalar(Position(key.position.end, key.position.end, key.position.line, key.position.column), None)


def _children(events: Iterator[Any], end: str, depth: int) -> tuple[list[Node], int]:
    """The children and where they end; in block style, that is where the next item begins."""
    found: list[Node] = []
    while _kind(event := next(events)) != end:
        found.append(_node(event, events, depth + 1))
    return found, event.end_mark.index


def _kind(event: Any) -> str:
    return type(event).__name__


def _position(event: Any) -> Position:
    start, end = event.start_mark, event.end_mark
    return Position(start.index, end.index, start.line + 1, start.column + 1)


# changing a text


def with_fields(text: str, mapping: MappingNode, after: str, changes: Mapping[str, Any]) -> str:
    """The text with these fields set. New fields follow the field `after`, each on its own line."""
    found = {plain(key): value for key, value in mapping.entries}
    edits = [_set(text, found[name], value, mapping.flow) for name, value in changes.items() if name in found]
    new = {name: value for name, value in changes.items() if name not in found and value is not None}
    edits.append(_added(text, mapping, found[after].position.end, new))
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


_Edit = tuple[int, int, str]


def _set(text: str, old: Node, value: Any, flow: bool) -> _Edit:
    start, end = old.position.start, old.position.end
    if isinstance(old, (SequenceNode, MappingNode)) and not old.flow:  # comments among its lines would be lost
        raise yaml_error(
            old.position,
            "this is written in a way that cannot be changed safely",
            hint="Write it on one line, as […] or {…}.",
        )
    if start == end:
        colon = _COLON.match(text, start)
        at = colon.end() if colon else start
        return at, at, f" {to_yaml(value, flow=flow)}"
    return start, start + len(text[start:end].rstrip()), to_yaml(value, flow=flow)


def _added(text: str, mapping: MappingNode, after: int, new: Mapping[str, Any]) -> _Edit:
    if mapping.flow:
        return (
            after,
            after,
            "".join(f", {to_yaml(name, flow=True)}: {to_yaml(value, flow=True)}" for name, value in new.items()),
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = " " * (mapping.entries[0][0].position.column - 1)
    lines = [f"{indent}{name}: {to_yaml(value, flow=False)}" for name, value in new.items()]
    end = text.find("\n", after)
    if end < 0:
        return len(text), len(text), "".join(newline + line for line in lines)
    return end + 1, end + 1, "".join(line + newline for line in lines)


def to_yaml(value: Any, *, flow: bool) -> str:
    """The value as text; in flow style as JSON, so a JSON file stays JSON."""
    if value is None:
        return "null"
    if not flow and isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _RESERVED:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    """The character, escaped if YAML would refuse it or read it as a line end."""
    code = ord(character)
    return character if character.isprintable() else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
