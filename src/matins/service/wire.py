"""Values of use cases as JSON, there and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from matins.engine.schedules import decode, encode
from matins.engine.when.definitions import from_dict
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule

_TAG = "$matins"


def to_wire(value: Any) -> Any:
    match value:
        case Schedule():
            return {_TAG: "schedule", **_plain(value), "definition": encode(value.definition)}
        case Run():
            return {_TAG: "run", **_plain(value)}
        case Trigger():
            return {_TAG: "trigger", **value.to_dict()}
        case dict():
            return {key: to_wire(item) for key, item in cast("dict[str, Any]", value).items()}
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
