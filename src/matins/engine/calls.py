"""What a schedule listens to: parsed, described, and matched with calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast, get_args

import orjson

from matins.engine.call_filter import check_filter, check_path, mapping_of, unmet_condition, values_at
from matins.engine.validation import check_choice, check_name, check_names_known, check_strings, invalid, items_of
from matins.engine.when.durations import format_duration, parse_duration
from matins.engine.when.parse import MAX_TEXT_LENGTH
from matins.errors import Example, IntervalParseError, InvalidInput
from matins.model.call import ANY_CHANNEL, Call, CallTrigger, OnChat, OnSchedule, OnWebhook, PipelineOutcome
from matins.model.run import RunState

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
    settings = _from_text(value) if isinstance(value, str) else value
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


def _from_text(text: str) -> Mapping[str, Any] | None:
    source, name = _first_word(text)
    if source in ("webhook", "chat") and name:
        return {source: name}
    return _after(text)


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


class Match(NamedTuple):
    """A call that concerns a schedule."""

    debounce_ms: int = 0
    group: str | None = None
    """The calls that one run may stand for have the same value."""


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
