"""Use cases in JSON documents: ids are texts, instants RFC 3339 in UTC, states words. Arguments in, answers out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, cast

from matins.engine import budgets, quiet_hours
from matins.engine.agents import HIDDEN, agent_to_dict
from matins.engine.budgets import Budget
from matins.engine.events import canonical_types
from matins.engine.money import format_money
from matins.engine.prices import Price
from matins.engine.quiet_hours import QuietHours
from matins.engine.when.definitions import to_dict
from matins.engine.when.triggers import to_ms
from matins.errors import InstantError, InvalidInput, MatinsError
from matins.model.agent import Agent
from matins.model.desk import FileEntry, Token
from matins.model.policy import Purse
from matins.model.run import Run
from matins.model.schedule import Schedule
from matins.service.overviews import Overview
from matins.service.previews import Fire

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IDS = frozenset({"id", "parent", "creator_run", "event", "voids"})
INSTANTS = frozenset(
    {
        "at",
        "slot",
        "first",
        "covered_from",
        "until",
        "paused_until",
        "not_before",
        "next_slot",
        "since",
        "nearest",
        "oldest_approval",
    }
)
Document = dict[str, Any]
ID_ARGUMENTS = frozenset({"run_id", "approval_id", "thread_id", "after", "before"})
INSTANT_ARGUMENTS = frozenset({"until", "at", "since", "resets_at", "expires_at"})
_COMMANDS = {(use_case, word) for use_case in ("add", "edit", "preview_change") for word in ("before", "after")}
_AS_THEY_ARE = frozenset({("deliveries", "after"), ("next_times", "after"), *_COMMANDS})
"""An event's id names its store too; a calculator takes an instant; a schedule's hooks are commands."""
_LONGEST_ID = 18
_LATEST = 253_402_300_799_999
"""The end of the year 9999."""


def document(value: Any) -> Any:
    """Any value that a use case gives back."""
    writer = _WRITERS.get(cast("type[Any]", type(value)))
    if writer is not None:
        return writer(value)
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _part(f.name, getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple) and type(cast("object", value)) is not tuple:
        return {name: _part(name, item) for name, item in cast("Any", value)._asdict().items()}
    if isinstance(value, Mapping):
        return {str(key): document(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[str]", value))
    if isinstance(value, (list, tuple)):
        return [document(item) for item in cast("list[Any]", value)]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.total_seconds() if isinstance(value, timedelta) else value


def instant(at: int | None) -> str | None:
    """RFC 3339 in UTC, with milliseconds where there are any."""
    if at is None:
        return None
    text = (_EPOCH + timedelta(milliseconds=at)).isoformat(timespec="milliseconds" if at % 1000 else "seconds")
    return text.replace("+00:00", "Z")


def _part(name: str, value: Any) -> Any:
    """A field, by what its name says that it is."""
    if isinstance(value, int) and not isinstance(value, (bool, Enum)):
        if name in INSTANTS or name.endswith("_at"):
            return instant(value)
        if name in IDS or name.endswith("_id"):
            return str(value)
    if isinstance(value, tuple) and (name in INSTANTS or name in IDS):
        return [_part(name, item) for item in cast("tuple[int, ...]", value)]
    return document(value)


def answer_document(use_case: str, value: Any) -> Any:
    """What a use case gives back; rows that it gives as plain dictionaries are read by their names too."""
    if use_case in _ROWS:
        return [_row(row) for row in cast("list[Document]", value)] if isinstance(value, list) else _row(value)
    shape = _SHAPES.get(use_case)
    return document(value) if shape is None else shape(value)


def _row(row: Document) -> Document:
    return {name: _part(name, item) for name, item in row.items()}


def _budgets(value: list[tuple[Budget, list[Purse]]]) -> list[Document]:
    return [{**_budget(budget), "purses": document(purses)} for budget, purses in value]


def _overview(value: Overview) -> Document:
    last = value.last
    return {
        **_schedule(value.schedule),
        "description": value.description,
        "words": value.words,
        "last_run_at": None if last is None else instant(last.started_at or last.slot or last.planned_at),
        "last_run": None if last is None else _run(last),
        "file": None if value.file is None else _file(value.file),
    }


def _schedule(value: Schedule) -> Document:
    said = value.definition
    return {
        "id": str(value.id),
        "name": value.name,
        "agent": value.agent,
        "state": value.state,
        "enabled": value.state == "active",
        "rev": value.rev,
        "trigger": to_dict(said.trigger),
        "timezone": said.trigger.timezone,
        "do": said.do,
        "prompt": said.prompt,
        "about": said.about,
        "labels": said.labels or {},
        "next_run_at": instant(value.next_slot) if value.state == "active" else None,
        "due_at": instant(value.due_at),
        "ends_at": instant(said.ends_at),
        "note": value.note,
        "paused_by": value.paused_by,
        "paused_at": instant(value.paused_at),
        "paused_until": instant(value.paused_until),
        "executions": value.executions,
        "max_executions": said.max_executions,
        "failures": value.failures,
        "created_at": instant(value.created_at),
        "created_by": value.created_by,
        "creator_role": value.creator_role,
        "creator_run": None if value.creator_run is None else str(value.creator_run),
        "parent": None if value.parent is None else str(value.parent),
        "depth": value.depth,
        "updated_at": instant(value.updated_at),
    }


def _run(value: Run) -> Document:
    return {
        "id": str(value.id),
        "schedule_id": str(value.schedule_id),
        "schedule": value.schedule,
        "rev": value.rev,
        "state": value.said,
        "status": value.status,
        "live": value.state.live,
        "slot": instant(value.slot),
        "request_key": value.request_key,
        "covered": value.covered,
        "covered_from": instant(value.covered_from),
        "attempt": value.attempt,
        "epoch": value.epoch,
        "not_before": instant(value.not_before),
        "planned_at": instant(value.planned_at),
        "started_at": instant(value.started_at),
        "ended_at": instant(value.ended_at),
        "took_ms": value.ended_at - value.started_at if value.ended_at and value.started_at else None,
        "reason": value.reason,
        "evidence": value.evidence,
        "outcome": value.outcome,
    }


def _agent(value: Agent) -> Document:
    """As it was said; the values of its environment stay where they are, unless they are references."""
    data = agent_to_dict(value)
    environment = {name: text if text.startswith(("env:", "file:")) else HIDDEN for name, text in value.environment}
    target = {name: item for name, item in value.target._asdict().items() if item is not None}
    return {
        **document(data),
        "runner": value.runner,
        "model": value.model,
        "workdir": value.workdir,
        "environment": environment,
        "max_cost": None if value.max_cost is None else format_money(value.max_cost),
        "target": target,
    }


def _file(value: FileEntry) -> Document:
    return {"path": value.path, "line": value.line}


def _token(value: Token) -> Document:
    """Without its hash."""
    return {name: _part(name, item) for name, item in value._asdict().items() if name != "hash"}


def _quiet_hours(value: QuietHours) -> Document:
    return document(quiet_hours.to_dict(value))


def _budget(value: Budget) -> Document:
    data = budgets.to_dict(value)
    per = data.pop("period")
    return {**data, "per": per, "money": _money(value.money)}


def _purse(value: Purse) -> Document:
    return {**value._asdict(), "money": _money(value.money), "money_reserved": _money(value.money_reserved)}


def _price(value: Price) -> Document:
    return {
        "model": value.model,
        "input": _money(value.input),
        "output": _money(value.output),
        "cached": _money(value.cached),
    }


def _money(micros: int | None) -> str | None:
    return None if micros is None else format_money(micros)


def _fire(value: Fire) -> Document:
    seconds = value.away.total_seconds()
    return {
        "local": document(value.local),
        "utc": document(value.utc),
        "in_seconds": int(seconds) if seconds.is_integer() else seconds,
        "dst": value.dst,
    }


_WRITERS: dict[type[Any], Callable[[Any], Any]] = {
    Overview: _overview,
    Schedule: _schedule,
    Run: _run,
    Agent: _agent,
    Token: _token,
    FileEntry: _file,
    QuietHours: _quiet_hours,
    Budget: _budget,
    Purse: _purse,
    Price: _price,
    Fire: _fire,
}
_ROWS = frozenset({"webhooks", "add_webhook", "checks", "deliveries"})
_SHAPES: dict[str, Callable[[Any], Any]] = {
    "add_many": lambda ids: [str(number) for number in ids],
    "budgets": _budgets,
}


def event_types(names: list[str] | str | None) -> tuple[str, ...]:
    """The types that somebody wants to hear of, by our own names; none named: all."""
    return canonical_types(names)


def inside(use_case: str, name: str, value: Any) -> Any:
    """An argument of a use case, as the service takes it, from a document."""
    if value is None or (use_case, name) in _AS_THEY_ARE:
        return value
    if name in ID_ARGUMENTS:
        return _number(name, value)
    return _moment(name, value) if name in INSTANT_ARGUMENTS else value


def _number(name: str, value: Any) -> int:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID):
        raise InvalidInput(f'"{name}" is not an id: {value!r}', value=value, field=name, hint="a whole number")
    return int(text)


def _moment(name: str, value: Any) -> int:
    """Of RFC 3339 with an offset, or UTC milliseconds as they are."""
    if type(value) is int and 0 <= value <= _LATEST:
        return value
    try:
        return to_ms(datetime.fromisoformat(cast("str", value)))
    except (ValueError, TypeError, OverflowError, MatinsError):
        hint = "2026-12-31T18:00:00Z"
        raise InstantError(f'"{name}" is not an instant: {value!r}', value=value, field=name, hint=hint) from None
