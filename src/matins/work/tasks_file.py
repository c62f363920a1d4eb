"""Work items from a TASKS.yaml that people and several processes write at the same time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from matins.engine.prompts import WorkItem
from matins.engine.validation import check_name
from matins.engine.when.definitions import instant_text
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model.policies import WorkSourceDefinition
from matins.texts.atomic_file import TextFile
from matins.texts.untrusted_folder import UntrustedText, open_text
from matins.work.sources import SourceKind, WorkSourceUnavailable, not_held, readable
from matins.work.tasks_yaml import Task, Tasks, read_tasks, with_changes

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
