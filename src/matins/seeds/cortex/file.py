"""Cortex's `schedules.json` instead of `matins.yaml`: its tasks are read, and computed fields are written back.

Computed fields are next and last runs, pauses and throttles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from itertools import count
from secrets import token_hex
from typing import Any, Literal, NamedTuple

import orjson

from matins.config.file import ConfigFile, Content, FileFormat, NewEntry
from matins.config.reader import (
    FILE_NAME,
    FileItem,
    Location,
    ParsedFile,
    Problem,
    SettingsBlock,
    duplicate_keys,
    structure_problems,
)
from matins.config.writer import content_end
from matins.engine.english.values import DAYS
from matins.engine.gates.state import BY_BUDGET, BY_FAILURES
from matins.engine.policies import DEFAULT_AGENT, Policies
from matins.engine.reasons import rfc3339
from matins.engine.schedules import schedule_settings
from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.model.clock import Clock
from matins.model.policies import Throttle
from matins.model.rows import AppliedFile, FileEntry
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.trigger import Daily, Interval, Once, TriggerDefinition, Weekly
from matins.records.kind import RecordContext
from matins.runtime.catalog import Catalog, run_record
from matins.service.file.plan import find_schedule
from matins.store import Store
from matins.store.transaction import Transaction
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
_PROJECT = "projectId"
_KNOWN_FIELDS = (
    "id", "type", *_READ, "channel", "intervalMs", "time", "dayOfWeek", "runAt", "isPaused", _PROJECT, *COMPUTED,
)  # fmt: skip
TARGET_SPELLINGS = {"session": "sessionId", "session_name": "sessionName", "thread": "threadId"}
_PRESET = {"grace": "1m", "failure_backoff": "none"}
"""The settings of this preset that a task need not name; the grace is that of one-shots."""
PROFILE = "profile"
THROTTLE = "throttle"
_THROTTLED = "rate-limit"
PausedBy = Literal["user", "rate-limit", "failures", "budget"]
PAUSED_BY: Mapping[str | None, PausedBy] = {BY_FAILURES: "failures", BY_BUDGET: "budget"}
"""Who paused a schedule, as Cortex says it; anybody else is the user."""


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
    found = _task_list(root)
    if found is None:
        problem = Problem(root.position, "tasks", "must be a list of tasks", hint='{"tasks": []}')
        return ParsedFile({}, None, (), (problem,))
    items: list[FileItem] = []
    problems: list[Problem] = []
    ids, profile = _ids(found.items), root_profile(root)
    for number, node in enumerate(found.items):
        location = Location(f"tasks[{number}]", node, node)
        try:
            items.append(_task(location, ids[number], profile))
        except InvalidInput as error:
            place = _field_position(node, error.field)
            path = f"{location.path}.{error.field}" if error.field else location.path
            problems.append(Problem(place, path, error.message, error.value, error.allowed, error.hint))
    return ParsedFile({"preset": "cortex", PROFILE: profile}, None, tuple(items), tuple(problems))


def _task_list(root: Node | None) -> SequenceNode | None:
    if isinstance(root, SequenceNode):
        return root
    for key, value in root.entries if isinstance(root, MappingNode) else ():
        if plain(key) == "tasks" and isinstance(value, SequenceNode):
            return value
    return None


def root_profile(root: Node) -> str | None:
    """The profile that the file has for tasks without one of their own."""
    fields = {plain(key): plain(value) for key, value in root.entries} if isinstance(root, MappingNode) else {}
    return str(fields[PROFILE]) if fields.get(PROFILE) else None


class Profiles(NamedTuple):
    """The agents of tasks without a profile, in a file without one."""

    active: str = DEFAULT_AGENT
    of: Mapping[str, str] = {}
    """Agents by the id of a task that has one already, and keeps it."""


def with_profiles(parsed: ParsedFile, profiles: Profiles) -> ParsedFile:
    """The tasks, all of them with an agent."""
    return parsed._replace(items=tuple(_with_profile(item, profiles) for item in parsed.items))


def _with_profile(item: FileItem, profiles: Profiles) -> FileItem:
    if "agent" in item.block.values:
        return item
    values = {**item.block.values, "agent": profiles.of.get(item.name, profiles.active)}
    return item._replace(block=item.block._replace(values=values))


def _ids(nodes: Iterable[Node]) -> list[Any]:
    """The id of each task. A task without one gets an id from its content, which the next refresh writes."""
    given: list[dict[str, Any]] = [to_python(node) if isinstance(node, MappingNode) else {} for node in nodes]
    taken = {fields.get("id") for fields in given}
    found: list[Any] = []
    for fields in given:
        task_id = fields.get("id")
        if task_id is None:
            text = orjson.dumps(
                {name: value for name, value in fields.items() if name not in COMPUTED}, option=orjson.OPT_SORT_KEYS
            )
            candidates = (sha256(b"%d%s" % (number, text)).hexdigest()[:8] for number in count())
            task_id = next(each for each in candidates if each not in taken)
            taken.add(task_id)
        found.append(task_id)
    return found


def _field_position(node: Node, field: str | None) -> Any:
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(key, Scalar) and key.value == field:
            return value.position
    return node.position


def _task(location: Location, task_id: Any, profile: str | None) -> FileItem:
    if not isinstance(location.node, MappingNode):
        raise InvalidInput("must be an object.", hint='{"id": "d6f1bb1e", "type": "interval", …}')
    given: dict[str, Any] = to_python(location.node)
    for text in given:
        if text not in _KNOWN_FIELDS:
            raise InvalidInput(f'a task has no "{text}".', field=text, allowed=", ".join(_KNOWN_FIELDS),
                               hint=nearest(text, _KNOWN_FIELDS))  # fmt: skip
    if not isinstance(task_id, str) or not is_task_id(task_id):
        raise InvalidInput(
            f"must be 8 hexadecimal digits, not {task_id!r}.", value=task_id, field="id", hint='"id": "d6f1bb1e"'
        )
    _check_message(given)
    texts = {text: given[theirs] for theirs, text in _READ.items() if given.get(theirs) is not None}
    texts |= {"when": _when(given), "target": _target(given)}
    if profile is not None:
        texts.setdefault("agent", profile)
    if given.get(_PROJECT):
        texts["labels"] = {_PROJECT: str(given[_PROJECT])}
    if given.get("isPaused") is True and given.get("pausedBy") != _THROTTLED:
        if given.get("type") == "once":
            raise InvalidInput("a task of type once cannot be paused.", field="isPaused", hint="Remove the task.")
        texts["paused"] = True
    locations = {_READ.get(text, text): inner for text, inner in _locations(location).items()}
    for theirs in ("intervalMs", "time", "runAt"):
        if theirs in locations:
            locations["when"] = locations[theirs]
    return FileItem(
        "schedule",
        task_id,
        "",
        SettingsBlock(Location(location.path, _key_node(locations, location), location.node), texts, locations),
    )


def _key_node(locations: Mapping[str, Location], location: Location) -> Node:
    """The node by which errors name the task: its id, or else its first field."""
    return locations["id"].key if "id" in locations else next(iter(locations.values()), location).key


def is_task_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _check_message(given: Mapping[str, Any]) -> None:
    message = given.get("message")
    if isinstance(message, str) and message.strip():
        return
    if "message" in given or given.get("dispatchType") is None:
        hint = '"message": "Check for new tasks"'
        raise InvalidInput(
            f"must be text that is not blank, not {message!r}.", value=message, field="message", hint=hint
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
        return f"{_milliseconds(given['intervalMs'])}ms"
    if kind == "once":
        return str(rfc3339(_instant(given["runAt"])))
    time = given["time"]
    if not isinstance(time, str) or not _CLOCK.fullmatch(time):
        raise InvalidInput(f"must be HH:MM, not {time!r}.", value=time, field="time", hint='"time": "09:00"')
    return f"every day at {time}" if kind == "daily" else f"every {_day(given['dayOfWeek'])} at {time}"


def _milliseconds(value: Any) -> int:
    if type(value) is not int or value < 1:
        hint = '"intervalMs": 30000'
        raise InvalidInput(f"must be milliseconds, not {value!r}.", value=value, field="intervalMs", hint=hint)
    return value


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
    found = _task_list(parse(text))
    nodes = () if found is None else found.items
    for task_id, node in reversed(list(zip(_ids(nodes), nodes, strict=True))):
        if isinstance(node, MappingNode):
            fields: dict[str, Any] = to_python(node)
            changes = _changes(fields, {"id": task_id, **computed.get(str(task_id), {})})
            text = with_fields(text, node, "id" if "id" in fields else "type", changes) if changes else text
    return _with_throttle(text, throttle)


def _changes(fields: Mapping[str, Any], computed: Mapping[str, Any]) -> dict[str, Any]:
    """The fields to write. Empty values are not added, and an existing `createdAt` stays."""
    wanted = {key: value for key, value in computed.items() if (key != _CREATED_AT if key in fields else value)}
    return {key: value for key, value in wanted.items() if key not in fields or fields[key] != value}


# changing the list


def with_task(text: str, task: Mapping[str, Any]) -> str:
    """The text with one more task at the end of its list."""
    listed = _listed(text)
    written = orjson.dumps(task, option=orjson.OPT_INDENT_2).decode().replace("\n", "\n    ")
    if listed.items:
        end = content_end(text, listed.items[-1])
        return f"{text[:end]},\n    {written}{text[end:]}"
    start = text.index("[", listed.position.start) + 1
    return f"{text[:start]}\n    {written}\n  {text[start:].lstrip()}"


def without_task(text: str, task_id: str) -> str:
    """The text without a task, and without the comma beside it."""
    listed = _listed(text)
    number = _ids(listed.items).index(task_id)
    items = listed.items
    if number + 1 < len(items):
        start, end = items[number].position.start, items[number + 1].position.start
    else:
        start = content_end(text, items[number - 1]) if number else items[number].position.start
        end = content_end(text, items[number])
    return text[:start] + text[end:]


def _listed(text: str) -> SequenceNode:
    found = _task_list(parse(text))
    if found is None:
        raise InvalidInput("the file has no list of tasks.", field="tasks", hint='{"tasks": []}')
    return found


def task_of(agent: str, definition: ScheduleDefinition) -> dict[str, Any] | None:
    """The schedule as a task of Cortex without its id; None for a schedule that a task cannot hold."""
    settings = schedule_settings(definition)
    times = _times_of(definition.trigger)
    target = settings.pop("target", None) or {"kind": "fresh"}
    preset = [name for name, value in _PRESET.items() if settings.get(name) == value]
    for name in ("when", "timezone", "anchor", "first", *preset):
        settings.pop(name, None)
    settings.setdefault("message", settings.pop("prompt", None))
    names = {"message": "message", "job": "dispatchType", "pre_check": "preCheck", "fallback": "fallback"}
    if times is None or not set(settings) <= set(names) or not settings["message"]:
        return None
    given = {names[name]: value for name, value in settings.items()}
    return {
        **times,
        **given,
        **({"profile": agent} if agent else {}),
        "target": cortex_target(target),
    }


def cortex_target(target: Mapping[str, Any]) -> dict[str, Any]:
    """The target in Cortex's spelling, as `cortex_context` names threads."""
    return {
        TARGET_SPELLINGS.get(name, name): thread_id(value) if name == "thread" else value
        for name, value in target.items()
    }


def thread_id(thread: int | str) -> str:
    """The id of a thread as Cortex writes it."""
    return f"thr_{thread}" if isinstance(thread, int) else thread


def _times_of(trigger: TriggerDefinition) -> dict[str, Any] | None:
    match trigger.when:
        case Interval(every_ms, _, "start" | "completion", "after_interval"):
            return {"type": "interval", "intervalMs": every_ms}
        case Once(at_ms):
            return {"type": "once", "runAt": at_ms}
        case Daily((minute,)) if trigger.timezone == "UTC":
            return {"type": "daily", "time": f"{minute // 60:02}:{minute % 60:02}"}
        case Weekly((day,), (minute,)) if trigger.timezone == "UTC":
            return {"type": "weekly", "dayOfWeek": day, "time": f"{minute // 60:02}:{minute % 60:02}"}
        case _:
            return None


def _with_throttle(text: str, throttle: Mapping[str, Any] | None) -> str:
    root = parse(text)
    values = {plain(key): to_python(value) for key, value in root.entries} if isinstance(root, MappingNode) else {}
    if not isinstance(root, MappingNode) or values.get(THROTTLE) == throttle:
        return text
    return with_fields(text, root, "tasks", {THROTTLE: throttle})


SKIPPED_BY = ("pre_check", "target_gone")
"""The reasons of skipped runs that Cortex records as `lastSkipped`."""
_RUNS = 100
_MAX_ID = 1 << 62


def refresh(store: Store, clock: Clock, file: ConfigFile) -> bool:
    """Write the computed fields, unless the file is not applied yet. Returns whether the file was written."""
    content = file.read()
    with store.reading() as transaction:
        if content.file is None or transaction.applied_text(FILE_NAME) != content.text:
            return False
        policies = Catalog(cache=False).policies(transaction)
        names = [entry.name for entry in _entries_of(transaction)]
        found = [find_schedule(transaction, name) for name in names]
        now = clock.now_ms()
        computed = {s.name: _computed(transaction, s, policies, now) for s in found if s is not None}
    text = write_computed(content.text, computed, _throttle(policies, now))
    if text == content.text:
        return False
    with file.writing():
        _note(store, clock, file, file.replace(content, text))
    return True


def _with_agents(parsed: ParsedFile, transaction: Transaction, policies: Policies) -> ParsedFile:
    """All tasks with an agent. One without a profile keeps the agent that it has; a new one has the active profile."""
    applied = [entry.name.partition("/") for entry in _entries_of(transaction)]
    return with_profiles(parsed, Profiles(policies.default_agent, {name: agent for agent, _, name in applied}))


def _new_task(name: str | None, agent: str, definition: ScheduleDefinition) -> NewEntry | None:
    task = task_of(agent, definition) if name is None or is_task_id(name) else None
    if task is None:
        return None
    task_id = name or token_hex(4)
    return NewEntry(task_id, partial(with_task, task={"id": task_id, **task}))


def _note(store: Store, clock: Clock, file: ConfigFile, content: Content) -> None:
    """Store the entries of the written file: a pause in it is not a change when the file is read again."""
    now = clock.now_ms()
    with store.reading() as transaction:
        parsed = _with_agents(file.parse(content.text), transaction, Catalog(cache=False).policies(transaction))
    interpretation = file.interpret(parsed, RecordContext(now, clock.local_zone(), {"USD": 1.0}))
    with store.transaction(now) as transaction:
        known, place = {entry.name: entry for entry in _entries_of(transaction)}, file.places[0]
        entries = [FileEntry(e.kind, e.name, FILE_NAME, place, e.line, e.digest) for e in interpretation.entries]
        transaction.upsert_file_entries(e for e in entries if e.name in known and known[e.name] != e)
        transaction.set_applied_file(AppliedFile(FILE_NAME, place, content.digest, now, "owner"), content.text)


def _entries_of(transaction: Transaction) -> list[FileEntry]:
    return [e for e in transaction.file_entries() if e.kind == "schedule" and e.file == FILE_NAME]


def _computed(transaction: Transaction, schedule: ScheduleRecord, policies: Policies, now: int) -> dict[str, Any]:
    runs = [run_record(row) for row in transaction.runs_of(schedule.id, _MAX_ID, _RUNS)]
    ran = next((run.started_at for run in runs if run.state is RunState.SUCCEEDED), None)
    skipped = next((r.ended_at for r in runs if r.state is RunState.SKIPPED and r.reason in SKIPPED_BY), None)
    by, at = _pause(schedule, policies, now)
    computed = {
        "createdAt": schedule.created_at,
        "nextRun": schedule.next_slot if by is None and schedule.state == "active" else None,
        "isPaused": by is not None,
        "pausedAt": at,
        "pausedBy": by,
    }
    last = {"lastRun": ran, "lastSkipped": skipped}  # values from runs before Matins stay
    return computed | {name: value for name, value in last.items() if value is not None}


def _pause(schedule: ScheduleRecord, policies: Policies, now: int) -> tuple[PausedBy | None, int | None]:
    """Who paused the task, and when. A user's pause is first: the end of a throttle must not seem to end it."""
    if schedule.state == "paused":
        return PAUSED_BY.get(schedule.paused_by, "user"), schedule.paused_at
    throttle = policies.throttle_of(schedule.definition.provider, schedule.agent, now)
    if throttle is None or schedule.state != "active" or isinstance(schedule.definition.trigger.when, Once):
        return None, None
    return _THROTTLED, throttle.activated_at


def _throttle(policies: Policies, now: int) -> dict[str, Any] | None:
    """The throttle that ends last."""
    lasting = [throttle for throttle in policies.throttles.values() if throttle.resets_at > now]
    return _document(max(lasting, key=lambda throttle: throttle.resets_at)) if lasting else None


def _document(throttle: Throttle) -> dict[str, Any]:
    return {
        "resetsAt": throttle.resets_at,
        "activatedAt": throttle.activated_at,
        "affectedModes": list(throttle.affects),
        "provider": throttle.provider,
    }


def _not_pausable(definition: ScheduleDefinition) -> str | None:
    """A one-shot is run or removed."""
    return "is of type once" if isinstance(definition.trigger.when, Once) else None


SCHEDULES_JSON = FileFormat(
    suffix=".json",
    read=read,
    complete=_with_agents,
    default_agent=lambda parsed: parsed.simple.get(PROFILE),
    agents_must_exist=False,
    entry_of=_new_task,
    without=without_task,
    refresh=refresh,
    not_pausable=_not_pausable,
)
