"""Tasks that have ended move from TASKS.yaml to an archive. The rest of the file stays as people wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput
from matins.texts.untrusted_folder import UntrustedText, open_text
from matins.texts.yaml_nodes import plain
from matins.work.sources import WorkSourceUnavailable
from matins.work.tasks_file import locked
from matins.work.tasks_yaml import Task, Tasks, read_tasks

_TRIES = 100


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
