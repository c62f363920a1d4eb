"""TASKS.yaml: work items from a file that people and several processes write at the same time.

Tasks are read, checked, claimed, and archived when they have ended. The rest of the file stays as people wrote it.
"""

from __future__ import annotations

import difflib
import fcntl
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from matins.engine.prompts import MAX_PROMPT_LENGTH, WorkItem
from matins.engine.validation import check_name, preview_of
from matins.engine.when.definitions import instant_text
from matins.engine.when.triggers import to_ms
from matins.errors import Conflict, InvalidInput, NotFound
from matins.executors.work_items import SourceKind, WorkSourceUnavailable, not_held, readable
from matins.model.policies import WorkSourceDefinition
from matins.model.settings import MAX_NAME_LENGTH
from matins.texts.atomic_file import TextFile
from matins.texts.untrusted_folder import UntrustedText, open_text
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
    taken, counts = set(written), defaultdict[str, Iterator[int]](count)
    return [_id(fields) or _generated_id(fields, taken, counts) for fields in tasks]


def _id(fields: Mapping[str, Node]) -> str | None:
    task_id = _text(fields, "id", MAX_NAME_LENGTH)
    if task_id is not None and not (task_id.strip() and task_id.isprintable()):
        raise _invalid(fields["id"], "id", "printable characters")
    return task_id


def _generated_id(fields: Mapping[str, Node], taken: set[str], counts: Mapping[str, Iterator[int]]) -> str:
    """An id from title and body. A duplicate task gets a different one: `counts` goes on where the last one ended."""
    text = f"{_text(fields, 'title', _MAX_TITLE_LENGTH)}\0{_text(fields, 'body', _MAX_BODY_LENGTH)}"
    numbers = counts[text]
    candidates = (sha256(f"{text}\0{number}".encode(errors="surrogatepass")).hexdigest()[:8] for number in numbers)
    free = next(task_id for task_id in candidates if task_id not in taken)
    taken.add(free)
    return free


def _invalid(node: Node, name: str, allowed: str, hint: str | None = None) -> InvalidInput:
    value = node.value if isinstance(node, Scalar) else plain(node)
    return yaml_error(
        node.position, f'"{name}" must be {allowed}, not {preview_of(value)}', value=value, field=name, hint=hint
    )


_LOCK_TIMEOUT_S = 30
_RETRY_S = 0.01
_TRIES = 100
_MAX_NOTE_LENGTH = 4_000
Changes = Mapping[str, str | None]
_Choice = tuple[Task, Changes] | None


class TasksFile:
    """Each change happens under a lock beside the file: the current content is read, and replaced atomically."""

    def __init__(self, name: str, path: Path, within: str | Path | None = None) -> None:
        """`within` is the folder in which relative paths start. Of the folders of Matins, only what is below it is
        used."""
        self.name = name
        self._path = path
        self._within = within

    def check(self, now: int) -> None:
        self.held("", now)

    def claim(self, run_key: str, now: int) -> WorkItem | None:
        check_name("run_key", run_key)
        task = self._rewrite(lambda tasks: _claimed(tasks, run_key, now))
        return None if task is None else _item(self.name, task)

    def held(self, run_key: str, now: int) -> WorkItem | None:
        with open_text(self._path, self._within) as file:
            text = file.read().text
        with _named(self._path):
            task = _held(read_tasks(text), run_key)
        return None if task is None else _item(self.name, task)

    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None:
        self._end(item.id, run_key, "done", report, now)

    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None:
        self._end(item.id, run_key, "failed", report, now)

    def release(self, item_id: str, run_key: str, now: int) -> None:
        def released(tasks: Tasks) -> _Choice:
            task = _find(tasks, item_id)
            if task is None or task.status != "claimed" or task.claimed_by != run_key:
                return None
            return task, {"status": "open", "claimed_by": None, "claimed_at": None}

        self._rewrite(released)

    def _end(self, item_id: str, run_key: str, status: str, report: str, now: int) -> None:
        self._rewrite(lambda tasks: _ended(tasks, item_id, run_key, status, report, now))

    def _rewrite(self, choose: Callable[[Tasks], _Choice]) -> Task | None:
        """Apply the chosen change to one task. A concurrent save is read again, not overwritten."""
        with open_text(self._path, self._within) as file, locked(file):
            for _ in range(_TRIES):
                before = file.read()
                with _named(self._path):
                    tasks = read_tasks(before.text)
                    choice = choose(tasks)
                    text = with_changes(tasks, *choice) if choice and choice[1] else None
                if text is None or _replaced(file, before, text):
                    return choice[0] if choice else None
        raise WorkSourceUnavailable(f"{self._path} keeps changing.", hint="Wait until no other program writes it.")


def _claimed(tasks: Tasks, run_key: str, now: int) -> _Choice:
    held = _held(tasks, run_key)
    if held is not None:
        return held, {}
    free = [task for task in tasks.tasks if task.status == "open"]
    if not free:
        return None
    task = min(free, key=_urgency)
    named = {} if task.has_id else {"id": task.id}
    return task, {**named, "status": "claimed", "claimed_by": run_key, "claimed_at": instant_text(now), "done_at": None}


def _held(tasks: Tasks, run_key: str) -> Task | None:
    return next((task for task in tasks.tasks if task.status == "claimed" and task.claimed_by == run_key), None)


def _urgency(task: Task) -> tuple[int, bool, int, int]:
    """The highest priority first, then the oldest. Tasks without a date are last, in the order of the file."""
    return -task.priority, task.created is None, task.created or 0, task.position


def _ended(tasks: Tasks, item_id: str, run_key: str, status: str, report: str, now: int) -> _Choice:
    task = _find(tasks, item_id)
    if task is None:
        hint = "It was removed from the file during the run."
        raise NotFound(f'The task "{item_id}" no longer exists.', value=item_id, field="id", hint=hint)
    if task.claimed_by != run_key or task.status not in ("claimed", status):
        how = f"it is {task.status}" + (f" by {task.claimed_by}" if task.claimed_by else "")
        raise Conflict(
            not_held(item_id, run_key, how), value=item_id, field="id", hint="It was changed during the run."
        )
    if task.status == status:
        return task, {}
    note = readable(report, _MAX_NOTE_LENGTH) or None
    return task, {"status": status, "done_at": instant_text(now), "note": note}


def _find(tasks: Tasks, item_id: str) -> Task | None:
    return next((task for task in tasks.tasks if task.id == item_id), None)


def _item(source: str, task: Task) -> WorkItem:
    return WorkItem(source, task.id, task.title, task.body, task.url, task.labels, task.priority)


# the file


def _replaced(file: UntrustedText, before: TextFile, text: str) -> bool:
    try:
        return file.replace(before, text)
    except OSError as error:
        hint = "Check the free space and the permissions of its folder."
        raise WorkSourceUnavailable(f"{file.path} cannot be written: {error.strerror or error}.", hint=hint) from error


@contextmanager
def locked(file: UntrustedText) -> Generator[None]:
    """Hold the lock of a file."""
    lock = file.open_lock()
    try:
        _acquire(lock, file.path)
        yield
    finally:
        os.close(lock)


def _acquire(file: int, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                message = f"Another process holds the lock of {path}."
                raise WorkSourceUnavailable(message, hint=f"Find it: fuser {path}.lock") from None
        time.sleep(_RETRY_S)


@contextmanager
def _named(path: Path) -> Generator[None]:
    """Add the path of the file to errors."""
    try:
        yield
    except (NotFound, Conflict):
        raise
    except InvalidInput as error:
        message = f"{path}, {error.message}"
        raise InvalidInput(message, value=error.value, field=error.field, hint=error.hint) from None


def _open(definition: WorkSourceDefinition, workdir: str | Path | None) -> TasksFile:
    base = Path(workdir or ".")
    return TasksFile(definition.name, base / Path(definition.path).expanduser(), base)


KIND = SourceKind(_open)


def archive_tasks(path: Path, archive: Path, before: int, within: str | Path | None = None) -> list[str]:
    """Move the tasks that were done before an instant, and return their ids. A crash between the two files leaves a
    task in both; the next call removes it from the first. For `within` see `TasksFile`."""
    with open_text(path, within) as file, open_text(archive, within) as kept, locked(file):
        for _ in range(_TRIES):
            content = file.read()
            tasks = read_tasks(content.text)
            old = [task for task in tasks.tasks if task.status == "done" and _done_at(task) < before]
            if not old:
                return []
            text = _without(tasks, old)
            _append(kept, tasks, old)
            if file.replace(content, text):
                return [task.id for task in old]
    raise WorkSourceUnavailable(f"{path} changes all the time", hint="Wait until other programs have written it.")


def _done_at(task: Task) -> int:
    """When the task ended. One that says nothing readable is kept."""
    text = dict(plain(task.node)).get("done_at")
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return 1 << 62
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _spans(tasks: Tasks) -> list[tuple[int, int]]:
    """The lines of each task, from its dash to the line before the next task or the end of the list."""
    lines = tasks.text.splitlines()
    starts = [task.node.position.line - 1 for task in tasks.tasks]
    ends = [*starts[1:], _end(lines, starts[-1])]
    return [(start, _trimmed(lines, start, end)) for start, end in zip(starts, ends, strict=True)]


def _end(lines: Sequence[str], start: int) -> int:
    """The line after the last task: the first that is not indented more than its dash, blank or a comment."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip()) <= indent and not line.lstrip().startswith("#"):
            return number
    return len(lines)


def _trimmed(lines: Sequence[str], start: int, end: int) -> int:
    """The end without blank lines and comments, which belong to what follows."""
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def _without(tasks: Tasks, old: Sequence[Task]) -> str:
    """The text without these tasks. It is parsed again: everything else must be unchanged."""
    gone = {task.position for task in old}
    lines = tasks.text.splitlines(keepends=True)
    for position, (start, end) in reversed(list(enumerate(_spans(tasks)))):
        if position in gone:
            del lines[start:end]
    text = "".join(lines)
    try:
        after = read_tasks(text)
    except InvalidInput:
        after = None
    expected = [plain(task.node) for task in tasks.tasks if task.position not in gone]
    if after is None or after.other_content != tasks.other_content or _plain(after) != expected:
        message = "The form of the tasks cannot be changed safely."
        raise InvalidInput(message, field="tasks", hint="Write each task as a list item on lines of its own.")
    return text


def _plain(tasks: Tasks) -> list[Any]:
    return [plain(task.node) for task in tasks.tasks]


def _text_of(tasks: Tasks, task: Task) -> str:
    """The task as an item at the margin."""
    start, end = _spans(tasks)[task.position]
    lines = tasks.text.splitlines()[start:end]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "".join(f"{line[indent:]}\n" for line in lines)


def _append(archive: UntrustedText, tasks: Tasks, old: Sequence[Task]) -> None:
    """Append the tasks that the archive does not have yet."""
    content = archive.read_if_there()
    text = "" if content is None else content.text
    archived = {task.id for task in read_tasks(text).tasks} if text else set[str]()
    items = [_text_of(tasks, task) for task in old if task.id not in archived]
    if items and not archive.replace(content, text + "".join(items)):
        raise WorkSourceUnavailable(f"{archive.path} was changed meanwhile", hint="Run the job again.")
