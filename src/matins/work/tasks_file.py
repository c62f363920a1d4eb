"""Work from a TASKS.yaml that people and several processes write at once."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from matins.engine.given import check_name
from matins.engine.prompts import WorkItem
from matins.engine.when.definitions import instant_text
from matins.errors import Conflict, InvalidInput, NotFound
from matins.work.base import SourceUnavailable, not_held, readable
from matins.work.tasks_yaml import Task, Tasks, changed, read_tasks

_PATIENCE_S = 30
_LOOK_S = 0.01
_TRIES = 100
_LARGEST = 10_000_000
_LONGEST_NOTE = 4_000
Changes = Mapping[str, str | None]
_Choice = tuple[Task, Changes] | None


class TasksFile:
    """Each change is made under a lock beside the file, to what the file says then, and replaces it whole."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path

    def claim(self, run_key: str, now: int) -> WorkItem | None:
        check_name("run_key", run_key)
        task = self._rewrite(lambda tasks: _claimed(tasks, run_key, now))
        return None if task is None else _item(self.name, task)

    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None:
        self._end(item.id, run_key, "done", report, now)

    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None:
        self._end(item.id, run_key, "failed", report, now)

    def release(self, item_id: str, run_key: str, now: int) -> None:
        def given_back(tasks: Tasks) -> _Choice:
            task = _find(tasks, item_id)
            if task is None or task.status != "claimed" or task.claimed_by != run_key:
                return None
            return task, {"status": "open", "claimed_by": None, "claimed_at": None}

        self._rewrite(given_back)

    def _end(self, item_id: str, run_key: str, status: str, report: str, now: int) -> None:
        self._rewrite(lambda tasks: _ended(tasks, item_id, run_key, status, report, now))

    def _rewrite(self, choose: Callable[[Tasks], _Choice]) -> Task | None:
        """Change the task that is chosen, as it is said; who saves the file meanwhile is read, not overwritten."""
        path = _resolved(self._path)
        with _locked(path):
            for _ in range(_TRIES):
                file = _read(path)
                with _named(path):
                    tasks = read_tasks(file.text)
                    choice = choose(tasks)
                    text = changed(tasks, *choice) if choice and choice[1] else None
                if text is None or _replaced(path, file, text):
                    return choice[0] if choice else None
        raise SourceUnavailable(f"{path} changes all the time", hint="let whoever writes it come to an end")


def _claimed(tasks: Tasks, run_key: str, now: int) -> _Choice:
    for task in tasks.tasks:
        if task.status == "claimed" and task.claimed_by == run_key:
            return task, {}
    free = [task for task in tasks.tasks if task.status == "open"]
    if not free:
        return None
    task = min(free, key=_urgency)
    named = {} if task.has_id else {"id": task.id}
    return task, {**named, "status": "claimed", "claimed_by": run_key, "claimed_at": instant_text(now), "done_at": None}


def _urgency(task: Task) -> tuple[int, bool, int, int]:
    """The highest priority, then the oldest; what has no date comes last, in the order of the file."""
    return -task.priority, task.created is None, task.created or 0, task.position


def _ended(tasks: Tasks, item_id: str, run_key: str, status: str, report: str, now: int) -> _Choice:
    task = _find(tasks, item_id)
    if task is None:
        hint = "somebody took it out of the file while the run was at work"
        raise NotFound(f'There is no task "{item_id}" any more', value=item_id, field="id", hint=hint)
    if task.claimed_by != run_key or task.status not in ("claimed", status):
        how = f"it is {task.status}" + (f" by {task.claimed_by}" if task.claimed_by else "")
        raise Conflict(not_held(item_id, run_key, how), value=item_id, field="id", hint="it was changed meanwhile")
    if task.status == status:
        return task, {}
    note = readable(report, _LONGEST_NOTE) or None
    return task, {"status": status, "done_at": instant_text(now), "note": note}


def _find(tasks: Tasks, item_id: str) -> Task | None:
    return next((task for task in tasks.tasks if task.id == item_id), None)


def _item(source: str, task: Task) -> WorkItem:
    return WorkItem(source, task.id, task.title, task.body, task.url, task.labels, task.priority)


# the file


class _File(NamedTuple):
    text: str
    mode: int
    owner: tuple[int, int]
    mark: tuple[int, int, int, int]
    """Differs as soon as somebody has saved it."""


def _resolved(path: Path) -> Path:
    """What a link leads to: a link is not replaced by a file."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise _unusable(path, getattr(error, "strerror", None) or "its links lead in a circle") from None


def _read(path: Path) -> _File:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would keep us waiting
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                raise _unusable(path, f"it is not a file of at most {_LARGEST} bytes")
            with os.fdopen(file, "rb", closefd=False) as opened:
                text = _decoded(path, opened.read(_LARGEST))
        finally:
            os.close(file)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    return _File(text, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), _mark(status))


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = f"{path}, line {line}, column {column}: this is not UTF-8"
        raise InvalidInput(message, field="path", hint="save it as UTF-8") from None


def _mark(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _replaced(path: Path, before: _File, text: str) -> bool:
    """Whole or not at all; False when the file is no longer what was read."""
    new = path.with_name(f".{path.name}.new")
    try:
        _write(new, before, text)
        if _mark(path.stat()) != before.mark:
            new.unlink()
            return False
        new.replace(path)
        _sync(path.parent)
    except OSError as error:
        new.unlink(missing_ok=True)
        hint = "look at its folder: room, and who may write there"
        raise SourceUnavailable(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error
    return True


def _write(new: Path, before: _File, text: str) -> None:
    new.unlink(missing_ok=True)  # left behind by a crash
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        status = os.fstat(file)
        if before.owner != (status.st_uid, status.st_gid):
            os.fchown(file, *before.owner)
        os.fchmod(file, before.mode)
        opened.write(text.encode())
        opened.flush()
        os.fsync(file)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """The lock is a file of its own, since the other one is replaced; it stays, so that all lock the same one."""
    beside = Path(f"{path}.lock")
    try:
        file = os.open(beside, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise _unusable(beside, error.strerror or str(error)) from None
    try:
        _win(file, path)
        yield
    finally:
        os.close(file)


def _win(file: int, path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                message = f"Somebody else holds the lock of {path}"
                raise SourceUnavailable(message, hint=f"fuser {path}.lock tells who") from None
        time.sleep(_LOOK_S)


@contextmanager
def _named(path: Path) -> Generator[None]:
    """Say which file it is about."""
    try:
        yield
    except (NotFound, Conflict):
        raise
    except InvalidInput as error:
        message = f"{path}, {error.message}"
        raise InvalidInput(message, value=error.value, field=error.field, hint=error.hint) from None


def _unusable(path: Path, why: str) -> InvalidInput:
    hint = "check the path, and who may read and write there"
    return InvalidInput(f"{path} cannot be used: {why}", value=str(path), field="path", hint=hint)
