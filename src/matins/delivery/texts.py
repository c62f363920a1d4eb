"""Notices: when people get a message about an incident, and its text. Pure: `now` is an argument."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import orjson

from matins.delivery.decisions import HOUR_MS, Action
from matins.engine.answers import quiet_hours_until
from matins.engine.policies import Policies
from matins.engine.reasons import local_time
from matins.engine.when.durations import DAY_MS
from matins.model.destination import Destination
from matins.model.event import IncidentRow
from matins.model.words import counted, joined, write_out

Level = Literal["bad", "good", "info"]
MAX_OUTPUT_LINES, MAX_OUTPUT_LENGTH = 10, 1_500
_MAX_DIGEST_LINES = 50
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


class NoticeText(NamedTuple):
    """A message in plain text. Each kind of destination lays it out in its own way."""

    title: str
    """One line. Its only text from outside is the name of a schedule, a provider or a destination."""
    text: str
    output: str = ""
    """The last lines of the output of the run."""
    commands: tuple[str, ...] = ()
    link: str | None = None
    level: Level = "bad"
    facts: Mapping[str, Any] = {}
    """The incident as JSON, for programs."""
    key: str = ""
    """A key that is the same at each attempt, so that a receiver recognizes a repetition. It is empty for a test."""


# -- when


def held_until(
    destination: Destination, incident: IncidentRow, policies: Policies, sent_this_hour: int, now: int
) -> int | None:
    """When a digest contains it: after the person's quiet hours, or on the hour; None when it is sent at once."""
    quiet = quiet_hours_until(destination, policies, now)
    if quiet is not None and incident.kind not in destination.urgent:
        expires_at = orjson.loads(incident.details).get("expires_at")
        if expires_at is None or expires_at >= quiet:
            return quiet
    return (now // HOUR_MS + 1) * HOUR_MS if sent_this_hour >= destination.max_per_hour else None


# -- in which words


class Subject(NamedTuple):
    """What a message is about."""

    name: str
    """The schedule; empty for an incident of none or of several."""
    zone: str


def title_of(action: Action, incident: IncidentRow, subject: Subject, now: int) -> str:
    name, span = subject.name, span_text(now - incident.opened_at)
    if action == "resolved":
        totals = orjson.loads(incident.details)
        failures, since = totals.get("failures", incident.times), totals.get("since", incident.opened_at)
        return f"✓ {name} recovered after {counted(failures, 'failure')} in {span_text(now - since)}"
    text = _TITLES[incident.kind](incident, name)
    if action == "reminded":
        return f"{text}: {counted(incident.times, 'time')} in {span}" if incident.times > 1 else f"{text}, {span} ago"
    return text


def _missed_title(incident: IncidentRow, name: str) -> str:
    schedules = orjson.loads(incident.details)["schedules"]
    return f"⌛ {counted(len(schedules), 'schedule')} missed {counted(incident.times, 'slot')}"


_TITLES: Mapping[str, Callable[[IncidentRow, str], str]] = {
    "failed": lambda incident, name: f"✗ {name} failed",
    "held": lambda incident, name: f"‖ {name} needs you: run {incident.run_id} is held",
    "missed": _missed_title,
    "paused": lambda incident, name: f"‖ {name} was paused because its runs failed",
    "broken": lambda incident, name: f"✗ {name} cannot be read, and is set aside",
    "budget": lambda incident, name: f"$ {name} is over its budget",
    "limit": lambda incident, name: f'⌛ Provider "{orjson.loads(incident.details)["provider"]}" limits its requests',
    "login": lambda incident, name: f'✗ Provider "{orjson.loads(incident.details)["provider"]}" refuses the login',
    "approval": lambda incident, name: f"? {name} needs approval",
    "undelivered": lambda incident, name: f'✗ Messages do not arrive at "{incident.signature}"',
    "spending": lambda incident, name: f"$ {incident.summary}",
    "late": lambda incident, name: f"⌛ {name} is late",
    "slow": lambda incident, name: f"⌛ {name} takes long",
    "engine": lambda incident, name: f"✗ {incident.signature} cannot start agents",
}


def message_of(
    action: Action, incident: IncidentRow, subject: Subject, now: int, *, output: str = "", base_url: str | None = None
) -> NoticeText:
    """The message about an incident, as it is now."""
    recovered = action == "resolved"
    error = clean_text(incident.error or joined(incident.summary, incident.quote))
    lines = [f"The last error was: {error}"] if recovered else _lines(action, incident, subject, now)
    return NoticeText(
        title=title_of(action, incident, subject, now),
        text="\n".join(lines),
        output="" if recovered else last_lines(output),
        commands=() if recovered else _commands(incident, subject.name),
        link=_link(incident, base_url),
        level="good" if recovered else "info" if incident.kind in ("limit", "approval") else "bad",
        facts=_facts(action, incident, subject),
    )


def _lines(action: Action, incident: IncidentRow, subject: Subject, now: int) -> list[str]:
    details, error = orjson.loads(incident.details), incident.error
    summary = joined(incident.summary, incident.quote)
    lines = [clean_text(summary)]
    if error and error.rstrip(".") not in summary:
        lines.append(clean_text(error))
    if incident.kind == "missed":
        first, last = (local_time(details[key], subject.zone) for key in ("from", "to"))
        lines.append(f"The slots are from {first} to {last}.")
    for key, text in (("until", "It resets at"), ("expires_at", "The request expires at")):
        if details.get(key):
            lines.append(f"{text} {local_time(details[key], subject.zone, now)}.")
    if action == "reminded":
        since = local_time(incident.opened_at, subject.zone, now - DAY_MS)
        lines.append(f"It happened {counted(incident.times, 'time')} since {since}.")
    return lines


def _commands(incident: IncidentRow, name: str) -> tuple[str, ...]:
    quoted, run, details = shlex.quote(name), incident.run_id, orjson.loads(incident.details)
    acknowledge = f"matins ack {incident.id}"
    match incident.kind:
        case "failed" | "late" | "slow":
            logs = [f"matins logs {run}"] if run and incident.kind != "late" else []
            return (f"matins why {quoted}", *logs, acknowledge)
        case "held":
            return f"matins why {quoted}", f"matins resolve {run}"
        case "paused":
            return f"matins why {quoted}", f"matins resume {quoted}"
        case "approval":
            return f"matins approvals show {details['approval']}", f"matins approve {details['approval']}"
        case "missed":
            return ("matins runs",)
        case "limit":
            return ("matins throttles",)
        case "login":
            return str(details["login"]), f"matins throttles rm {shlex.quote(str(details['provider']))}"
        case "undelivered":
            return (f"matins notify test {shlex.quote(incident.signature)}",)
        case "engine":
            return "matins doctor", acknowledge
        case "budget":
            return f"matins why {quoted}", "matins budgets"
        case _:
            return f"matins show {quoted}", acknowledge


def _link(incident: IncidentRow, base_url: str | None) -> str | None:
    if base_url is None:
        return None
    number = orjson.loads(incident.details).get("approval")
    if number:
        return f"{base_url.rstrip('/')}/approvals/{number}"
    return f"{base_url.rstrip('/')}/{f'runs/{incident.run_id}' if incident.run_id else 'incidents'}"


def _facts(action: Action, incident: IncidentRow, subject: Subject) -> dict[str, Any]:
    return {
        "action": action,
        "incident": str(incident.id),
        "kind": incident.kind,
        "schedule": subject.name or None,
        "run_id": None if incident.run_id is None else str(incident.run_id),
        "count": incident.times,
        "opened_at": incident.opened_at,
        "error": incident.error,
    }


def digest_of(titles: list[str], now: int) -> NoticeText:
    """The messages that were held back, as one."""
    shown = [f"- {title}" for title in titles[:_MAX_DIGEST_LINES]]
    more = [f"and {len(titles) - _MAX_DIGEST_LINES} more"] if len(titles) > _MAX_DIGEST_LINES else []
    facts = {"action": "digest", "count": len(titles), "titles": titles[:_MAX_DIGEST_LINES], "at": now}
    title = f"{counted(len(titles), 'message')} in quiet hours, or above the limit of an hour"
    return NoticeText(title, "\n".join([*shown, *more]), commands=("matins incidents",), level="info", facts=facts)


def last_lines(output: str) -> str:
    """The last lines of an output, without control characters."""
    lines = [line.rstrip() for line in clean_text(output, keep="\n\t").split("\n")]
    kept = "\n".join([line for line in lines if line][-MAX_OUTPUT_LINES:])
    return kept if len(kept) <= MAX_OUTPUT_LENGTH else f"…{kept[-MAX_OUTPUT_LENGTH + 1 :]}"


def clean_text(text: str, *, keep: str = "") -> str:
    """The text without colours, and without hidden characters but those of `keep`; line ends become spaces."""
    plain = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    printable = "".join(c if c.isprintable() or c in keep else " " if c in "\n\t" else "\ufffd" for c in plain)
    return write_out(printable, lambda _: "\ufffd", keep).strip()


def span_text(milliseconds: int) -> str:
    """`5 h 12 min`, `3 d 2 h`, `40 s`."""
    seconds = max(0, milliseconds) // 1000
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"
    if hours:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{minutes} min"
