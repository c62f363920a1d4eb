"""Checks of values that people give. Each error contains the problem, the value and what to type instead."""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any, TypeGuard, cast
from uuid import UUID

import orjson

from matins.errors import Example, InvalidInput
from matins.model.destination import NOBODY
from matins.model.settings import MAX_NAME_LENGTH
from matins.model.words import has_hidden

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""A NUL, or half of a UTF-16 pair: no database stores them."""
_MAX_SHOWN = 10**15
_MAX_ITEMS = 3


def check_json(field: str, value: Any) -> bytes:
    """The value as JSON. Raises InvalidInput for one that would come back as something else: a datetime as text, a
    tuple as a list."""
    try:
        text = orjson.dumps(value)
        same = orjson.loads(text) == value
        problem = None if same else ValueError("it would come back as something else")
    except (TypeError, ValueError, RecursionError) as error:
        text, problem = b"", error
    if problem is None:
        return text
    try:
        found = next(_not_json(value, field), None)
    except RecursionError:
        found = None
    if found is None:
        raise invalid(field, value, f"a JSON value ({problem})")
    what, other = found
    kind = cast("type[object]", type(other))
    hint = _AS_JSON.get(kind, "Use text, numbers, true, false, null, lists, and mappings with text as keys.")
    message = f'"{field}" contains {what}, which JSON does not have.'
    raise InvalidInput(message, value=other, field=field, hint=hint)


_AS_JSON: dict[type, str] = {
    tuple: "Use a list.",
    set: "Use a list.",
    frozenset: "Use a list.",
    datetime: "Use text: value.isoformat().",
    date: "Use text: value.isoformat().",
    UUID: "Use text: str(value).",
    Decimal: "Use text: str(value).",
}


def _not_json(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The parts that JSON does not have, each with what and where it is."""
    if type(value) is dict:
        for key, item in cast("dict[Any, Any]", value).items():
            if isinstance(key, str):
                yield from _not_json(item, f"{path}.{key}")
            else:
                yield f"the key {reprlib.repr(key)} in {path}", key
    elif type(value) is list:
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _not_json(item, f"{path}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{value} at {path}", value
    elif not isinstance(value, (str, int, float, NoneType)):
        yield f"a value of type {type(value).__name__} at {path}", value


def check_names_known(owner: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise for the first unknown name. `owner` is the subject of the error: "A budget"."""
    for name in names:
        if name not in known:
            name = str(name)  # a key of a dictionary may be any value
            raise InvalidInput(f'{owner} has no setting "{name}".', value=name, field=name, hint=nearest(name, known))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the closest known name, or with all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f'Did you mean "{close[0]}"?' if close else f"Known: {', '.join(known) or 'none'}."


DAYS = re.compile(r"((?:[0-9]{4}-)?[0-9]{2}-[0-9]{2})(?:\.\.((?:[0-9]{4}-)?[0-9]{2}-[0-9]{2}))?")
"""A day or a range of days, beside the names of calendars."""


def referred_names(value: object) -> tuple[str, ...]:
    """The names of other records in the value of a setting: one, a list, or none. In a list, "none" is no name, and
    neither is a day."""
    if isinstance(value, str):
        return (value,)
    return tuple(
        name for name in items_of(value) if isinstance(name, str) and name != NOBODY and not DAYS.fullmatch(name)
    )


def is_name(name: object) -> TypeGuard[str]:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME_LENGTH:
        return False
    return name.isprintable() and (name.isascii() or not has_hidden(name))


def check_name(field: str, name: object, example: str | None = None) -> str:
    if is_name(name):
        return name
    allowed = f"text of 1 to {MAX_NAME_LENGTH} printable characters"
    raise invalid(field, name, allowed, hint=Example({field: example}) if example else None)


def check_strings(
    field: str, value: object, allowed: str = "a list of strings", example: Sequence[str] = ()
) -> tuple[str, ...]:
    """A list of at least one string, none blank and none that no store takes."""
    strings = [
        item for item in items_of(value) if isinstance(item, str) and item.strip() and not UNSTORABLE.search(item)
    ]
    if not strings or len(strings) != len(items_of(value)):
        meant = [value] if isinstance(value, str) and is_name(value) else example
        raise invalid(field, value, allowed, hint=Example({field: list(meant)}) if meant else None)
    return tuple(strings)


def items_of(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, (list, tuple)) else []


def check_number(field: str, value: object, low: int, high: int) -> int:
    if type(value) is int and low <= value <= high:
        return value
    raise invalid(field, value, f"an integer from {low} to {high}")


def check_choice(field: str, value: Any, choices: Collection[str]) -> Any:
    if isinstance(value, str) and value in choices:
        return value
    close = difflib.get_close_matches(value, list(choices), n=1) if isinstance(value, str) else []
    hint = f'Did you mean "{close[0]}"?' if close else None
    raise invalid(field, value, one_of(choices), hint=hint)


def one_of(choices: Collection[str]) -> str:
    """`skip, queue or allow`."""
    *some, last = choices
    return f"{', '.join(some)} or {last}" if some else last


def invalid(field: str, value: object, allowed: str, hint: str | None = None) -> InvalidInput:
    message = f'"{field}" must be {allowed}, not {preview_of(value)}.'
    return InvalidInput(message, value=value, field=field, allowed=allowed, hint=hint)


def preview_of(value: object) -> str:
    """A short form of any value. Python itself refuses to write a number of thousands of digits."""
    if isinstance(value, int) and abs(value) > _MAX_SHOWN:
        return "a number that is too large"
    if isinstance(value, (list, tuple)):
        items = items_of(cast("object", value))
        if not items:
            return "an empty list"
        shown = [preview_of(item) if _simple(item) else f"a {type(item).__name__}" for item in items[:_MAX_ITEMS]]
        return f"[{', '.join([*shown, '…'] if len(items) > _MAX_ITEMS else shown)}]"
    return reprlib.repr(value) if _simple(value) else f"a value of type {type(value).__name__}"


def _simple(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))


_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN_LABELS = ("host", "os", "job", "runner", "agent", "session", "not_on", "outside")
"""What Matins says of a node. Other labels with a colon are connections: `temporal:main`."""
_LABEL_TEXT = "1 to 64 letters, digits, dots, hyphens or underscores"


def check_labels(field: str, labels: Sequence[str]) -> tuple[str, ...]:
    """The labels of a node, or those that runs need."""
    for label in labels:
        kind, colon, name = label.partition(":")
        outside = bool(colon) and field == "runs_on" and kind not in _OWN_LABELS and _LABEL.fullmatch(kind)
        if not _LABEL.fullmatch(name if outside else label):
            raise invalid(field, label, f"a label of {_LABEL_TEXT}", hint=Example({field: ["gpu"]}))
    return tuple(labels)


def check_node_name(field: str, name: object) -> str:
    if isinstance(name, str) and _LABEL.fullmatch(name):
        return name
    raise InvalidInput(
        f'"{field}" is not the name of a node.',
        value=name,
        field=field,
        hint=f"A node has a name of {_LABEL_TEXT}: build-1.",
    )
