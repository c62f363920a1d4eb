"""Values of use cases as JSON, there and back."""

from __future__ import annotations

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
from matins.model.policy import Approval, Purse, Throttle, Vote
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule
from matins.model.thread import Landing, Message, Thread
from matins.service.auditing import Audit
from matins.service.explaining import Attempt, Record, Why
from matins.service.forecasts import Forecast, Slot
from matins.service.gates_now import GateSays
from matins.service.stats import Stats
from matins.service.what_if import CatchUp, ChangeForecast, MadeUp, WordChange

_TAG = "$matins"
_ANSWERS = (Why, Record, Attempt, GateSays, Slot, Forecast, ChangeForecast, WordChange, CatchUp, MadeUp, Stats, Audit)
_ROWS = (Approval, Vote, Throttle, Purse, Thread, Message, Landing)
_TUPLES: dict[str, Any] = {kind.__name__: kind for kind in (*_ROWS, *_ANSWERS)}
_VALUES: dict[str, Any] = {kind.__name__: kind for kind in (Budget, Price)}


def to_wire(value: Any) -> Any:
    match value:
        case Schedule():
            return {_TAG: "schedule", **_plain(value), "definition": encode(value.definition)}
        case Run():
            return {_TAG: "run", **_plain(value)}
        case Trigger():
            return {_TAG: "trigger", **value.to_dict()}
        case QuietHours():
            return {_TAG: "quiet_hours", **quiet_hours.to_dict(value)}
        case Agent():
            return {_TAG: "agent", **to_wire(agent_to_dict(value))}
        case AgentRules():
            return {_TAG: "agent_rules", **rules_to_dict(value)}
        case _ if isinstance(value, _ROWS):
            plain = {name: to_wire(item) for name, item in value._asdict().items()}
            return {_TAG: type(value).__name__, **plain}
        case Budget() | Price():
            return {_TAG: type(value).__name__, **asdict(value)}
        case _ if isinstance(value, _ANSWERS):
            return {_TAG: type(value).__name__, **{f.name: to_wire(getattr(value, f.name)) for f in fields(value)}}
        case dict():
            plain = {key: to_wire(item) for key, item in cast("dict[str, Any]", value).items()}
            return {_TAG: "plain", "items": plain} if _TAG in plain else plain
        case list() | tuple() | range():
            return [to_wire(item) for item in cast("list[Any]", value)]
        case _:
            return value


def from_wire(value: Any) -> Any:
    if isinstance(value, list):
        return [from_wire(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    data: dict[str, Any] = dict(cast("dict[str, Any]", value))
    match data.pop(_TAG, None):
        case "plain":  # somebody else's words, which happen to hold our tag
            return {key: from_wire(item) for key, item in data["items"].items()}
        case str(kind) if kind in _TUPLES:
            return _tuple(_TUPLES[kind], data)
        case str(kind) if kind in _VALUES:
            return _VALUES[kind](**data)
        case "agent":
            return agent_from_dict(data)
        case "agent_rules":
            return rules_from_dict(data)
        case "quiet_hours":
            return quiet_hours.from_dict(data)
        case "schedule":
            data["definition"] = decode(data["definition"])
            return Schedule(**data)
        case "run":
            data["state"] = RunState(data["state"])
            return Run(**data)
        case "trigger":
            return compile_trigger(from_dict(data))
        case _:
            return {key: from_wire(item) for key, item in data.items()}


def _plain(value: Schedule | Run) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _tuple(kind: Any, data: dict[str, Any]) -> Any:
    values = {name: from_wire(item) for name, item in data.items()}
    return kind(**{name: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for name, v in values.items()})
