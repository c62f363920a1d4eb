"""Pure: who gets an event and when it is sent again; which events open, repeat and end incidents, and when people are
told. `now` is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import orjson

from matins.engine.answers import destination_label
from matins.engine.events import TERMINAL_EVENTS
from matins.engine.reasons import end_text
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import fraction
from matins.model.destination import IncidentKind
from matins.model.event import NO_SCHEDULE, IncidentRow, Resolution, StoredEvent, destination_of
from matins.model.words import Sentence

MAX_ATTEMPTS = 20
MAX_PING_ATTEMPTS = 3
FIRST_DELAY_MS, MAX_DELAY_MS = 5_000, 3_600_000
DISCARDED = "delivery.discarded"


def matches(name: str, types: Collection[str], event: StoredEvent) -> bool:
    """Whether the subscription gets the event. Events about its own failed deliveries would fail too."""
    if types and event.type not in types:
        return False
    return event.type != DISCARDED or orjson.loads(event.data or "{}").get("subscription") != name


def is_told(destination: str | None, event: StoredEvent) -> bool:
    """Whether a destination gets the event of an incident."""
    return destination in orjson.loads(event.data or "{}").get("to", ())


def next_delivery_at(name: str, event_id: int, attempts: int, now: int) -> int | None:
    """When to retry after `attempts` attempts; None when the delivery is discarded.

    The delay doubles up to an hour. Up to a tenth is added, so that deliveries do not retry in step.
    """
    if attempts >= MAX_ATTEMPTS:
        return None
    delay = min(FIRST_DELAY_MS << (attempts - 1), MAX_DELAY_MS)
    return now + delay + int(delay * 0.1 * fraction(f"{name}:{event_id}:{attempts}"))


HOUR_MS = 3_600_000
REMINDERS_MS = (HOUR_MS, 6 * HOUR_MS, DAY_MS)
"""When reminders are due, after the opening; then daily."""
GROUPING_MS = 60_000
"""How long missed slots are gathered over schedules into one message."""
MAX_NEW_PER_HOUR = 3
"""Messages about different errors of a schedule in an hour. The next reminder names the others."""
_REMINDED: frozenset[str] = frozenset(["failed", "budget", "held", "broken", "undelivered", "engine"])
_STANDING: frozenset[str] = frozenset(["held", "broken", "engine"])
"""Kinds that last until a person acts: they are reminded of although nothing new happened."""
_MAX_SIGNATURE_LENGTH = 200
_MAX_SCHEDULES = 200
_VARIABLE = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"  # UUIDs
    r"|(?:[A-Za-z]:)?(?:[/\\][^\s'\"/\\:,;)]+){2,}[/\\]?"  # paths
    r"|\b0x[0-9a-fA-F]+\b|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{6,}\b"  # hexadecimal numbers
    r"|[0-9]+(?:[.:,-][0-9]+)*"  # numbers, times and dates
)

Action = Literal["opened", "repeated", "reminded", "resolved"]
Data = Mapping[str, Any]


class Trouble(NamedTuple):
    """What an event reports that people need to know."""

    kind: IncidentKind
    signature: str
    summary: Sentence
    error: str | None = None
    schedule_id: int = NO_SCHEDULE
    details: Mapping[str, Any] = {}
    counts: int = 1


class Step(NamedTuple):
    """A change of an incident, and whether a message is sent about it."""

    action: Action
    incident: IncidentRow
    tell: bool


# -- what events report


def signature_of(cause: str, error: str | None) -> str:
    """The cause and the error without what differs each time: numbers, times, paths and ids."""
    return f"{cause}: {_VARIABLE.sub('#', error or '')}"[:_MAX_SIGNATURE_LENGTH].removesuffix(": ")


def _failed(event: StoredEvent, data: Data) -> Trouble:
    reason, error = str(data.get("reason") or "failed"), data.get("error")
    return Trouble("failed", signature_of(reason, error), _summary(event, data), error, event.schedule_id or 0)


def _held(event: StoredEvent, data: Data) -> Trouble:
    return Trouble("held", f"run {event.run_id}", _summary(event, data), data.get("error"), event.schedule_id or 0)


def _over_budget(event: StoredEvent, data: Data) -> Trouble:
    signature = f"budget {data['budget']}" if data.get("budget") else "limit of a run"
    return Trouble("budget", signature, _summary(event, data), data.get("error"), event.schedule_id or 0)


def _budget_exceeded(event: StoredEvent, data: Data) -> Trouble:
    return _over_budget(
        event, {**data, "summary": f"Paused: {data.get('note') or 'the budget is spent'}.", "quote": None}
    )


def _spending(event: StoredEvent, data: Data) -> Trouble:
    name, whose = data["budget"], data.get("whose")
    of = "" if whose in (None, "all") else f" for {whose}"
    summary = f'Budget "{name}"{of} has reached {data["warn_at"]:g} % in {data["period"]}: {data["spent"]}.'
    return Trouble("spending", f"budget {name} {whose} {data['period']}", Sentence(summary))


def _auto_paused(event: StoredEvent, data: Data) -> Trouble:
    failures = data.get("failures") or 1
    cause = "the last run failed" if failures == 1 else f"{failures} runs in a row failed"
    return Trouble("paused", "failures", Sentence(f"Paused: {cause}."), None, event.schedule_id or 0)


def _broken(event: StoredEvent, data: Data) -> Trouble:
    error = data.get("error")
    return Trouble("broken", signature_of("broken", error), Sentence("Broken.", error), error, event.schedule_id or 0)


def _missed(event: StoredEvent, data: Data) -> Trouble:
    slots, last = int(data.get("slots") or 1), int(data.get("slot") or event.at)
    first = int(data.get("first") or last)
    details = {"schedules": {str(event.schedule_id): slots}, "from": first, "to": last}
    return Trouble("missed", "missed", _summary(event, data), None, NO_SCHEDULE, details, slots)


def _throttled(event: StoredEvent, data: Data) -> Trouble:
    provider = data.get("provider")
    details = {"provider": provider, "until": data.get("resets_at")}
    if data.get("login"):
        text = f'Provider "{provider}" refuses the login. Its runs wait. To log in: {data["login"]}.'
        refused = {"provider": provider, "login": data["login"]}
        return Trouble("login", f"provider {provider}", Sentence(text, data.get("reason")), None, NO_SCHEDULE, refused)
    summary = Sentence(f'Provider "{provider}" limits its requests.', data.get("reason"))
    return Trouble("limit", f"provider {provider}", summary, None, NO_SCHEDULE, details)


def _overdue(event: StoredEvent, data: Data) -> Trouble:
    kind = "late" if event.type == "run.late" else "slow"
    return Trouble(kind, kind, _summary(event, data), None, event.schedule_id or 0)


def _approval(event: StoredEvent, data: Data) -> Trouble:
    number, what = data.get("approval"), {"run": "A run", "budget": "More spending"}.get(str(data.get("kind")))
    details = {"approval": number, "expires_at": data.get("expires_at")}
    summary = Sentence(f"{what or 'A proposed schedule'} needs approval: request {number}.")
    return Trouble("approval", f"approval {number}", summary, None, event.schedule_id or 0, details)


def _undelivered(event: StoredEvent, data: Data) -> Trouble | None:
    name = destination_of(str(data.get("subscription")))
    if name is None or data.get("who") is not None:
        return None
    error = data.get("error") or data.get("note")
    summary = Sentence(f'Messages do not arrive at the destination "{name}".', error)
    details = {"destination": name, "gone": event.type == "subscription.paused"}
    return Trouble("undelivered", name, summary, error, NO_SCHEDULE, details)


def _unanswered(event: StoredEvent, data: Data) -> Trouble:
    name, error = str(data["destination"]), data.get("error")
    summary = Sentence(f"The answer of run {event.run_id} was not delivered to {destination_label(name)}.", error)
    return Trouble("undelivered", name, summary, error, NO_SCHEDULE, {"destination": name, "gone": False})


def _cannot_start(event: StoredEvent, data: Data) -> Trouble:
    host = str(data.get("host"))
    summary = Sentence(f"{host} cannot start agents, and leaves them to other engines.", data.get("reason"))
    return Trouble("engine", host, summary, None, NO_SCHEDULE, {"host": host})


_TROUBLES: Mapping[str, Callable[[StoredEvent, Data], Trouble | None]] = {
    "run.failed": _failed,
    "run.unknown": _failed,
    "run.interrupted": _failed,
    "run.held": _held,
    "run.over_budget": _over_budget,
    "budget.exceeded": _budget_exceeded,
    "budget.warning": _spending,
    "schedule.auto_paused": _auto_paused,
    "schedule.broken": _broken,
    "schedule.missed": _missed,
    "run.missed": _missed,
    "throttle.set": _throttled,
    "approval.requested": _approval,
    DISCARDED: _undelivered,
    "subscription.paused": _undelivered,
    "answer.undelivered": _unanswered,
    "engine.cannot_start": _cannot_start,
    "run.late": _overdue,
    "run.slow": _overdue,
}


def trouble_of(event: StoredEvent, data: Data) -> Trouble | None:
    """What the event reports; None when people need not know it."""
    read = _TROUBLES.get(event.type)
    return None if read is None else read(event, data)


def _summary(event: StoredEvent, data: Data) -> Sentence:
    return Sentence(str(data.get("summary") or end_text(event.type.partition(".")[2])), data.get("quote"))


# -- what events end

_ENDS_OF_HELD = frozenset(["run.succeeded", "run.failed", "run.cancelled", "run.unknown", "run.interrupted",
                           "run.over_budget", "run.retrying", "run.adopted"])  # fmt: skip
_DECIDED = frozenset(
    ["approval.approved", "approval.denied", "approval.expired", "approval.voided", "approval.edited", "approval.used"]
)
_RESUMED: frozenset[str] = frozenset(["paused", "broken", "budget"])
_RECOVERED: frozenset[str] = frozenset(["failed", "budget"])


def resolution_of(event: StoredEvent, data: Data, incident: IncidentRow) -> Resolution | None:
    """How the event ends an incident of its schedule, or of none; None when the incident stays open."""
    kind = incident.kind
    if event.type == "schedule.deleted":
        return "deleted"
    if event.type == "run.succeeded" and kind in _RECOVERED:
        return "recovered"
    if kind in ("late", "slow") and event.run_id == incident.run_id and event.type in TERMINAL_EVENTS:
        return "ended"
    if kind == "held" and event.run_id == incident.run_id and event.type in _ENDS_OF_HELD:
        return "ended"
    if kind == "failed" and event.type in ("schedule.auto_paused", "budget.exceeded"):
        return "paused"
    if event.type == "schedule.resumed" and kind in _RESUMED:
        return "resumed"
    if event.type == "schedule.updated" and kind == "broken":
        return "changed"
    if kind == "approval" and event.type in _DECIDED and incident.signature == f"approval {data.get('approval')}":
        return "decided"
    return _resolution_without_schedule(event, data, incident)


def _resolution_without_schedule(event: StoredEvent, data: Data, incident: IncidentRow) -> Resolution | None:
    kind, signature = incident.kind, incident.signature
    if kind == "login" and event.type == "throttle.deleted":
        return "ended" if signature == f"provider {data.get('provider')}" else None
    if kind == "limit" and event.type in ("throttle.ended", "throttle.deleted"):
        return "ended" if signature == f"provider {data.get('provider')}" else None
    if kind == "engine" and event.type == "engine.can_start":
        return "ended" if signature == str(data.get("host")) else None
    if kind == "undelivered" and event.type in ("policy.set", "policy.deleted") and data.get("kind") == "destination":
        return "changed" if signature == data.get("name") else None
    return None


_ENDING = frozenset(
    ["schedule.deleted", "schedule.resumed", "schedule.updated", "run.cancelled", "run.retrying", "run.adopted",
     "throttle.ended", "throttle.deleted", "policy.set", "policy.deleted", "engine.can_start"]
)  # fmt: skip
EVENT_TYPES = frozenset(_TROUBLES) | _ENDING | _DECIDED
"""The events that may change incidents, beside `run.succeeded`, and what never ran, of schedules that have one."""


# -- decisions


def decide(
    event: StoredEvent, data: Data, known: Sequence[IncidentRow], told_this_hour: Callable[[Trouble], int], now: int
) -> list[Step]:
    """What an event changes. `known` are the open incidents of its schedule and of none."""
    trouble = trouble_of(event, data)
    ended: list[tuple[IncidentRow, Resolution]] = [
        (incident, how) for incident in known if (how := resolution_of(event, data, incident)) is not None
    ]
    steps = _resolved(ended, now)
    if trouble is None:
        return steps
    over = {incident.id for incident, _ in ended}
    same = (trouble.schedule_id, trouble.kind, trouble.signature)
    for incident in known:
        if incident.id not in over and (incident.schedule_id, incident.kind, incident.signature) == same:
            details = _gathered(incident, trouble) if trouble.kind == "missed" else trouble.details
            repeated = incident._replace(
                summary=trouble.summary.text, quote=trouble.summary.quote, error=trouble.error, run_id=event.run_id,
                times=incident.times + trouble.counts, details=_json(details), last_at=event.at,
            )  # fmt: skip
            return [*steps, Step("repeated", repeated, False)]
    return [*steps, _opened(trouble, event, told_this_hour(trouble), now)]


def _opened(trouble: Trouble, event: StoredEvent, told_this_hour: int, now: int) -> Step:
    gathering = trouble.kind == "missed"
    next_at = now + GROUPING_MS if gathering or trouble.kind == "spending" else next_reminder(trouble.kind, now, now)
    incident = IncidentRow(
        0, trouble.schedule_id, trouble.kind, trouble.signature, *trouble.summary, trouble.error, event.run_id,
        trouble.counts, _json(trouble.details), now, event.at, 0, 0, next_at,
    )  # fmt: skip
    return Step("opened", incident, not gathering and told_this_hour < MAX_NEW_PER_HOUR)


def _gathered(incident: IncidentRow, trouble: Trouble) -> dict[str, Any]:
    """The missed slots so far and these, by schedule."""
    before, more = orjson.loads(incident.details), trouble.details
    schedules: dict[str, int] = before["schedules"]
    for name, slots in more["schedules"].items():
        if name in schedules or len(schedules) < _MAX_SCHEDULES:
            schedules[name] = schedules.get(name, 0) + slots
    return {"schedules": schedules, "from": min(before["from"], more["from"]), "to": max(before["to"], more["to"])}


def _resolved(ended: Sequence[tuple[IncidentRow, Resolution]], now: int) -> list[Step]:
    """The ends of incidents. One message says that all have recovered, with their numbers added."""
    steps = [Step("resolved", resolve(incident, how, now), False) for incident, how in ended]
    recovered = [index for index, (incident, how) in enumerate(ended) if how == "recovered" and incident.told]
    if recovered:
        first = recovered[0]
        whole = [incident for incident, how in ended if how == "recovered"]
        totals = {"failures": sum(one.times for one in whole), "since": min(one.opened_at for one in whole)}
        steps[first] = Step("resolved", steps[first].incident._replace(details=_json(totals)), True)
    return steps


def resolve(incident: IncidentRow, how: Resolution, now: int) -> IncidentRow:
    return incident._replace(resolved_at=now, resolution=how, next_at=None)


def look_again(incident: IncidentRow, now: int) -> list[Step]:
    """What is due for an incident: the message about missed slots, a reminder, or a silent end."""
    if incident.kind == "missed":
        told = Step("opened", incident._replace(next_at=None), True)
        return [told, Step("resolved", resolve(incident, "ended", now), False)]
    if incident.kind == "spending":  # its only message was sent when it was opened
        return [Step("resolved", resolve(incident, "ended", now), False)]
    if incident.kind == "login":  # as long as it is refused, it is tried at least every 15 minutes
        if incident.times == incident.told_times:
            return [Step("resolved", resolve(incident, "quiet", now), False)]
        return [Step("repeated", incident._replace(told_times=incident.times, next_at=now + HOUR_MS), False)]
    if incident.times == incident.told_times and incident.kind not in _STANDING:
        if incident.kind == "undelivered" and not orjson.loads(incident.details)["gone"]:
            return [Step("resolved", resolve(incident, "quiet", now), False)]
        return [
            Step("repeated", incident._replace(next_at=next_reminder(incident.kind, incident.opened_at, now)), False)
        ]
    return [Step("reminded", incident._replace(next_at=next_reminder(incident.kind, incident.opened_at, now)), True)]


def next_reminder(kind: str, opened_at: int, now: int) -> int | None:
    """The first reminder after `now`: 1 h, 6 h and 24 h after the opening, then each 24 h; None for other kinds."""
    if kind == "login":
        return now + HOUR_MS
    if kind not in _REMINDED:
        return None
    for delay in REMINDERS_MS:
        if opened_at + delay > now:
            return opened_at + delay
    return opened_at + ((now - opened_at) // DAY_MS + 1) * DAY_MS


def acknowledge(incident: IncidentRow, by: str, now: int) -> IncidentRow:
    """No further message, until the incident recovers."""
    return incident._replace(acknowledged_at=now, acknowledged_by=by, next_at=None)


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(dict(value)).decode()
