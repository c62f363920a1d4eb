"""One value of the file, by the shape that its word asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matins.config.problems import nearest
from matins.config.words import Shape, Word
from matins.engine.given import shown
from matins.errors import InvalidInput
from matins.texts.yaml_nodes import Entries, Items, Node, Scalar, meant


def value_of(node: Node, word: Word) -> Any:
    """None where nothing stands; InvalidInput, without a place, where it has another shape."""
    if isinstance(node, Scalar) and node.value is None:
        return None
    return _READERS[word.shape](node, word)


def as_written(node: Node) -> Any:
    """Nothing is taken for a number."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [as_written(item) for item in node.items]
        case Entries():
            return {as_written(key): as_written(value) for key, value in node.entries}


def _text(node: Node, word: Word) -> Any:
    if isinstance(node, Scalar):
        return node.value
    raise _wrong(node, "a text")


def _choice(node: Node, word: Word) -> Any:
    if isinstance(node, Scalar) and node.value in word.choices:
        return node.value
    allowed = " or ".join(word.choices)
    hint = nearest(str(node.value), word.choices) if isinstance(node, Scalar) else None
    raise _wrong(node, allowed, hint)


def _number(node: Node, word: Word) -> Any:
    value = meant(node)
    low, high = word.low, word.high
    kinds = (int,) if word.shape == "number" else (int, float)
    fits = type(value) in kinds and (low is None or value >= low) and (high is None or value <= high)
    if fits:
        return value
    what = "a whole number" if word.shape == "number" else "a number"
    bounds = f" from {low:g} to {high:g}" if low is not None and high is not None else ""
    quoted = isinstance(node, Scalar) and node.quoted
    raise _wrong(node, f"{what}{bounds}", "without quotes" if quoted else None)


def _truth(node: Node, word: Word) -> Any:
    value = meant(node)
    if isinstance(value, bool):
        return value
    raise _wrong(node, "true or false", "YAML 1.2 knows true and false; yes and on are texts")


def _texts(node: Node, word: Word) -> Any:
    """One alone may stand without a list."""
    if isinstance(node, Scalar):
        return [node.value]
    if isinstance(node, Items) and all(isinstance(item, Scalar) and item.value is not None for item in node.items):
        return as_written(node)
    raise _wrong(node, "a list of texts")


def _command(node: Node, word: Word) -> Any:
    return node.value if isinstance(node, Scalar) else _texts(node, word)


def _mapping(node: Node, word: Word) -> Any:
    if isinstance(node, Entries):
        return meant(node)
    raise _wrong(node, "a mapping")


def _variables(node: Node, word: Word) -> Any:
    if isinstance(node, Entries) and all(isinstance(v, Scalar) and v.value is not None for _, v in node.entries):
        return as_written(node)
    allowed = "a mapping of names to texts"  # what stands there instead may be a secret, and is not repeated
    raise InvalidInput(f"must be {allowed}", allowed=allowed, hint="environment: {KEY: env:KEY}")


def _target(node: Node, word: Word) -> Any:
    if isinstance(node, Items):
        raise _wrong(node, "a word or a mapping", "target: fresh, or {kind: channel, channel: C07}")
    return as_written(node)


def _windows(node: Node, word: Word) -> Any:
    return as_written(node) if isinstance(node, Items) else [as_written(node)]


def _pause(node: Node, word: Word) -> Any:
    value = meant(node)
    if isinstance(value, bool):
        return value
    if isinstance(node, Scalar):
        return node.value
    raise _wrong(node, "true, false, or a text that says why")


def _anything(node: Node, word: Word) -> Any:
    return meant(node)


def _wrong(node: Node, allowed: str, hint: str | None = None) -> InvalidInput:
    value = shown(meant(node)) if isinstance(node, Scalar) else "a list" if isinstance(node, Items) else "a mapping"
    return InvalidInput(f"must be {allowed}, got {value}", value=value, allowed=allowed, hint=hint)


_READERS: dict[Shape, Callable[[Node, Word], Any]] = {
    "text": _text,
    "duration": _text,
    "amount": _text,
    "number": _number,
    "decimal": _number,
    "truth": _truth,
    "choice": _choice,
    "texts": _texts,
    "command": _command,
    "mapping": _mapping,
    "variables": _variables,
    "target": _target,
    "windows": _windows,
    "pause": _pause,
    "anything": _anything,
}
