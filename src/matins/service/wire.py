"""Values of use cases as JSON, there and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, cast

from matins.engine import quiet_hours
from matins.engine.agent_rules import AgentRules, rules_from_dict, rules_to_dict
from matins.engine.agents import agent_from_dict, agent_to_dict
from matins.engine.budgets import Budget
from matins.engine.prices import Price
from matins.engine.quiet_hours import QuietHours
from matins.engine.schedules import decode, encode
from matins.engine.when.definitions import from_dict
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.model.agent import Agent
from matins.model.desk import FileEntry, Token
from matins.model.policy import Approval, Purse, Throttle, Vote
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule
from matins.model.thread import Landing, Message, Thread
from matins.service.auditing import Audit
from matins.service.backup import Backup
from matins.service.doctor import Finding
from matins.service.explaining import Attempt, Record, Why
from matins.service.forecasts import Forecast, Slot
from matins.service.gates_now import GateSays
from matins.service.governing import Hook, Limit, Rate
from matins.service.jobs import Jobs
from matins.service.journal import Event
from matins.service.output import Output
from matins.service.overviews import Overview
from matins.service.snapshots import Snapshot
from matins.service.stats import Stats
from matins.service.tokens import NewToken
from matins.service.what_if import CatchUp, ChangeForecast, MadeUp, WordChange
from matins.work.base import SourceDefinition
from matins.work.base import from_dict as source_from_dict
from matins.work.base import to_dict as source_to_dict

_TAG = "$matins"
_ROWS = (
    Approval, Vote, Throttle, Purse, Thread, Message, Landing, FileEntry, Token, Event, Output, Limit, Hook, Rate, Jobs,
)  # fmt: skip
_ANSWERS = (
    Why,
    Record,
    Attempt,
    GateSays,
    Slot,
    Forecast,
    ChangeForecast,
    WordChange,
    CatchUp,
    MadeUp,
    Stats,
    Audit,
    Overview,
    NewToken,
    Snapshot,
    Finding,
    Backup,
)


class _Codec:
    """How values of one kind are written, and read again."""

    def __init__(self, tag: str, write: Callable[[Any], dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> None:
        self.tag = tag
        self.write = write
        self.read = read


def to_wire(value: Any) -> Any:
    codec = _WRITERS.get(cast("type[Any]", type(value)))
    if codec is not None:
        return {_TAG: codec.tag, **codec.write(value)}
    if isinstance(value, dict):
        plain = {key: to_wire(item) for key, item in cast("dict[str, Any]", value).items()}
        return {_TAG: "plain", "items": plain} if _TAG in plain else plain
    if isinstance(value, (list, tuple, range)):
        return [to_wire(item) for item in cast("list[Any]", value)]
    return value


def from_wire(value: Any) -> Any:
    if isinstance(value, list):
        return [from_wire(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    data: dict[str, Any] = dict(cast("dict[str, Any]", value))
    tag = data.pop(_TAG, None)
    if tag == "plain":  # somebody else's words, which happen to hold our tag
        data, tag = data["items"], None
    codec = _READERS.get(tag) if isinstance(tag, str) else None
    return {key: from_wire(item) for key, item in data.items()} if codec is None else codec.read(data)


def _plain(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _schedule(data: dict[str, Any]) -> Schedule:
    data["definition"] = decode(data["definition"])
    return Schedule(**data)


def _run(data: dict[str, Any]) -> Run:
    data["state"] = RunState(data["state"])
    return Run(**data)


def _parts(value: Any) -> dict[str, Any]:
    """Of a row or an answer; each part may be one of ours."""
    plain: dict[str, Any] = value._asdict() if hasattr(value, "_asdict") else _plain(value)
    return {name: to_wire(item) for name, item in plain.items()}


def _whole(kind: Any) -> Callable[[dict[str, Any]], Any]:
    def read(data: dict[str, Any]) -> Any:
        values = {name: from_wire(item) for name, item in data.items()}
        return kind(**{name: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for name, v in values.items()})

    return read


_WRITERS: dict[type[Any], _Codec] = {
    Schedule: _Codec("schedule", lambda value: {**_plain(value), "definition": encode(value.definition)}, _schedule),
    Run: _Codec("run", _plain, _run),
    Trigger: _Codec("trigger", lambda value: value.to_dict(), lambda data: compile_trigger(from_dict(data))),
    QuietHours: _Codec("quiet_hours", quiet_hours.to_dict, quiet_hours.from_dict),
    Budget: _Codec("budget", asdict, lambda data: Budget(**data)),
    Price: _Codec("price", asdict, lambda data: Price(**data)),
    Agent: _Codec("agent", lambda value: to_wire(agent_to_dict(value)), agent_from_dict),
    AgentRules: _Codec("agent_rules", rules_to_dict, rules_from_dict),
    SourceDefinition: _Codec("work", source_to_dict, source_from_dict),
    **{kind: _Codec(kind.__name__, _parts, _whole(kind)) for kind in (*_ROWS, *_ANSWERS)},
}
_READERS = {codec.tag: codec for codec in _WRITERS.values()}
