"""Selectors, from text and to text, and whether one selects a schedule.

`agent=claude label.team=ops state=active report-*`: terms are joined by AND; a bare word is a name; a comma joins
values by OR; `!=` is the opposite; `*` is any text, unless it is quoted; `label.team` alone is having that label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import get_args

from matins.engine.validation import UNSTORABLE, nearest
from matins.errors import InvalidInput
from matins.model.schedule import ScheduleState
from matins.model.selector import ALL, ANY, KEYS, LABEL, PLAIN_KEYS, Selectable, Selector, Term, Value

MAX_LENGTH = 20_000
MAX_VALUES = 500
"""All values of a selector together."""
STATES = tuple(state for state in get_args(ScheduleState) if state != "removed")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s,"]+)')
_KEY = re.compile(r"([A-Za-z]+(?:\.(?:\"(?:[^\"\\]|\\.)*\"|[^\s=!,\"]+))?)(!?=|(?=\s|$))")
_HINT = 'For example: "agent=claude label.team=ops state=active report-*".'


def parse_selector(text: str, field: str = "select") -> Selector:
    """The selector that a text says; `all`, and an empty text, are all schedules."""
    if len(text) > MAX_LENGTH:
        message = f'"{field}" is longer than {MAX_LENGTH:,} characters.'
        raise InvalidInput(message, value=text[:60], field=field, hint="Use a pattern or a label.")
    if UNSTORABLE.search(text):
        raise InvalidInput(f'"{field}" contains a character that no name has.', value=text, field=field, hint=_HINT)
    return _parsed(text, field)


@lru_cache(maxsize=256)
def _parsed(text: str, field: str) -> Selector:
    terms = tuple(_terms(text, field))
    if sum(len(term.values) for term in terms) > MAX_VALUES:
        message = f'"{field}" has more than {MAX_VALUES} values.'
        raise InvalidInput(message, value=text[:60], field=field, hint="Use a pattern or a label.")
    return Selector(terms) if terms else ALL


_EVERYTHING = "all"


def _terms(text: str, field: str) -> Iterator[Term]:
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        key, negated, at = _key(text, at, field)
        if key is None:
            begin = at
            values, at = _values(text, at, field)
            if text[begin:at] != _EVERYTHING:
                yield Term("name", values)
        elif text[at - 1] != "=":  # a label alone
            yield Term(key, (Value(ANY, exact=False),))
        else:
            values, at = _values(text, at, field)
            _check_values(key, values, field)
            yield Term(key, values, negated)


def _key(text: str, at: int, field: str) -> tuple[str | None, bool, int]:
    """The key before `=`, whether it is negated, and where the values begin; no key for a bare word."""
    found = _key_at(text, at)
    if found is None:
        return None, False, at
    word = found[1]
    if word.startswith(LABEL) and (label := _unquoted(word.removeprefix(LABEL))):
        return LABEL + label, found[2] == "!=", found.end()
    if word in PLAIN_KEYS:
        return word, found[2] == "!=", found.end()
    rest = text[found.end() :].split()
    value = rest[0] if rest else "VALUE"
    hint = f"For a label: {LABEL}{word}{found[2]}{value}" if "." not in word else nearest(word, KEYS)
    close = nearest(word, PLAIN_KEYS)
    hint = close if close.startswith("Did") else hint
    message = f'"{word}" is nothing that a selector knows.'
    raise InvalidInput(message, value=word, field=field, allowed=", ".join(KEYS), hint=hint)


def _key_at(text: str, at: int = 0) -> re.Match[str] | None:
    found = _KEY.match(text, at)
    return found if found is not None and (found[2] or found[1].startswith(LABEL)) else None


def _values(text: str, at: int, field: str) -> tuple[tuple[Value, ...], int]:
    values: list[Value] = []
    while True:
        found = _QUOTED.match(text, at)
        if found is None:
            message = f'"{field}" lacks a value at {text[at : at + 20]!r}.' if at < len(text) else (
                f'"{field}" ends before a value.'
            )  # fmt: skip
            raise InvalidInput(message, value=text, field=field, hint=_HINT)
        if found[1] is None:
            values.append(Value(found[2], exact=ANY not in found[2]))
        else:
            values.append(Value(re.sub(r"\\(.)", r"\1", found[1])))
        at = found.end()
        if text[at : at + 1] != ",":
            if at < len(text) and not text[at].isspace():
                message = f'"{field}" needs a space at {text[at : at + 20]!r}.'
                raise InvalidInput(message, value=text, field=field, hint=_HINT)
            return tuple(values), at
        at += 1


def _check_values(key: str, values: Iterable[Value], field: str) -> None:
    for value in values:
        if key == "state" and value.exact and value.text not in STATES:
            message = f'"{value.text}" is not a state of schedules.'
            hint = nearest(value.text, STATES)
            raise InvalidInput(message, value=value.text, field=field, allowed=", ".join(STATES), hint=hint)


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word


def format_selector(selector: Selector) -> str:
    """The text that parses to this selector."""
    return " ".join(_term_text(term) for term in selector.terms) or "all"


def _term_text(term: Term) -> str:
    values = ",".join(_value_text(value) for value in term.values)
    key = term.key
    if key.startswith(LABEL):
        key = LABEL + _value_text(Value(key.removeprefix(LABEL)), reserved="=!")
        if term.values == (Value(ANY, exact=False),) and not term.negated:
            return key
    elif key == "name" and not term.negated and values != _EVERYTHING and _key_at(values) is None:
        return values
    return f"{key}{'!=' if term.negated else '='}{values}"


def _value_text(value: Value, reserved: str = "") -> str:
    plain = value.text and not any(sign.isspace() or sign in f',"{reserved}' for sign in value.text)
    if not value.exact or (plain and ANY not in value.text):
        return value.text
    escaped = value.text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def selector_text(
    names: Iterable[str] = (), *, agent: str | None = None, labels: Iterable[str] = (), state: str | None = None,
    text: str | None = None,
) -> str | None:  # fmt: skip
    """The text of a selector for what commands and pages ask for; None where they ask for nothing. A label is
    `team=ops`, or `team` for having it."""
    named = tuple(Value(name, exact=ANY not in name) for name in names)
    terms = [Term("name", named)] if named else []
    exact = (("agent", agent), ("state", state), ("text", text))
    terms += [Term(key, (Value(value),)) for key, value in exact if value is not None]
    terms += [_label_term(label) for label in labels]
    return format_selector(Selector(tuple(terms))) if terms else None


def _label_term(text: str) -> Term:
    """The term of `team=ops`, as it is written after a word that says label."""
    key, equals, value = text.partition("=")
    if not key or (equals and not value):
        hint = "For example: team=ops, or team for any value."
        raise InvalidInput(f'"{text}" is not a label.', value=text, field="label", hint=hint)
    found = Value(value, exact=ANY not in value) if equals else Value(ANY, exact=False)
    return Term(LABEL + key, (found,))


def selects(selector: Selector, schedule: Selectable) -> bool:
    """Whether the selector selects a schedule. The statements of the stores decide as this does."""
    return all(_matches(term, schedule) != term.negated for term in selector.terms)


def _matches(term: Term, schedule: Selectable) -> bool:
    return any(_one(term.key, value, schedule) for value in term.values)


def _one(key: str, value: Value, schedule: Selectable) -> bool:
    if key == "text":
        return value.text.lower() in schedule.text
    if key == "name":
        whole = f"{schedule.agent}/{schedule.name}"
        return _like(value, schedule.name) or ("/" in value.text and _like(value, whole))
    if key.startswith(LABEL):
        return _like(value, schedule.labels.get(key.removeprefix(LABEL)))
    return _like(value, {"agent": schedule.agent, "state": schedule.state, "pause": schedule.pause}[key])


def _like(value: Value, text: str | None) -> bool:
    if text is None:
        return False
    return text == value.text if value.exact else fnmatchcase(text, value.text.translate(_PLAIN))


_PLAIN = str.maketrans({"?": "[?]", "[": "[[]"})


def label_of(labels: Mapping[str, str] | None, text: str) -> bool:
    """Whether these labels have `team=ops`."""
    key, _, value = text.partition("=")
    return (labels or {}).get(key) == value
