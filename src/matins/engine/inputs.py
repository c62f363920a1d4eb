"""Inputs of runs: what is given to one run, over the payload of its schedule.

Prompts have them as `{{input.days}}`, jobs as their payload, processes as `INPUT_DAYS` and `MATINS_INPUT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, cast

import orjson

from matins.engine.calls import mapping_of
from matins.engine.validation import check_json
from matins.errors import InvalidInput
from matins.model.run import Given

MAX_INPUT_BYTES = 65_536
_MAX_VARIABLES_BYTES = 120_000
"""A process cannot have a larger variable. Only a payload can be larger, which jobs get another way."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def check_input(value: Any) -> None:
    """Raise unless a store can hold the input of a run, and a process can have it."""
    try:
        size = len(check_json("input", value))
    except InvalidInput as error:
        error.hint = error.hint or "Use text of Unicode characters, and at most 250 levels of lists and mappings."
        raise
    if size > MAX_INPUT_BYTES:
        allowed = f"at most {MAX_INPUT_BYTES:,} bytes as JSON"
        hint = "Put large data into a file, and give its path."
        raise InvalidInput(f'"input" must be {allowed}, not {size:,}.', field="input", allowed=allowed, hint=hint)
    for where, text in _texts(value, "input"):
        if "\0" in text:
            raise InvalidInput(f'"{where}" contains a NUL.', value=text[:60], field=where, hint="Remove it.")
    taken: dict[str, str] = {}
    for name in mapping_of(value):
        variable = variable_of(name)
        if variable is not None and taken.setdefault(variable, name) != name:
            message = f'The inputs "{taken[variable]}" and "{name}" are both ${variable}.'
            raise InvalidInput(message, value=name, field=f"input.{name}", hint="Give one of them another name.")


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """The texts of a JSON value, each with its place."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _texts(item, f"{where}[{number}]")
    elif isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield where, name
            yield from _texts(item, f"{where}.{name}")


def merged(payload: Any, given: Any) -> Any:
    """The payload with what was given in its place: key by key if both have keys, else the whole."""
    if given is None:
        return payload
    if isinstance(given, dict) and (payload is None or isinstance(payload, dict)):
        return {**mapping_of(payload), **mapping_of(given)}
    return cast("Any", given)


def variable_of(name: str) -> str | None:
    """The environment variable of an input; None for a name that cannot be one."""
    return f"INPUT_{name.upper().replace('-', '_')}" if _NAME.fullmatch(name) else None


def variables_of(value: Any) -> dict[str, str]:
    """The environment variables of an input: one for each name, and all of it as JSON."""
    if value is None:
        return {}
    whole = orjson.dumps(value)
    if len(whole) > _MAX_VARIABLES_BYTES:
        return {}
    found = {"MATINS_INPUT": whole.decode()}
    for name, item in mapping_of(value).items():
        variable, text = variable_of(name), text_of(item)
        if variable is not None and "\0" not in text:
            found.setdefault(variable, text)
    return found


def text_of(value: Any) -> str:
    """A value as prompts and processes have it: text as it is, null as nothing, all else as JSON."""
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


def encode_given(given: Given) -> str | None:
    """The stored form; None if nothing was given."""
    held = {name: value for name, value in given._asdict().items() if value not in (None, (), {})}
    if given.input is not None:
        held["input"] = given.input
    return orjson.dumps(held).decode() if held else None


def decode_given(text: str) -> Given:
    held: dict[str, Any] = orjson.loads(text)
    return Given(held.get("input"), tuple(held.get("fenced", ())), held.get("prompts", {}))


def given_digest(text: str) -> str:
    """What events say of what a run was given: it may be private, and proves which input it was."""
    return sha256(text.encode()).hexdigest()
