"""Arguments of use cases, read and checked by their annotation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, time, timedelta
from functools import cache
from os import PathLike, fspath
from typing import Any, NamedTuple, cast, get_args

from matins.api.runs import ReportedOutcome, RunAction, RunOutcome
from matins.api.schema import Schema
from matins.api.use_case import Parameter, UseCase
from matins.engine.schedules import SETTINGS
from matins.engine.selectors import parse_selector
from matins.engine.validation import check_choice, invalid, nearest, preview_of
from matins.engine.when.triggers import Trigger, to_ms
from matins.errors import Example, InstantError, InvalidInput, MatinsError
from matins.model.run import StepId
from matins.model.selector import Selector
from matins.records import record_kinds

Id = str | int
"""The id of a run, an approval, a thread or an event. Results have strings; numbers are accepted."""
RunId = str | int
"""The id of a run, or of one of its steps by number: `12/2`."""
Ids = Sequence[Id]
Instant = datetime | str | int
"""A datetime with a zone, an RFC 3339 text with an offset, or UTC milliseconds."""
Moment = datetime | str | int
"""An instant; or a text without an offset, `2026-11-01T09:00` or a day, on the clock of what is asked about."""
When = str | datetime | timedelta | time | Trigger | Mapping[str, Any]
"""A text; an instant, a length of time (every), a time (every day); a trigger, or the result of `Trigger.to_dict`."""
JobName = str | Callable[..., Any]
"""A registered job: its name, or in the program that has it, the function."""
EventTypes = str | Sequence[str]
FilePath = str | PathLike[str]
Json = Any
"""Any JSON value."""
RunStates = str | Sequence[str]
"""States of runs: a list, or `failed,unknown`."""
Select = str
"""Which schedules: `agent=claude label.team=ops state=active report-*`."""
Limit = int
"""The number of items of a page: 1 to 1,000."""
Count = int
"""1 to 1,000."""
MAX_LIMIT = 1_000
_MAX_ID_DIGITS = 18
_MAX_STEP_DIGITS = 3
_MAX_INSTANT = 253_402_300_799_999
"""The end of the year 9999."""
_MAX_INTEGER = 1 << 63
_WALL_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?")


class ArgumentKind(NamedTuple):
    read: Callable[[str, Any], Any]
    schema: Schema
    from_text: Callable[[str, str], Any]
    """The value of a text in a query string."""
    example: Any = "…"


def read_arguments(use_case: UseCase, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the service. An error names a missing, unknown or invalid argument."""
    known = use_case.parameters
    values: dict[str, Any] = {}
    for name, value in arguments.items():
        parameter = known.get(name)
        if parameter is not None:
            values[name] = _read_secret(name, value) if name == use_case.secret else read_argument(parameter, value)
        elif name in setting_names(use_case):
            values[name] = value
        else:
            raise _unknown(use_case, name)
    for name, parameter in known.items():
        if parameter.required and name not in values:
            needed = ", ".join(n for n, p in known.items() if p.required)
            examples = argument_kind(parameter.annotation).schema.get("examples")
            hint = Example({name: examples[0]}) if examples else f"{use_case.name} needs: {needed}."
            raise InvalidInput(f'"{name}" is missing.', field=name, hint=hint)
    return values


def _read_secret(name: str, value: Any) -> str | None:
    """The secret. The error does not repeat its value."""
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f'"{name}" must be a string.', field=name, allowed="a string", hint="Omit it to have one made.")


def _unknown(use_case: UseCase, name: Any) -> InvalidInput:
    name, known = str(name), [*use_case.parameters, *setting_names(use_case)]
    message = f'{use_case.name} has no argument "{name}".'
    if use_case.settings is not None:
        owner = "A schedule" if use_case.settings == "schedule" else record_kinds()[use_case.settings].owner
        message = f'{owner} has no setting "{name}".'
    return InvalidInput(message, value=name, field=name, hint=nearest(name, dict.fromkeys(known)))


@cache
def setting_names(use_case: UseCase) -> Mapping[str, None]:
    """The settings that a use case takes besides its arguments."""
    if use_case.settings is None:
        return {}
    if use_case.settings == "schedule":
        return dict.fromkeys(("when", *SETTINGS))
    return dict.fromkeys(record_kinds()[use_case.settings].table)


def read_argument(parameter: Parameter, value: Any) -> Any:
    if value is None and parameter.default is None:
        return None
    kind = argument_kind(parameter.annotation)
    try:
        return kind.read(parameter.name, value)
    except InvalidInput as error:
        error.hint = error.hint or Example({parameter.name: kind.example})
        raise


@cache
def argument_kind(annotation: str) -> ArgumentKind:
    name = annotation.removesuffix(" | None")
    if name in _CHOICES:
        return _choice(_CHOICES[name])
    if name.startswith("Literal["):
        return _choice(tuple(part.strip().strip("'\"") for part in name[8:-1].split(",")))
    return _KINDS[name]


def _choice(choices: tuple[str, ...]) -> ArgumentKind:
    def read(field: str, value: Any) -> str:
        return check_choice(field, value, choices)

    return ArgumentKind(read, {"enum": list(choices)}, _same_text, choices[-1])


def _text(field: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise invalid(field, value, "a string")


def _path(field: str, value: Any) -> str:
    return _text(field, fspath(cast("PathLike[str]", value)) if isinstance(value, PathLike) else value)


def _integer(field: str, value: Any) -> int:
    if type(value) is not int:
        raise invalid(field, value, "an integer")
    if not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise InvalidInput(f'"{field}" is too large.', value=preview_of(value), field=field, hint="At most 64 bits.")
    return value


def _limit(field: str, value: Any) -> int:
    if type(value) is int and 1 <= value <= MAX_LIMIT:
        return value
    raise invalid(field, value, f"an integer from 1 to {MAX_LIMIT}")


def _flag(field: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise invalid(field, value, "true or false")


def _id(field: str, value: Any) -> int:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS:
        return int(text)
    raise InvalidInput(f'"{field}" is not an id: {preview_of(value)}.', value=value, field=field, hint="Use a number.")


def _ids(field: str, value: Any) -> list[int]:
    if not isinstance(value, (list, tuple)):
        raise invalid(field, value, "a list of numbers")
    return [_id(field, one) for one in cast("Sequence[Any]", value)]


def _run_id(field: str, value: Any) -> int | StepId:
    run, slash, step = value.partition("/") if isinstance(value, str) else (value, "", "")
    if not slash:
        return _id(field, value)
    if step.isascii() and step.isdigit() and len(step) <= _MAX_STEP_DIGITS:
        return StepId(_id(field, run), int(step))
    hint = "Use the number of the step: 12/2."
    raise InvalidInput(f'"{field}" is not a step: {preview_of(value)}.', value=value, field=field, hint=hint)


def _instant(field: str, value: Any) -> int:
    if type(value) is int and 0 <= value <= _MAX_INSTANT:
        return value
    try:
        return to_ms(datetime.fromisoformat(value) if isinstance(value, str) else cast("datetime", value))
    except (ValueError, TypeError, AttributeError, OverflowError, MatinsError) as error:
        hint = "For example: 2026-12-31T18:00:00Z, or a datetime with its zone."
        wrong = "has no time zone" if isinstance(error, InstantError) else "is not an instant"
        message = f'"{field}" {wrong}: {preview_of(value)}.'
        raise InstantError(message, value=value, field=field, hint=hint) from None


def _moment(field: str, value: Any) -> int | str:
    if isinstance(value, str) and _WALL_TIME.fullmatch(value.strip()):
        return value.strip()
    return _instant(field, value)


def _strings(field: str, value: Any) -> list[str]:
    items = list(cast("list[Any]", value)) if isinstance(value, (list, tuple, set, frozenset)) else [None]
    if not all(isinstance(item, str) for item in items):
        raise invalid(field, cast("object", value), "a list of strings")
    return cast("list[str]", items)


def _select(field: str, value: Any) -> Selector:
    return parse_selector(_text(field, value), field)


def _run_states(field: str, value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else _strings(field, value)
    return tuple(check_choice(field, name, _CHOICES["RunStateName"]) for name in names)


def _types(field: str, value: Any) -> list[str]:
    return [value] if isinstance(value, str) else _strings(field, value)


def _mapping(field: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    raise invalid(field, value, "a mapping")


def _mappings(field: str, value: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(value, (list, tuple)):
        return cast("Sequence[Mapping[str, Any]]", value)
    raise invalid(field, value, "a list of mappings")


def _any(field: str, value: Any) -> Any:
    return value


def _same_text(field: str, text: str) -> str:
    return text


def _number_of(field: str, text: str) -> Any:
    negative = text.removeprefix("-")
    return int(text) if negative.isascii() and negative.isdigit() and len(negative) <= 20 else text


def _flag_of(field: str, text: str) -> Any:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)


def _list_of(field: str, text: str) -> list[str]:
    return text.split(",")


_STRING: Schema = {"type": "string"}
_STRINGS: Schema = {"type": "array", "items": _STRING}
_PAGE_SIZE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}
ID: Schema = {"type": "string", "pattern": "^[0-9]{1,18}$"}
RUN_ID: Schema = {"type": "string", "pattern": "^[0-9]{1,18}(/[0-9]{1,3})?$"}
INSTANT: Schema = {"type": "string", "format": "date-time"}
WHEN: Schema = {
    "description": "When: English, cron, a duration, an ISO instant or an RRULE; or a trigger as JSON.",
    "anyOf": [_STRING, {"type": "object"}],
    "examples": ["every weekday at 9am", "*/5 * * * *", "in 2 hours"],
}
_KINDS: Mapping[str, ArgumentKind] = {
    "str": ArgumentKind(_text, _STRING, _same_text),
    "FilePath": ArgumentKind(_path, _STRING, _same_text),
    "int": ArgumentKind(_integer, {"type": "integer"}, _number_of, 1),
    "Limit": ArgumentKind(_limit, _PAGE_SIZE, _number_of, 100),
    "Count": ArgumentKind(_limit, _PAGE_SIZE, _number_of, 5),
    "bool": ArgumentKind(_flag, {"type": "boolean"}, _flag_of, True),
    "Id": ArgumentKind(_id, ID, _same_text),
    "Ids": ArgumentKind(_ids, {"type": "array", "items": ID}, _list_of, [12, 13]),
    "RunId": ArgumentKind(_run_id, RUN_ID, _same_text),
    "Instant": ArgumentKind(_instant, INSTANT, _same_text),
    "Select": ArgumentKind(_select, _STRING, _same_text, "label.team=ops"),
    "Moment": ArgumentKind(_moment, _STRING, _same_text, "2026-11-01"),
    "Json": ArgumentKind(_any, {}, _same_text, '{"…": "…"}'),
    "When": ArgumentKind(_any, WHEN, _same_text),
    "RunStates": ArgumentKind(_run_states, {"anyOf": [_STRINGS, _STRING]}, _list_of, ["failed", "unknown"]),
    "EventTypes": ArgumentKind(_types, {"anyOf": [_STRINGS, _STRING]}, _list_of, ["run.failed"]),
    "builtins.list[str]": ArgumentKind(_strings, _STRINGS, _list_of, ["…"]),
    "Mapping[str, Any]": ArgumentKind(_mapping, {"type": "object"}, _same_text, {"…": "…"}),
    "Sequence[Mapping[str, Any]]": ArgumentKind(
        _mappings, {"type": "array", "items": {"type": "object"}}, _same_text, [{"name": "…", "when": "…"}]
    ),
}


def _choices() -> dict[str, tuple[str, ...]]:
    from matins.api import results, runs
    from matins.model import access, call, event, overview, policies, run, schedule, trigger

    states = tuple(state for state in get_args(schedule.ScheduleState) if state != "removed")
    return {
        "ScheduleState": states,
        "ScheduleSort": get_args(overview.ScheduleSort),
        "ScheduleTab": get_args(overview.ScheduleTab),
        "MissionStatus": get_args(schedule.MissionStatus),
        "BulkAction": get_args(runs.BulkAction),
        "RunStateName": get_args(results.RunStateName),
        "RunAction": get_args(RunAction),
        "RunOutcome": get_args(RunOutcome),
        "BackfillChoice": get_args(run.BackfillChoice),
        "ReportedOutcome": get_args(ReportedOutcome),
        "ApprovalState": get_args(policies.ApprovalState),
        "DeliveryState": get_args(event.DeliveryState),
        "CallSource": get_args(call.CallSource),
        "Role": get_args(access.Role),
        "PersonRole": get_args(access.PersonRole),
        "LinkedService": get_args(access.LinkedService),
        "DstGap": get_args(trigger.DstGap),
        "DstOverlap": get_args(trigger.DstOverlap),
    }


_CHOICES = _choices()
