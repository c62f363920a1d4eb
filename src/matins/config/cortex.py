"""Cortex's `schedules.json` instead of `matins.yaml`: its tasks are read, and computed fields are written back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from matins.config.problems import Problem
from matins.config.reader import FileItem, Location, ParsedFile, SettingsBlock
from matins.config.structure import duplicate_keys, structure_problems
from matins.engine.english.vocabulary import DAYS
from matins.engine.reasons import rfc3339
from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.texts.yaml_nodes import (
    MappingNode,
    Node,
    Position,
    Scalar,
    SequenceNode,
    parse,
    plain,
    to_python,
    with_fields,
)

_ID = re.compile(r"[0-9a-f]{8}")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_READ = {
    "message": "prompt", "profile": "agent", "dispatchType": "job", "preCheck": "pre_check", "target": "target",
    "fallback": "fallback",
}  # fmt: skip
_TIMED = {
    "interval": ("intervalMs",),
    "daily": ("time",),
    "weekly": ("time", "dayOfWeek"),
    "once": ("runAt",),
}
_CREATED_AT = "createdAt"
COMPUTED = ("nextRun", _CREATED_AT, "lastRun", "lastSkipped", "pausedAt", "pausedBy")
_KNOWN_FIELDS = ("id", "type", *_READ, "channel", "intervalMs", "time", "dayOfWeek", "runAt", "isPaused", *COMPUTED)
THROTTLE = "throttle"
_THROTTLED = "rate-limit"


def read(text: str) -> ParsedFile:
    """Every task as a schedule, by its id; `profile` is the agent. Computed fields are ignored."""
    try:
        root = parse(text)
    except InvalidInput as error:
        where, _, what = error.message.partition(": ")
        line, column = (int(part.split()[1]) for part in where.split(", "))
        problem = Problem(Position(0, 0, line, column), "", what.replace("YAML", "JSON"), hint="Check this line.")
        return ParsedFile({}, None, (), (problem,))
    if root is None:
        return ParsedFile({}, None, (), (), True)
    unsound = (*structure_problems(root), *duplicate_keys(root))
    return ParsedFile({}, None, (), unsound) if unsound else _tasks(root)


def _tasks(root: Node) -> ParsedFile:
    listed = _task_nodes(root)
    if listed is None:
        problem = Problem(root.position, "tasks", "must be a list of tasks", hint='{"tasks": []}')
        return ParsedFile({}, None, (), (problem,))
    items: list[FileItem] = []
    problems: list[Problem] = []
    for number, node in enumerate(listed):
        location = Location(f"tasks[{number}]", node, node)
        try:
            items.append(_task(location))
        except InvalidInput as error:
            place = _field_position(node, error.field)
            path = f"{location.path}.{error.field}" if error.field else location.path
            problems.append(Problem(place, path, error.message, error.value, error.allowed, error.hint))
    return ParsedFile({"preset": "cortex"}, None, tuple(items), tuple(problems))


def _task_nodes(root: Node) -> tuple[Node, ...] | None:
    if isinstance(root, SequenceNode):
        return root.items
    for key, value in root.entries if isinstance(root, MappingNode) else ():
        if isinstance(key, Scalar) and key.value == "tasks" and isinstance(value, SequenceNode):
            return value.items
    return None


def _field_position(node: Node, field: str | None) -> Any:
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(key, Scalar) and key.value == field:
            return value.position
    return node.position


def _task(location: Location) -> FileItem:
    if not isinstance(location.node, MappingNode):
        raise InvalidInput("must be an object.", hint='{"id": "d6f1bb1e", "type": "interval", …}')
    given: dict[str, Any] = to_python(location.node)
    for text in given:
        if text not in _KNOWN_FIELDS:
            raise InvalidInput(f'a task has no "{text}".', field=text, allowed=", ".join(_KNOWN_FIELDS),
                               hint=nearest(text, _KNOWN_FIELDS))  # fmt: skip
    task_id = given.get("id")
    if not isinstance(task_id, str) or not _ID.fullmatch(task_id):
        raise InvalidInput(
            f"must be 8 hexadecimal digits, not {task_id!r}.", value=task_id, field="id", hint='"id": "d6f1bb1e"'
        )
    texts = {text: given[theirs] for theirs, text in _READ.items() if given.get(theirs) is not None}
    texts |= {"when": _when(given), "target": _target(given)}
    if given.get("isPaused") is True and given.get("pausedBy") != _THROTTLED:
        texts["paused"] = True
    locations = {_READ.get(text, text): inner for text, inner in _locations(location).items()}
    for theirs in ("intervalMs", "time", "runAt"):
        if theirs in locations:
            locations["when"] = locations[theirs]
    return FileItem(
        "schedule",
        task_id,
        "",
        SettingsBlock(Location(location.path, locations["id"].key, location.node), texts, locations),
    )


def _locations(location: Location) -> dict[str, Location]:
    entries = location.node.entries if isinstance(location.node, MappingNode) else ()
    return {str(k.value): Location(f"{location.path}.{k.value}", k, v) for k, v in entries if isinstance(k, Scalar)}


def _when(given: Mapping[str, Any]) -> str:
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _TIMED:
        allowed = ", ".join(_TIMED)
        raise InvalidInput(
            f"must be {allowed}, not {kind!r}.",
            value=kind,
            field="type",
            allowed=allowed,
            hint=f"Use one of: {allowed}.",
        )
    for text in _TIMED[kind]:
        if given.get(text) is None:
            raise InvalidInput(f'type {kind} needs "{text}".', field=text, hint=f'"{text}": …')
    if kind == "interval":
        return f"{_seconds(given['intervalMs'])}s"
    if kind == "once":
        return str(rfc3339(_instant(given["runAt"])))
    time = given["time"]
    if not isinstance(time, str) or not _CLOCK.fullmatch(time):
        raise InvalidInput(f"must be HH:MM, not {time!r}.", value=time, field="time", hint='"time": "09:00"')
    return f"every day at {time}" if kind == "daily" else f"every {_day(given['dayOfWeek'])} at {time}"


def _seconds(value: Any) -> int:
    if type(value) is not int or value < 1000 or value % 1000:
        hint = '"intervalMs": 30000'
        raise InvalidInput(
            f"must be whole seconds in milliseconds, not {value!r}.", value=value, field="intervalMs", hint=hint
        )
    return value // 1000


def _instant(value: Any) -> int:
    if type(value) is not int or not 0 < value < 253_370_764_800_000:
        raise InvalidInput(f"must be epoch milliseconds, not {value!r}.", value=value, field="runAt")
    return value


def _day(value: Any) -> str:
    if type(value) is not int or not 0 <= value <= 6:
        raise InvalidInput(f"must be 0 (Sunday) to 6, not {value!r}.", value=value, field="dayOfWeek", allowed="0 to 6")
    return DAYS[value]


def _target(given: Mapping[str, Any]) -> Any:
    """The target of a task. A fresh conversation is in the task's channel too."""
    target, channel = given.get("target") or "fresh", given.get("channel")
    texts = {"kind": target} if isinstance(target, str) else target
    return {"channel": channel, **texts} if channel is not None and isinstance(texts, dict) else texts


# writing back


def write_computed(text: str, computed: Mapping[str, Mapping[str, Any]], throttle: Mapping[str, Any] | None) -> str:
    """The text with these fields of tasks set, and no other byte changed; None for a value that has ended."""
    root = parse(text)
    nodes = _task_nodes(root) if root is not None else None
    for node in reversed(nodes or ()):
        if isinstance(node, MappingNode):
            fields: dict[str, Any] = to_python(node)
            changes = _changes(fields, computed.get(str(fields.get("id")), {}))
            text = with_fields(text, node, "id", changes) if changes else text
    return _with_throttle(text, throttle)


def _changes(fields: Mapping[str, Any], computed: Mapping[str, Any]) -> dict[str, Any]:
    """The fields to write. Empty values are not added, and an existing `createdAt` stays."""
    wanted = {key: value for key, value in computed.items() if (key != _CREATED_AT if key in fields else value)}
    return {key: value for key, value in wanted.items() if key not in fields or fields[key] != value}


def _with_throttle(text: str, throttle: Mapping[str, Any] | None) -> str:
    root = parse(text)
    values = {plain(key): to_python(value) for key, value in root.entries} if isinstance(root, MappingNode) else {}
    if not isinstance(root, MappingNode) or values.get(THROTTLE) == throttle:
        return text
    return with_fields(text, root, "tasks", {THROTTLE: throttle})
