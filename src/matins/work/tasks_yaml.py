"""The content of a TASKS.yaml: its tasks, checked, and the text with one of them changed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple

from matins.engine.prompts import MAX_PROMPT_LENGTH
from matins.engine.validation import preview_of
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput
from matins.model.settings import MAX_NAME_LENGTH
from matins.texts.yaml_nodes import (
    MappingNode,
    Node,
    Position,
    Scalar,
    SequenceNode,
    parse,
    plain,
    with_fields,
    yaml_error,
)

STATUSES = ("open", "claimed", "done", "failed")
PRIORITIES = {"high": 10, "medium": 0, "low": -10}
_WRITTEN_BY_PEOPLE = ("id", "title", "body", "priority", "created", "status", "labels", "url")
_MAX_TITLE_LENGTH = 1_000
_NUMBER = re.compile(r"[+-]?[0-9]{1,6}")
_UNUSABLE = re.compile(r"[\0\ud800-\udfff]")
_NEARLY = 0.8
_MAX_BODY_LENGTH = MAX_PROMPT_LENGTH // 2


class Task(NamedTuple):
    node: MappingNode
    position: int
    id: str
    has_id: bool
    title: str
    body: str
    priority: int
    created: int | None
    status: str
    claimed_by: str | None
    labels: tuple[str, ...]
    url: str | None


class Tasks(NamedTuple):
    text: str
    tasks: tuple[Task, ...]
    other_content: Sequence[Any]
    """The rest of the file."""


# Most reads find the file as the last read left it, or as Matins wrote it.
@lru_cache(maxsize=4)
def read_tasks(text: str) -> Tasks:
    """The tasks: a list, or a mapping with a list as `tasks`. Raises InvalidInput with a position."""
    root = parse(text)
    if root is None:
        return Tasks(text, (), ())
    listed, other_content = _listed(root)
    nodes = [_mapping(node) for node in listed]
    fields = [_fields(node) for node in nodes]
    ids = _ids(fields)
    tasks = [_task(node, at, fields[at], ids[at]) for at, node in enumerate(nodes)]
    return Tasks(text, tuple(tasks), other_content)


def with_changes(tasks: Tasks, task: Task, changes: Mapping[str, str | None]) -> str:
    """The text with these fields of one task set. It is parsed again: everything else must be unchanged."""
    expected = [_values(known) for known in tasks.tasks]
    expected[task.position] |= {
        name: value for name, value in changes.items() if value or name in expected[task.position]
    }
    try:
        text = with_fields(tasks.text, task.node, _last_own_field(task), changes)
        after = read_tasks(text)
    except InvalidInput:
        text, after = "", None
    if (
        after is None
        or after.other_content != tasks.other_content
        or [_values(known) for known in after.tasks] != expected
    ):
        raise yaml_error(task.node.position, f"the form of task {task.id} cannot be changed safely",
                      hint="Write each field on its own line.")  # fmt: skip
    return text


def _last_own_field(task: Task) -> str:
    """The field after which new fields go. It must end on its line; the title always does."""
    ends = {plain(key) for key, value in task.node.entries if isinstance(value, Scalar) and value.ends_on_its_line}
    return next(name for name in ("claimed_at", "status", "title") if name in ends)


def _values(task: Task) -> dict[str, Any]:
    return dict(plain(task.node))


def _listed(root: Node) -> tuple[tuple[Node, ...], Sequence[Any]]:
    other_content: list[Any] = []
    listed = root
    if isinstance(root, MappingNode):
        found = [value for key, value in root.entries if plain(key) == "tasks"]
        other_content = [(plain(key), plain(value)) for key, value in root.entries if plain(key) != "tasks"]
        if len(found) != 1:
            raise yaml_error(
                root.position, f'"tasks" must occur once, not {len(found)} times', field="tasks", hint="Write it once."
            )
        listed = found[0]
    if isinstance(listed, Scalar) and listed.value is None:
        return (), other_content
    if not isinstance(listed, SequenceNode):
        raise yaml_error(listed.position, "tasks must be a list", field="tasks", hint="- title: Repair the door")
    return listed.items, other_content


def _mapping(node: Node) -> MappingNode:
    if not isinstance(node, MappingNode):
        raise yaml_error(node.position, "a task must be a mapping with a title", hint="- title: Repair the door")
    return node


def _fields(node: MappingNode) -> dict[str, Node]:
    """The fields by name. Raises for a duplicate name, or one that resembles a known field."""
    fields: dict[str, Node] = {}
    for key, value in node.entries:
        name = key.value if isinstance(key, Scalar) else None
        if name is None or name in fields:
            what = "a field has no name" if name is None else f'"{name}" is given twice'
            raise yaml_error(key.position, what, field=name, hint="Remove one of them.")
        _check_spelling(key, name)
        fields[name] = value
    if "title" not in fields:
        raise yaml_error(node.position, 'a task needs "title"', field="title", hint="title: Repair the door")
    return fields


def _check_spelling(key: Node, name: str) -> None:
    """Raise for a name that resembles a known field. Other custom fields are allowed."""
    close = difflib.get_close_matches(name, _WRITTEN_BY_PEOPLE, 1, _NEARLY)
    if close and name not in _WRITTEN_BY_PEOPLE:
        raise yaml_error(
            key.position, f'a task has no "{name}"', value=name, field=name, hint=f'Did you mean "{close[0]}"?'
        )


def _task(node: MappingNode, position: int, fields: Mapping[str, Node], task_id: str) -> Task:
    return Task(
        node=node,
        position=position,
        id=task_id,
        has_id=_text(fields, "id", MAX_NAME_LENGTH) is not None,
        title=_title(fields),
        body=_text(fields, "body", _MAX_BODY_LENGTH) or "",
        priority=_priority(fields),
        created=_created(fields),
        status=_status(fields),
        claimed_by=_text(fields, "claimed_by", MAX_NAME_LENGTH),
        labels=_labels(fields),
        url=_text(fields, "url", _MAX_TITLE_LENGTH),
    )


def _text(fields: Mapping[str, Node], name: str, max_length: int) -> str | None:
    node = fields.get(name)
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if (
        not isinstance(node, Scalar)
        or node.value is None
        or len(node.value) > max_length
        or _UNUSABLE.search(node.value)
    ):
        raise _invalid(node, name, f"a string of at most {max_length} characters, without NUL and lone surrogates")
    return node.value


def _title(fields: Mapping[str, Node]) -> str:
    title = _text(fields, "title", _MAX_TITLE_LENGTH)
    node = fields["title"]
    if title is None or not title.strip() or (isinstance(node, Scalar) and node.block):
        raise _invalid(node, "title", "a string on one line")
    return " ".join(title.split())


def _priority(fields: Mapping[str, Node]) -> int:
    text = _text(fields, "priority", MAX_NAME_LENGTH) or "medium"
    if text in PRIORITIES:
        return PRIORITIES[text]
    if _NUMBER.fullmatch(text):
        return int(text)
    raise _invalid(fields["priority"], "priority", f"{', '.join(PRIORITIES)}, or an integer of at most six digits")


def _created(fields: Mapping[str, Node]) -> int | None:
    text = _text(fields, "created", MAX_NAME_LENGTH)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except ValueError:
        raise _invalid(fields["created"], "created", "an instant", "created: 2026-03-27T09:00:00Z") from None


def _status(fields: Mapping[str, Node]) -> str:
    text = _text(fields, "status", MAX_NAME_LENGTH) or "open"
    if text not in STATUSES:
        raise _invalid(fields["status"], "status", " or ".join(STATUSES))
    return text


def _labels(fields: Mapping[str, Node]) -> tuple[str, ...]:
    node = fields.get("labels")
    if not isinstance(node, SequenceNode):
        label = _text(fields, "labels", MAX_NAME_LENGTH)
        return () if label is None else (label,)
    labels = [_text({"labels": item}, "labels", MAX_NAME_LENGTH) for item in node.items]
    return tuple(label for label in labels if label is not None)


def _ids(tasks: Sequence[Mapping[str, Node]]) -> list[str]:
    """The written ids, which must differ, and generated ids for the other tasks."""
    written: dict[str, Position] = {}
    for fields in tasks:
        if (task_id := _id(fields)) is not None:
            place = fields["id"].position
            if task_id in written:
                what = f'the id "{task_id}" is taken by the task on line {written[task_id].line}'
                raise yaml_error(place, what, value=task_id, field="id", hint="Give each task its own id, or none.")
            written[task_id] = place
    taken = set(written)
    return [_id(fields) or _generated_id(fields, taken) for fields in tasks]


def _id(fields: Mapping[str, Node]) -> str | None:
    task_id = _text(fields, "id", MAX_NAME_LENGTH)
    if task_id is not None and not (task_id.strip() and task_id.isprintable()):
        raise _invalid(fields["id"], "id", "printable characters")
    return task_id


def _generated_id(fields: Mapping[str, Node], taken: set[str]) -> str:
    """An id from title and body. A duplicate task gets a different one."""
    text = f"{_text(fields, 'title', _MAX_TITLE_LENGTH)}\0{_text(fields, 'body', _MAX_BODY_LENGTH)}"
    candidates = (sha256(f"{text}\0{number}".encode(errors="surrogatepass")).hexdigest()[:8] for number in count())
    free = next(task_id for task_id in candidates if task_id not in taken)
    taken.add(free)
    return free


def _invalid(node: Node, name: str, allowed: str, hint: str | None = None) -> InvalidInput:
    value = node.value if isinstance(node, Scalar) else plain(node)
    return yaml_error(
        node.position, f'"{name}" must be {allowed}, not {preview_of(value)}', value=value, field=name, hint=hint
    )
