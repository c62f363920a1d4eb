"""Filters of calls: a mapping of dotted paths to conditions on the body. All of them must hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, cast

from matins.engine.validation import nearest, preview_of
from matins.errors import InvalidInput

ANY = "any"
_MAX_CONDITIONS = 50
_MAX_PATH_LENGTH = 200
_PATH = re.compile(r"[^.\[\]\s{}]+(\[\])?(\.[^.\[\]\s{}]+(\[\])?)*")
_SCALARS = (str, int, float, bool, type(None))
_MAX_INTEGER = 1 << 63
_NO_MORE = object()


def check_path(path: object, field: str) -> str:
    """The path, if it is names with full stops between them. `[]` after a name goes over a list."""
    if isinstance(path, str) and len(path) <= _MAX_PATH_LENGTH and _PATH.fullmatch(path):
        return path
    hint = 'For example: "pull_request.labels[].name".'
    message = f'"{field}" must be a path in the body, not {preview_of(path)}.'
    raise InvalidInput(message, value=str(path)[:60], field=field, allowed="names joined by full stops", hint=hint)


def values_at(body: Any, path: str) -> list[Any]:
    """The values at a path: none when it does not exist, several when it goes over a list."""
    found = [body]
    for step in path.split("."):
        name, over_list = step.removesuffix("[]"), step.endswith("[]")
        items = [cast("dict[str, Any]", item)[name] for item in found if isinstance(item, dict) and name in item]
        found = [one for item in items if isinstance(item, list) for one in cast("list[Any]", item)]
        found = found if over_list else items
    return found


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def check_filter(value: Any, field: str) -> Mapping[str, Any]:
    """The filter, if it is complete: every path, operator and operand is checked."""
    if not isinstance(value, Mapping) or not value:
        raise _invalid(field, f"must be a mapping of paths to values, not {preview_of(cast('object', value))}")
    conditions = cast("Mapping[Any, Any]", value)
    if next(islice(_conditions(conditions), _MAX_CONDITIONS, None), _NO_MORE) is not _NO_MORE:
        raise _invalid(field, f"has more than {_MAX_CONDITIONS} conditions")
    for path, condition in conditions.items():
        if path == ANY:
            _check_any(condition, field)
        else:
            check_path(path, field)
            _check_condition(path, condition, field)
    return cast("Mapping[str, Any]", conditions)


def unmet_condition(conditions: Mapping[str, Any], body: Any) -> str | None:
    """The first condition that the body does not meet, as a sentence; None when all hold."""
    for path, condition in conditions.items():
        if path == ANY:
            if not any(unmet_condition(option, body) is None for option in condition):
                return f'No mapping under "{ANY}" holds.'
        elif not _holds(condition, values_at(body, path), over_list="[]" in path):
            found = values_at(body, path)
            shown = preview_of(found[0] if len(found) == 1 else found) if found else "not there"
            return f'"{path}" is {shown}.'
    return None


def _conditions(value: Mapping[Any, Any]) -> Iterator[None]:
    """One item for each condition, also for those under "any". Lazy: a caller may stop at its limit."""
    for path, condition in value.items():
        yield None
        for option in cast("list[Any]", condition) if path == ANY and isinstance(condition, list) else ():
            yield from _conditions(cast("Mapping[Any, Any]", option)) if isinstance(option, Mapping) else ()


def _check_any(options: Any, field: str) -> None:
    if not isinstance(options, list) or not options:
        raise _invalid(field, f'"{ANY}" must be a list of mappings, of which one must hold')
    for option in cast("list[Any]", options):
        check_filter(option, field)


def _check_condition(path: str, condition: Any, field: str) -> None:
    if not isinstance(condition, Mapping) or not condition:
        _check_operand(path, cast("Any", condition), field)
        return
    for name, operand in cast("Mapping[Any, Any]", condition).items():
        if name not in _OPERATORS:
            hint = nearest(str(name), _OPERATORS)
            message = f'"{field}" has an unknown operator at "{path}": {preview_of(name)}.'
            raise InvalidInput(message, value=str(name), field=field, allowed=", ".join(_OPERATORS), hint=hint)
        allowed, fits = _OPERANDS.get(name, ("", None))
        if fits is None:
            _check_operand(path, operand, field)
        elif not fits(operand):
            raise _invalid(field, f'"{name}" at "{path}" must be {allowed}, not {preview_of(operand)}')
        else:
            _check_size(path, [operand], field)


def _check_operand(path: str, operand: Any, field: str) -> None:
    items = _listed(operand)
    if not items or not all(isinstance(item, _SCALARS) for item in items):
        raise _invalid(field, f'"{path}" must be a value, a list of values, or an operator')
    _check_size(path, items, field)


def _check_size(path: str, items: list[Any], field: str) -> None:
    if any(isinstance(item, int) and not -_MAX_INTEGER <= item < _MAX_INTEGER for item in items):
        raise _invalid(field, f'"{path}" must be a number of at most 64 bits')


def _invalid(field: str, what: str) -> InvalidInput:
    hint = 'For example: {"action": ["opened", "reopened"], "pull_request.draft": false}.'
    return InvalidInput(
        f'"{field}" {what}.' if not what.startswith('"') else f"{field}: {what}.", field=field, hint=hint
    )


def _holds(condition: Any, found: list[Any], *, over_list: bool) -> bool:
    if not isinstance(condition, Mapping):
        return any(_is_one_of(value, condition) for value in found)
    operators = cast("Mapping[str, Any]", condition)
    return all(_OPERATORS[name](found, operand, over_list) for name, operand in operators.items())


def _is_one_of(value: Any, operand: Any) -> bool:
    return any(_equal(value, item) for item in _listed(operand))


def _listed(operand: Any) -> list[Any]:
    return cast("list[Any]", operand) if isinstance(operand, list) else [operand]


def _equal(value: Any, other: Any) -> bool:
    """Equal and of the same type: 1 is not true, and not "1"."""
    if _is_number(value) and _is_number(other):
        return value == other
    return type(value) is type(other) and value == other


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _not(found: list[Any], operand: Any, over_list: bool) -> bool:
    return not any(_is_one_of(value, operand) for value in found)


def _has(found: list[Any], operand: Any, over_list: bool) -> bool:
    items = found if over_list else [one for value in found if isinstance(value, list) for one in cast("Any", value)]
    return any(_is_one_of(item, operand) for item in items)


def _like(found: list[Any], operand: Any, over_list: bool) -> bool:
    return any(isinstance(value, str) and fnmatchcase(value, p) for value in found for p in _listed(operand))


def _over(found: list[Any], operand: Any, over_list: bool) -> bool:
    return any(_is_number(value) and value > operand for value in found)


def _under(found: list[Any], operand: Any, over_list: bool) -> bool:
    return any(_is_number(value) and value < operand for value in found)


def _exists(found: list[Any], operand: Any, over_list: bool) -> bool:
    return bool(found) is operand


def _is_pattern(operand: Any) -> bool:
    items = _listed(operand)
    return bool(items) and all(isinstance(item, str) and len(item) <= _MAX_PATH_LENGTH for item in items)


_OPERATORS: Mapping[str, Callable[[list[Any], Any, bool], bool]] = {
    "not": _not,
    "has": _has,
    "like": _like,
    "over": _over,
    "under": _under,
    "exists": _exists,
}
_OPERANDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "like": ("a pattern such as release/*", _is_pattern),
    "over": ("a number", _is_number),
    "under": ("a number", _is_number),
    "exists": ("true or false", lambda operand: isinstance(operand, bool)),
}
