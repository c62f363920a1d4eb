"""Values of the file, read by the kind of their setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from matins.engine.settings import default_hint, own_names
from matins.engine.validation import nearest, one_of, preview_of
from matins.errors import InvalidInput
from matins.model import settings as kinds
from matins.model.settings import Kind, settings_of
from matins.texts.yaml_nodes import MappingNode, Node, Scalar, SequenceNode, not_finite, to_python

_NUMBER = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]+)?\s*")
_QUOTE = 'Use null, or quote it if it is a text: "{}".'


def read_node(node: Node, kind: Kind) -> Any:
    """The value of a node; None when it is empty. Raises InvalidInput, without a location, for a wrong form."""
    if isinstance(node, Scalar) and node.value is None:
        return None
    return READ[type(kind)](node, kind)


def as_written(node: Node) -> Any:
    """The node as Python values. All scalars stay text."""
    match node:
        case Scalar():
            return node.value
        case SequenceNode():
            return [as_written(item) for item in node.items]
        case MappingNode():
            return {as_written(key): as_written(value) for key, value in node.entries}


def _text(node: Node, kind: Kind) -> Any:
    if isinstance(node, Scalar):
        return node.value
    raise _invalid(node, "a string")


def _choice(node: Node, kind: Kind) -> Any:
    values = cast("kinds.Choice", kind).values
    if isinstance(node, Scalar) and node.value in values:
        return node.value
    hint = nearest(str(node.value), values) if isinstance(node, Scalar) else None
    raise _invalid(node, one_of(values), hint)


def _whole(node: Node, kind: Kind) -> Any:
    bounds = cast("kinds.Int", kind)
    value = to_python(node)
    if type(value) is int and bounds.low <= value <= bounds.high:
        return value
    raise _invalid(node, f"an integer from {bounds.low} to {bounds.high}", _unquote(node))


def _decimal(node: Node, kind: Kind) -> Any:
    bounds = cast("kinds.Decimal", kind)
    value = to_python(node)
    if type(value) in (int, float) and bounds.low <= value <= bounds.high:
        return value
    raise _invalid(node, bounds.allowed, _unquote(node))


def _unquote(node: Node) -> str | None:
    """The hint for a number in quotes."""
    number = isinstance(node, Scalar) and node.quoted and _NUMBER.fullmatch(str(node.value))
    return "Remove the quotes." if number else None


def _flag(node: Node, kind: Kind) -> Any:
    value = to_python(node)
    if isinstance(value, bool):
        return value
    raise _invalid(node, "true or false", "In YAML 1.2, yes and on are strings.")


def _strings(node: Node, kind: Kind) -> Any:
    """A list of strings. A single string may be written without a list."""
    if isinstance(node, Scalar):
        return [node.value]
    if isinstance(node, SequenceNode) and all(
        isinstance(item, Scalar) and item.value is not None for item in node.items
    ):
        return as_written(node)
    raise _invalid(node, "a list of strings")


def _command(node: Node, kind: Kind) -> Any:
    return node.value if isinstance(node, Scalar) else _strings(node, kind)


def _labels(node: Node, kind: Kind) -> Any:
    return to_python(_checked_mapping(node))


def _checked_mapping(node: Node) -> MappingNode:
    if isinstance(node, MappingNode):
        return node
    raise _invalid(node, "a mapping")


def _variables(node: Node, kind: Kind) -> Any:
    if isinstance(node, MappingNode) and all(isinstance(v, Scalar) and v.value is not None for _, v in node.entries):
        return as_written(node)
    allowed = "a mapping of names to strings"  # the invalid value may be a secret, and is not repeated
    raise InvalidInput(f"must be {allowed}", allowed=allowed, hint="For example: {KEY: env:KEY}.")


def _target(node: Node, kind: Kind) -> Any:
    if isinstance(node, SequenceNode):
        raise _invalid(node, "a word or a mapping", "Use fresh, or {kind: channel, channel: C07}.")
    return as_written(node)


def _windows(node: Node, kind: Kind) -> Any:
    return as_written(node) if isinstance(node, SequenceNode) else [as_written(node)]


def _records(node: Node, kind: Kind) -> Any:
    """A list of mappings. Settings of records are read by their kinds; a wrong one names its place."""
    records = cast("kinds.Records", kind)
    if not isinstance(node, SequenceNode) or not all(isinstance(item, MappingNode) for item in node.items):
        raise _invalid(node, "a list of mappings", "- title: Build")
    return [_record(cast("MappingNode", item), records, number) for number, item in enumerate(node.items, 1)]


def _record(node: MappingNode, kind: kinds.Records, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    table, spellings = settings_of(kind.record), dict(kind.spellings)
    for key, value in node.entries:
        name = str(as_written(key))
        declared = table.get(spellings.get(name, name))
        try:
            found[name] = as_written(value) if declared is None else read_node(value, declared.kind)
        except InvalidInput as error:
            error.field = f"[{number}].{name}"
            error.hint = error.hint or (default_hint(declared) if declared else None)
            raise
    return own_names(kind, f"{kind.one.capitalize()} {number}", found)


def _pause(node: Node, kind: Kind) -> Any:
    value = to_python(node)
    if isinstance(value, bool):
        return value
    if isinstance(node, Scalar):
        return node.value
    raise _invalid(node, "true, false, or a text that gives the reason")


def _json(node: Node, kind: Kind) -> Any:
    """Any value. What YAML reads as NaN or an infinity would silently be a text."""
    if (number := not_finite(node)) is not None:
        message = f"must be a JSON value, and JSON has no {number.value} (line {number.position.line})"
        raise InvalidInput(message, value=number.value, allowed="a JSON value", hint=_QUOTE.format(number.value))
    return to_python(node)


def _options(node: Node, kind: Kind) -> Any:
    return _json(_checked_mapping(node), kind)


def _invalid(node: Node, allowed: str, hint: str | None = None) -> InvalidInput:
    value = (
        preview_of(to_python(node))
        if isinstance(node, Scalar)
        else "a list"
        if isinstance(node, SequenceNode)
        else "a mapping"
    )
    return InvalidInput(f"must be {allowed}, not {value}", value=value, allowed=allowed, hint=hint)


READ: Mapping[type[Kind], Callable[[Node, Kind], Any]] = {
    **dict.fromkeys(
        (
            kinds.Text, kinds.Template, kinds.Name, kinds.Duration, kinds.Size, kinds.Instant, kinds.Zone, kinds.Money,
            kinds.Tokens, kinds.Secret, kinds.Url,
        ),
        _text,
    ),
    **dict.fromkeys((kinds.Names, kinds.Arguments), _strings),
    kinds.Choice: _choice,
    kinds.Flag: _flag,
    kinds.Int: _whole,
    kinds.Decimal: _decimal,
    kinds.Command: _command,
    kinds.Variables: _variables,
    kinds.Target: _target,
    kinds.Windows: _windows,
    kinds.Labels: _labels,
    kinds.Options: _options,
    kinds.Json: _json,
    kinds.Calls: _json,
    kinds.Records: _records,
    kinds.Pause: _pause,
}  # fmt: skip
