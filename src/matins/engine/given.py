"""Checks of what people give, each with an error that says how to mend it."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Collection, Iterable
from typing import Any, TypeGuard, cast

from matins.errors import InvalidInput

LONGEST_NAME = 200
_MOST_SHOWN = 10**15


def check_words(owner: str, words: Iterable[str], known: Collection[str]) -> None:
    """`owner` is what the words describe: "A budget"."""
    for word in words:
        if word not in known:
            word = str(word)  # in a dictionary it may be anything
            close = difflib.get_close_matches(word, known, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(known)}"
            raise InvalidInput(f'{owner} has no "{word}"', value=word, field=word, hint=hint)


def is_name(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and bool(name.strip()) and name.isprintable() and len(name) <= LONGEST_NAME


def check_name(field: str, name: object, example: str | None = None) -> str:
    if is_name(name):
        return name
    allowed = f"a text of 1 to {LONGEST_NAME} printable characters"
    message = f'"{field}" must be {allowed}, got {shown(name)}'
    hint = f'{field}="{example}"' if example else None
    raise InvalidInput(message, value=name, field=field, allowed=allowed, hint=hint)


def check_texts(field: str, value: object, allowed: str = "a list of texts") -> tuple[str, ...]:
    """A list of at least one text; none of them blank, none with a NUL."""
    texts = [item for item in _items(value) if isinstance(item, str) and item.strip() and "\0" not in item]
    if not texts or len(texts) != len(_items(value)):
        raise wrong(field, value, allowed)
    return tuple(texts)


def _items(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, (list, tuple)) else []


def check_number(field: str, value: object, low: int, high: int) -> int:
    if type(value) is int and low <= value <= high:
        return value
    raise wrong(field, value, f"a whole number from {low} to {high}")


def check_choice(field: str, value: Any, choices: Collection[str]) -> Any:
    if isinstance(value, str) and value in choices:
        return value
    raise wrong(field, value, " or ".join(choices), hint=f'{field}="{next(iter(choices))}"')


def wrong(field: str, value: object, allowed: str, hint: str | None = None) -> InvalidInput:
    message = f'"{field}" must be {allowed}, got {shown(value)}'
    return InvalidInput(message, value=value, field=field, allowed=allowed, hint=hint)


def shown(value: object) -> str:
    """Short, whatever it is; Python itself refuses to write a number of thousands of digits."""
    if isinstance(value, int) and abs(value) > _MOST_SHOWN:
        return "a number that is too large"
    simple = value is None or isinstance(value, (str, int, float))
    return reprlib.repr(value) if simple else f"something of type {type(value).__name__}"
