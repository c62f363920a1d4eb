"""What a schedule listens to, and the filter of a call.

What a schedule listens to: parsed, described, and matched with calls.

Filters of calls: a mapping of dotted paths to conditions on the body. All of them must hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, NamedTuple, cast, get_args

import orjson

from matins.engine.validation import (
    check_choice,
    check_name,
    check_names_known,
    check_strings,
    invalid,
    items_of,
    nearest,
    preview_of,
)
from matins.engine.when.durations import format_duration, parse_duration
from matins.engine.when.parse import MAX_TEXT_LENGTH
from matins.errors import Example, IntervalParseError, InvalidInput
from matins.model.call import ANY_CHANNEL, Call, CallTrigger, OnChat, OnSchedule, OnWebhook, PipelineOutcome
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord

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
            if not isinstance(condition, list) or not condition:
                raise _invalid(field, f'"{ANY}" must be a list of mappings, of which one must hold')
            for option in cast("list[Any]", condition):
                check_filter(option, field)
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


MAX_HOPS = 10
MAX_TRIGGERS = 20
_MAX_DEBOUNCE_MS = 3_600_000
_SETTINGS = {
    "webhook": ("webhook", "filter", "debounce", "by"),
    "chat": ("chat", "match", "from"),
    "schedule": ("schedule", "outcome"),
}
_ENDS = {"succeeds": "success", "fails": "failure", "ends": "end"}
_STATES: Mapping[PipelineOutcome, tuple[RunState, ...]] = {
    "success": (RunState.SUCCEEDED,),
    "failure": (RunState.FAILED, RunState.UNKNOWN, RunState.OVER_BUDGET, RunState.INTERRUPTED),
}
_DEBOUNCED = Example({"on": {"webhook": "github-prs", "debounce": "30s", "by": "number"}})
_EXAMPLE = Example({"on": {"webhook": "github-prs"}})


def parse_on(value: Any, field: str = "on") -> tuple[CallTrigger, ...]:
    """One trigger or a list of them. Each is a mapping, or text: `webhook NAME`, `chat CHANNEL`, `NAME succeeds`."""
    if not isinstance(value, (list, tuple)):
        return (_trigger(value, field),)
    given = items_of(cast("object", value))
    if not 1 <= len(given) <= MAX_TRIGGERS:
        raise invalid(field, cast("object", value), f"one call, or a list of at most {MAX_TRIGGERS}", hint=_EXAMPLE)
    triggers = tuple(_trigger(item, f"{field}[{number}]") for number, item in enumerate(given))
    if len({listening(trigger) for trigger in triggers}) < len(triggers):
        message = f'"{field}" names the same source twice.'
        raise InvalidInput(message, field=field, hint='Join the conditions under "any" in one filter.')
    return triggers


def _trigger(value: Any, field: str) -> CallTrigger:
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        message = f'"{field}" must be at most {MAX_TEXT_LENGTH} characters, not {len(value)}.'
        raise InvalidInput(message, value=f"{value[:60]}…", field=field, hint="Shorten it.")
    settings = value
    if isinstance(value, str):
        first, name = _first_word(value)
        settings = {first: name} if first in ("webhook", "chat") and name else _after(value)
    if not isinstance(settings, Mapping):
        raise invalid(field, value, "a webhook, a chat channel or a schedule", hint=_EXAMPLE)
    named = cast("Mapping[str, Any]", settings)
    source = next((name for name in _SETTINGS if name in named), None)
    if source is None:
        raise InvalidInput(f'"{field}" needs webhook, chat or schedule.', field=field, hint=_EXAMPLE)
    try:
        check_names_known(f"A {source} call", named, _SETTINGS[source])
    except InvalidInput as error:
        error.field = field
        raise
    return _READERS[source](named, field)


def _after(text: str) -> Mapping[str, Any] | None:
    """`[after] NAME succeeds`."""
    *before, end = text.rsplit(None, 1) or [""]
    if not before or end not in _ENDS:
        return None
    word, name = _first_word(before[0])
    return {"schedule": name if word == "after" and name else before[0].strip(), "outcome": _ENDS[end]}


def _first_word(text: str) -> tuple[str, str]:
    """The first word, and what follows it."""
    words = [*text.split(None, 1), "", ""]
    return words[0], words[1].strip()


def follows_schedule(when: object) -> bool:
    """Whether a *when* text is a pipeline: `after release succeeds`."""
    if not isinstance(when, str) or len(when) > MAX_TEXT_LENGTH:
        return False
    return when.lstrip().startswith("after ") and _after(when) is not None


def _webhook(given: Mapping[str, Any], field: str) -> CallTrigger:
    conditions, debounce, by = given.get("filter"), given.get("debounce"), given.get("by")
    debounce_ms = _debounce(debounce, field)
    if by is not None and not debounce_ms:
        raise InvalidInput(f'{field}: "by" needs "debounce".', field=field, hint=_DEBOUNCED)
    return OnWebhook(
        check_name(f"{field}.webhook", given["webhook"]),
        None if conditions is None else check_filter(conditions, f"{field}.filter"),
        debounce_ms,
        None if by is None else check_path(by, f"{field}.by"),
    )


def _debounce(value: Any, field: str) -> int:
    if value is None:
        return 0
    try:
        debounce_ms = parse_duration(value) if isinstance(value, str) else 0
    except IntervalParseError:
        debounce_ms = 0
    if not 0 < debounce_ms <= _MAX_DEBOUNCE_MS:
        raise invalid(f"{field}.debounce", value, 'a duration such as "30s", and at most 1h')
    return debounce_ms


def _chat(given: Mapping[str, Any], field: str) -> CallTrigger:
    senders = given.get("from")
    senders = [senders] if isinstance(senders, str) else senders
    people = () if senders is None else check_strings(f"{field}.from", senders, "a list of names", ["ada"])
    match = check_name(f"{field}.match", given.get("match", "mention"))
    return OnChat(check_name(f"{field}.chat", given["chat"]), match, people)


def _schedule(given: Mapping[str, Any], field: str) -> CallTrigger:
    outcome = check_choice(f"{field}.outcome", given.get("outcome", "success"), get_args(PipelineOutcome))
    return OnSchedule(check_name(f"{field}.schedule", given["schedule"]), outcome)


_READERS = {"webhook": _webhook, "chat": _chat, "schedule": _schedule}


def format_on(triggers: tuple[CallTrigger, ...]) -> Any:
    """The triggers as people write them: one mapping, or a list of them."""
    found = [_format(trigger) for trigger in triggers]
    return found[0] if len(found) == 1 else found


def _format(trigger: CallTrigger) -> dict[str, Any]:
    match trigger:
        case OnWebhook(webhook, conditions, debounce_ms, by):
            debounce = format_duration(debounce_ms) if debounce_ms else None
            values = {"webhook": webhook, "filter": conditions, "debounce": debounce, "by": by}
        case OnChat(chat, match, senders):
            values = {"chat": chat, "match": match, "from": list(senders) or None}
        case OnSchedule(schedule, outcome):
            values = {"schedule": schedule, "outcome": outcome}
    return {name: value for name, value in values.items() if value is not None}


def describe_on(triggers: tuple[CallTrigger, ...]) -> str:
    return " and ".join(_describe(trigger) for trigger in triggers)


def _describe(trigger: CallTrigger) -> str:
    match trigger:
        case OnWebhook(webhook):
            return f"on webhook {webhook}"
        case OnChat(chat):
            return "on a chat message" if chat == ANY_CHANNEL else f"on a chat message in {chat}"
        case OnSchedule(schedule, outcome):
            end = next(word for word, means in _ENDS.items() if means == outcome)
            return f"after {schedule} {end}"


def listening(trigger: CallTrigger) -> tuple[str, str]:
    """Source and name of the calls that the trigger listens to."""
    match trigger:
        case OnWebhook(webhook):
            return "webhook", webhook
        case OnChat(chat):
            return "chat", chat
        case OnSchedule(schedule):
            return "schedule", schedule


def following_renamed(
    definition: ScheduleDefinition, followed: ScheduleRecord, name: str, agent: str
) -> ScheduleDefinition:
    """The definition of a schedule that follows another, which gets this name and agent."""
    full = f"{agent}/{name}"
    names = {followed.name: full if agent else name, f"{followed.agent}/{followed.name}": full}
    on = tuple(
        trigger._replace(schedule=names.get(trigger.schedule, trigger.schedule))
        if isinstance(trigger, OnSchedule)
        else trigger
        for trigger in definition.on
    )
    return replace(definition, on=on)


class Match(NamedTuple):
    """A call that concerns a schedule."""

    debounce_ms: int = 0
    group: str | None = None
    """Calls with the same value may share one run."""


def match_call(trigger: CallTrigger, call: Call) -> Match | str:
    """The match, or why the call does not concern the schedule. Source and name agree already."""
    match trigger:
        case OnWebhook(_, conditions, debounce_ms, by):
            unmet = None if conditions is None else unmet_condition(conditions, call.body)
            if unmet is not None:
                return f"The filter does not match: {unmet}"
            return Match(debounce_ms, _group(by, call.body) if debounce_ms else None)
        case OnChat(_, match, senders):
            return _match_message(match, senders, call)
        case OnSchedule(_, outcome):
            state = call.type or ""
            return Match() if outcome_matches(outcome, state) else f"The outcome is {state}."


def outcome_matches(outcome: PipelineOutcome, state: str) -> bool:
    states = _STATES.get(outcome) or tuple(state for found in _STATES.values() for state in found)
    return state in {found.label for found in states}


def _match_message(match: str, senders: tuple[str, ...], call: Call) -> Match | str:
    if senders and call.sender not in senders:
        return f"The sender {call.sender or 'unknown'} is not among: {', '.join(senders)}."
    if match == "mention":
        return Match() if mapping_of(call.body).get("mention") is True else "The message does not mention the agent."
    starts = (call.text or "").lstrip().lower().startswith(match.lower())
    return Match() if match == "any" or starts else f'The message does not start with "{match}".'


def _group(by: str | None, body: Any) -> str:
    """The value that deliveries of one run share. Without `by`, all of them belong together."""
    return "" if by is None else orjson.dumps(values_at(body, by)).decode()[:1_000]
