"""Inputs of runs: what is given to one run, over the payload of its schedule.

Prompts have them as `{{input.days}}`, jobs as their payload, processes as `INPUT_DAYS` and `MATINS_INPUT`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from typing import Any, cast, get_args

import orjson

from matins.engine.calls import mapping_of
from matins.engine.validation import check_choice, check_json, check_names_known, check_strings, invalid, nearest
from matins.errors import Example, InvalidInput
from matins.model.run import Given
from matins.model.schedule import Input, InputType
from matins.model.words import has_hidden

MAX_INPUT_BYTES = 65_536
_MAX_VARIABLES_BYTES = 120_000
"""A process cannot have a larger variable. Only a payload can be larger, which jobs get another way."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


_FIELDS = ("type", "values", "default", "required", "description")
_BOOLS = {"true": True, "yes": True, "false": False, "no": False}
_MAX_INPUTS, _MAX_VALUES, _MAX_DESCRIPTION = 50, 100, 200
_MAX_INTEGER = 1 << 63
_EXPECTED: Mapping[str, tuple[str, str]] = {
    "text": ("text", '"api"'), "bool": ("true or false", "true"), "int": ("an integer", "30"),
    "number": ("a number", "1.5"), "date": ("a date such as 2026-12-31", "2026-12-31"),
}  # fmt: skip
_FREE: tuple[InputType, ...] = ("text", "json")
"""Types whose values may hold any words."""


def parse_declared(value: Any, field: str = "inputs") -> tuple[Input, ...]:
    """The declared inputs, by name: `{type: choice, values: [api, web], default: api}`, or a default alone."""
    if not isinstance(value, dict) or not 1 <= len(cast("dict[Any, Any]", value)) <= _MAX_INPUTS:
        raise invalid(field, cast("object", value), f"a mapping of 1 to {_MAX_INPUTS} names to types or defaults")
    check_json(field, value)
    found, taken = list[Input](), dict[str | None, str]()
    for name, given in cast("dict[str, Any]", value).items():
        variable, place = variable_of(name), f"{field}.{name}"
        if variable is None:
            hint = "Use letters, digits, _ and -, and begin with a letter."
            raise InvalidInput(f'"{name[:60]}" cannot be the name of an input.', value=name, field=field, hint=hint)
        if (other := taken.setdefault(variable, name)) != name:
            message = f'The inputs "{other}" and "{name}" are both ${variable}.'
            raise InvalidInput(message, value=name, field=place, hint="Give one of them another name.")
        one = _declared(name, mapping_of(given), place) if isinstance(given, dict) else _alone(name, given, place)
        found.append(one)
    return tuple(found)


def declared_in(settings: Mapping[str, Any]) -> tuple[Input, ...]:
    """The inputs that the settings of a schedule declare, as people write them."""
    return parse_declared(settings["inputs"]) if settings.get("inputs") else ()


def _alone(name: str, value: Any, place: str) -> Input:
    types: dict[type, InputType] = {bool: "bool", int: "int", float: "number", str: "text", list: "json"}
    if type(value) not in types:
        raise invalid(place, value, "a default, or a mapping with its type", hint=Example({"inputs": {name: 7}}))
    return Input(name, types[type(value)], value, required=False)


def _declared(name: str, given: Mapping[str, Any], place: str) -> Input:
    check_names_known(f'The input "{name}"', given, _FIELDS)
    kind = check_choice(f"{place}.type", given.get("type", "text"), get_args(InputType))
    values = given.get("values")
    if (kind == "choice") != (values is not None):
        message = f'"{place}" needs "values".' if kind == "choice" else f'"{place}.values" is only for a choice.'
        hint = Example({"inputs": {name: {"type": "choice", "values": ["api", "web"]}}})
        raise InvalidInput(message, value=name, field=f"{place}.values", hint=hint)
    choices = () if values is None else check_strings(f"{place}.values", values, "a list of texts")
    if len(choices) > _MAX_VALUES or len(set(choices)) != len(choices):
        raise invalid(f"{place}.values", values, f"a list of at most {_MAX_VALUES} different texts")
    description, required = given.get("description", ""), given.get("required")
    if not isinstance(description, str) or len(description) > _MAX_DESCRIPTION or has_hidden(description):
        raise invalid(f"{place}.description", description, f"text of at most {_MAX_DESCRIPTION} printable characters")
    if required not in (None, True, False):
        raise invalid(f"{place}.required", required, "true or false")
    one = Input(name, kind, None, required is not False, choices, description)
    if given.get("default") is None:
        return one
    if required:
        hint = 'Omit one of "required" and "default".'
        raise InvalidInput(f'"{place}" is required, and has a default.', value=name, field=place, hint=hint)
    return one._replace(default=read_value(one, given["default"], f"{place}.default"), required=False)


def read_value(one: Input, value: Any, field: str) -> Any:
    """A value for a declared input. Surfaces for people pass texts, also for numbers."""
    match one.type:
        case "choice":
            return check_choice(field, value, one.values)
        case "json":
            return value
        case "text" if isinstance(value, str):
            return value
        case "bool" if isinstance(value, bool) or (isinstance(value, str) and value.lower() in _BOOLS):
            return value if isinstance(value, bool) else _BOOLS[value.lower()]
        case "int" if (number := _number(value, int)) is not None and -_MAX_INTEGER <= number < _MAX_INTEGER:
            return number
        case "number" if (number := _number(value, float)) is not None and math.isfinite(number):
            return number
        case "date" if isinstance(value, str) and _DATE.fullmatch(value) and _is_date(value):
            return value
        case _:
            allowed, example = _EXPECTED[one.type]
            raise invalid(field, value, allowed, hint=f"For example: {example}.")


def _number(value: Any, kind: type[int] | type[float]) -> int | float | None:
    if isinstance(value, str):
        try:
            return kind(value)
        except ValueError:
            return None
    allowed = int if kind is int else (int, float)
    return value if isinstance(value, allowed) and not isinstance(value, bool) else None


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def format_declared(value: tuple[Input, ...]) -> dict[str, Any]:
    """The declaration as people write it: a default alone where it says the type."""
    found: dict[str, Any] = {}
    for one in value:
        written = {"type": one.type, "values": list(one.values), "default": one.default,
                   "description": one.description}  # fmt: skip
        if not one.required and one.default is None:
            written["required"] = False
        written = {name: item for name, item in written.items() if item not in ([], None, "")}
        default: Any = one.default
        alone = set(written) == {"type", "default"} and not isinstance(default, dict)
        found[one.name] = default if alone and _alone(one.name, default, one.name) == one else written
    return found


def with_defaults(inputs: Iterable[Input], payload: Any) -> Any:
    """The input of a run that is given nothing: the defaults, and the payload over them."""
    defaults = {one.name: one.default for one in inputs if not one.required}
    return merged(defaults, payload) if defaults else payload


def check_payload(inputs: Sequence[Input], payload: Any) -> None:
    """Raise unless the payload fits the declared inputs. Further names are the job's, and no run changes them."""
    if payload is not None and not isinstance(payload, dict):
        hint = 'Omit "inputs", or give a mapping.'
        raise InvalidInput('"payload" must be a mapping beside "inputs".', field="payload", hint=hint)
    given = mapping_of(payload)
    for one in inputs:
        if one.name in given and read_value(one, given[one.name], f"payload.{one.name}") != given[one.name]:
            allowed, example = _EXPECTED[one.type]
            raise invalid(f"payload.{one.name}", given[one.name], allowed, hint=f"For example: {example}.")


def read_given(schedule: str, inputs: Sequence[Input], payload: Any, value: Any) -> dict[str, Any]:
    """What a run is given, by the declared inputs. Raises for unknown names, wrong types, and what is missing."""
    if value is not None and not isinstance(value, dict):
        raise invalid("input", value, "a mapping", hint=Example({"input": {inputs[0].name: "…"}}))
    given = {name: item for name, item in mapping_of(value).items() if item is not None}
    known = {one.name: one for one in inputs}
    for name in given:
        if name not in known:
            hint = nearest(name, known)
            raise InvalidInput(f'"{schedule}" has no input "{name}".', value=name, field=f"input.{name}", hint=hint)
    for one in inputs:
        if one.required and one.name not in given and one.name not in mapping_of(payload):
            message = f'"{schedule}" needs the input "{one.name}".'
            hint = Example({"input": {one.name: one.values[0] if one.values else "…"}})
            raise InvalidInput(message, value=one.name, field=f"input.{one.name}", hint=hint)
    return {name: read_value(known[name], item, f"input.{name}") for name, item in given.items()}


def free_texts(inputs: Iterable[Input], given: Any) -> tuple[str, ...]:
    """The names of what was given that may hold any words: texts and JSON, no numbers, dates and choices."""
    types = {one.name: one.type for one in inputs}
    return tuple(name for name in mapping_of(given) if types.get(name, "json") in _FREE)


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
    prompts, model, effort = held.get("prompts", {}), held.get("model"), held.get("effort")
    return Given(held.get("input"), tuple(held.get("fenced", ())), prompts, model, effort)


def given_digest(text: str) -> str:
    """What events say of what a run was given: it may be private, and proves which input it was."""
    return sha256(text.encode()).hexdigest()
