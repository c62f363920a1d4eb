"""Drafts: a schedule that is being made in a dialogue, which asks for what is missing. Pure: `now` is an argument."""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import orjson

from matins.chat.messages import unquoted
from matins.engine.prompts import check_prompt_text
from matins.engine.validation import check_name
from matins.engine.when.durations import parse_duration
from matins.engine.when.parse import parse_trigger
from matins.errors import InvalidInput, MatinsError
from matins.model.trigger import Once

LIFETIME_MS = 900_000
TYPES = ("interval", "daily", "weekly", "once")
CANCEL = "cancel"
_STARTS = ("every", "each", "at", "in", "on", "daily", "weekly", "hourly", "weekdays", "tomorrow", "today", "next")
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_TYPED = re.compile(rf"(?P<type>{'|'.join(TYPES)})\b\s*(?P<rest>.*)", re.DOTALL | re.IGNORECASE)
_QUOTE = re.compile('["“]')
_MAX_SPLITS = 20
_CHANGE = re.compile(r"(?P<field>when|message|agent|name)\b\s*[:=]?\s*(?P<value>.+)", re.DOTALL | re.IGNORECASE)
_TEXTS = {
    "when": "When? For example: every weekday at 9am",
    "interval": "How often? 5m, 1h",
    "delay": "After how long? 30m, 2h",
    "day": "Which day? 0-6 or a name",
    "time": "At what time? HH:MM",
    "message": "What should the agent do?",
    "agent": "Which agent?",
    "change": "What should change? Write one of: when …, message …, agent …, name …",
}


class Clock(NamedTuple):
    """The instant of a message, and the time zone of its person."""

    now: int
    zone: str


class Draft(NamedTuple):
    type: str = ""
    """The seed's word: interval, daily, weekly, once; empty where a phrase says when."""
    when: str | None = None
    day: str | None = None
    time: str | None = None
    message: str | None = None
    agent: str | None = None
    name: str | None = None
    changing: bool = False
    """Whether the person wants to change something of what was shown."""
    in_thread: bool = False
    """Whether the command was given in a thread, where the schedule's answers then are."""

    @property
    def digest(self) -> str:
        """What a button is bound to: a click on an older preview does nothing."""
        return sha256(orjson.dumps(tuple(self._replace(changing=False)))).hexdigest()[:24]


class Question(NamedTuple):
    field: str
    text: str


def begin(what: str, agent: str | None, clock: Clock, *, in_thread: bool = False) -> Draft:
    """The draft of `add WHAT`: a phrase with a message, a type with a message, or a message."""
    draft = Draft(agent=agent, in_thread=in_thread)
    what = what.strip()
    if not what:
        return draft
    splits = _splits(what)
    for when, message in splits:
        if (parsed := _phrase(when, clock)) is not None:
            return draft._replace(when=parsed, message=_message(message))
    if splits and what.split()[0].lower() in _STARTS:
        _when(splits[0][0], clock)  # raises: a time that cannot be read is no message
    if (parsed := _phrase(what, clock)) is not None:
        return draft._replace(when=parsed)
    if found := _TYPED.fullmatch(what):
        rest = found["rest"].strip()
        return draft._replace(type=found["type"].lower(), message=_message(rest) if rest else None)
    return draft._replace(message=_message(what))


def question(draft: Draft) -> Question | None:
    """The next thing to ask; None when the draft is complete."""
    field = "change" if draft.changing else _missing(draft)
    return None if field is None else Question(field, _TEXTS[field])


def answered(draft: Draft, answer: str, clock: Clock) -> Draft:
    """The draft with the answer to its question. Raises InvalidInput with the parser's own hint."""
    asked = question(draft)
    assert asked is not None
    answer = answer.strip()
    if asked.field == "change":
        return _changed(draft, answer, clock)._replace(changing=False)
    return _READERS[asked.field](draft, answer, clock)


def dump(draft: Draft) -> dict[str, Any]:
    return {name: value for name, value in draft._asdict().items() if value != Draft._field_defaults[name]}


def load(data: dict[str, Any]) -> Draft:
    return Draft(**data)


def instant_of(text: str, clock: Clock, *, past: bool = False) -> int:
    """A point in time that a person wrote: `2h`, `tomorrow at 9am`, `17:30`, an ISO instant. `past`: the last one."""
    text = unquoted(text)
    try:
        length = parse_duration(text)
    except MatinsError:
        length = None
    if length is not None:
        return clock.now - length if past else clock.now + length
    for phrase in (text, f"{text} at 09:00", f"every day at {text}"):
        try:
            trigger = parse_trigger(phrase, now_ms=clock.now, timezone=clock.zone)
        except MatinsError:
            continue
        when = trigger.definition.when
        at = (
            when.at_ms if isinstance(when, Once) else trigger.prev_ms(clock.now) if past else trigger.next_ms(clock.now)
        )
        if at is not None:
            return at
    hint = "For example: 2h, 17:30, tomorrow at 9am, 2026-03-24T14:00."
    raise InvalidInput(f'"{text[:60]}" is not a time.', value=text[:60], field="time", hint=hint)


def _splits(what: str) -> list[tuple[str, str]]:
    """Every way to read the text as WHEN and MESSAGE: at a colon before a space, or before a quotation."""
    colons = islice(re.finditer(r":\s+", what), _MAX_SPLITS)
    found = [(what[: at.start()], what[at.end() :]) for at in colons if what[at.end() :].strip()]
    quote = _QUOTE.search(what)
    at = quote.start() if quote else 0
    if at and what[at - 1].isspace() and what[at + 1 :].endswith(('"', "”")):
        found.append((what[:at].rstrip(), what[at:]))
    return found


def _phrase(text: str, clock: Clock) -> str | None:
    try:
        return _when(text, clock)
    except MatinsError:
        return None


def _when(text: str, clock: Clock) -> str:
    """The text of a trigger. One that names an instant is fixed now, however long the preview waits."""
    trigger = parse_trigger(text, now_ms=clock.now, timezone=clock.zone)
    return trigger.describe() if trigger.kind == "once" else text.strip()


def _missing(draft: Draft) -> str | None:
    if draft.when is None:
        return {"interval": "interval", "once": "delay", "daily": "time"}.get(draft.type) or (
            "when" if draft.type != "weekly" else "day" if draft.day is None else "time"
        )
    if draft.message is None:
        return "message"
    return "agent" if draft.agent is None else None


def _message(text: str) -> str:
    return check_prompt_text(unquoted(text), "message")


def _read_when(draft: Draft, answer: str, clock: Clock) -> Draft:
    return draft._replace(when=_when(answer, clock))


def _read_interval(draft: Draft, answer: str, clock: Clock) -> Draft:
    parse_duration(answer.lower().removeprefix("every").strip())
    return draft._replace(when=answer.lower().removeprefix("every").strip())


def _read_delay(draft: Draft, answer: str, clock: Clock) -> Draft:
    length = answer.lower().removeprefix("in ").strip()
    parse_duration(length)
    return draft._replace(when=_when(f"in {length}", clock))


def _read_day(draft: Draft, answer: str, clock: Clock) -> Draft:
    day = _DAYS[int(answer)] if answer in tuple("0123456") else answer.rstrip(".").rstrip("s")
    _when(f"every {day} at 09:00", clock)
    return draft._replace(day=day)


def _read_time(draft: Draft, answer: str, clock: Clock) -> Draft:
    time = answer.lower().removeprefix("at ").strip()
    when = f"every {draft.day if draft.type == 'weekly' else 'day'} at {time}"
    return draft._replace(time=time, when=_when(when, clock))


def _read_message(draft: Draft, answer: str, clock: Clock) -> Draft:
    return draft._replace(message=_message(answer))


def _read_agent(draft: Draft, answer: str, clock: Clock) -> Draft:
    return draft._replace(agent=check_name("agent", unquoted(answer)))


_READERS = {
    "when": _read_when, "interval": _read_interval, "delay": _read_delay, "day": _read_day, "time": _read_time,
    "message": _read_message, "agent": _read_agent,
}  # fmt: skip


def changed(draft: Draft, field: str, value: str, clock: Clock) -> Draft:
    """The draft with another when, message, agent or name."""
    if field == "name":
        return draft._replace(name=check_name("name", unquoted(value)))
    return _READERS[field](draft, value.strip(), clock)


def _changed(draft: Draft, answer: str, clock: Clock) -> Draft:
    found = _CHANGE.fullmatch(answer)
    if found is None:
        raise InvalidInput("This is not a change.", value=answer[:60], hint=_TEXTS["change"])
    return changed(draft, found["field"].lower(), found["value"], clock)
