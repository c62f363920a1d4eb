"""TASKS.yaml as a file that people, crashes and several processes write too."""

import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import tasks_desk
from tasks_desk import LATER, NOW, claimed

from matins.errors import InvalidInput
from matins.texts import atomic_file
from matins.work import tasks_file
from matins.work.sources import WorkSourceUnavailable
from matins.work.tasks_file import TasksFile
from matins.work.tasks_yaml import read_tasks

path = tasks_desk.path


def test_permissions_are_kept(path: Path) -> None:
    """C3: mode and owner of the file"""
    path.write_text("- title: a\n")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    owner = path.stat().st_uid, path.stat().st_gid
    claimed(path)
    status = path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert (status.st_uid, status.st_gid) == owner


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """C3: what it leads to is changed"""
    real = tmp_path / "real.yaml"
    real.write_text("- title: a\n")
    link = tmp_path / "TASKS.yaml"
    link.symlink_to(real)
    claimed(link)
    assert link.is_symlink()
    assert "claimed" in real.read_text()


def test_what_a_crash_left_behind_is_no_hindrance(tmp_path: Path, path: Path) -> None:
    """H9: a process that died while it wrote"""
    path.write_text("- title: a\n")
    (tmp_path / ".TASKS.yaml.new").write_text("half a fi")
    claimed(path)
    assert "claimed" in path.read_text()
    assert not (tmp_path / ".TASKS.yaml.new").exists()


def test_an_edit_by_hand_meanwhile_is_read_and_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: somebody saves the file between our reading and our writing"""
    path.write_text("- title: a\n")
    edits = iter(["- title: b\n  priority: high\n# mine\n"])

    def saved_by_hand(new: Path, before: atomic_file.TextFile, text: str) -> None:
        write(new, before, text)
        for more in edits:
            path.write_text(path.read_text() + more)

    write = atomic_file._write
    monkeypatch.setattr(atomic_file, "_write", saved_by_hand)
    assert claimed(path).title == "b"
    assert path.read_text().startswith("- title: a\n- title: b\n")
    assert path.read_text().endswith("priority: high\n# mine\n")


def test_a_file_that_never_rests_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: retryable, and nothing written"""
    path.write_text("- title: a\n")

    def saved_by_hand(new: Path, before: atomic_file.TextFile, text: str) -> None:
        new.write_text(text)
        path.write_text(path.read_text() + "#\n")

    monkeypatch.setattr(atomic_file, "_write", saved_by_hand)
    with pytest.raises(WorkSourceUnavailable, match="keeps changing") as refused:
        claimed(path)
    assert refused.value.retryable
    assert "claimed" not in path.read_text()


@contextmanager
def _lock_of(path: Path) -> Iterator[None]:
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_the_lock_of_another_is_honoured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: claim with a lock"""
    monkeypatch.setattr(tasks_file, "_LOCK_TIMEOUT_S", 0)
    path.write_text("- title: a\n")
    with _lock_of(path), pytest.raises(WorkSourceUnavailable, match="holds the lock") as refused:
        claimed(path)
    assert refused.value.retryable
    assert path.read_text() == "- title: a\n"
    assert claimed(path).title == "a"


def test_a_bad_file_is_named_and_left_alone(path: Path) -> None:
    """C3: line and column, and nothing written, whatever was asked"""
    path.write_text("- title: a\n  id: x\n")
    item = claimed(path)
    path.write_text(path.read_text() + "- title: b\n  priority: urgent\n")
    before = path.read_bytes()
    source = TasksFile("tasks", path)
    for call in (
        lambda: source.claim("run 2", NOW),
        lambda: source.done(item, "run 1", "", NOW),
        lambda: source.failed(item, "run 1", "", NOW),
        lambda: source.release("x", "run 1", NOW),
    ):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert refused.value.message.startswith(f'{path}, line 7, column 13: "priority" must be high, medium, low')
        assert (refused.value.field, refused.value.value) == ("priority", "urgent")
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """C3: missing, a folder, a pipe, a circle of links, not UTF-8, too large"""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "latin").write_bytes(b"- title: a\n- title: \xe9\n")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(10_000_001)
    for name, said in {
        "missing": "missing cannot be used: No such file or directory",
        "folder": "folder cannot be used: it is not a file",
        "pipe": "pipe cannot be used: it is not a file",
        "circle": "circle cannot be used",
        "latin": "latin, line 2, column 10: this is not UTF-8.",
        "large": "large cannot be used: it is not a file of at most 10000000 bytes",
    }.items():
        with pytest.raises(InvalidInput) as refused:
            TasksFile("tasks", tmp_path / name).claim("run 1", NOW)
        assert said in refused.value.message
        assert refused.value.field == "path"
        assert refused.value.hint
    assert not (tmp_path / "missing.lock").exists()


@pytest.mark.parametrize("run_key", ["", "a\nb", "x" * 201])
def test_a_run_key_must_be_printable(path: Path, run_key: str) -> None:
    """H9: bad input"""
    path.write_text("- title: a\n")
    with pytest.raises(InvalidInput, match='"run_key" must be'):
        TasksFile("tasks", path).claim(run_key, NOW)
    assert path.read_text() == "- title: a\n"


def test_a_folder_that_is_full_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: the old file or the new one, never half of one"""
    path.write_text("- title: a\n")

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkSourceUnavailable, match="cannot be written: No space left on device"):
        claimed(path)
    assert path.read_text() == "- title: a\n"
    assert sorted(file.name for file in path.parent.iterdir()) == ["TASKS.yaml", "TASKS.yaml.lock"]


# -- several processes


@contextmanager
def _claimers(path: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    script = Path(__file__).with_name("claimer.py")
    with ExitStack() as stack:
        found = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(script), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(count)
        ]
        for process in found:
            assert _answer(process) == "ready"
        yield found


def _ask(process: subprocess.Popen[str], run_key: str) -> None:
    assert process.stdin
    process.stdin.write(f"{run_key}\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_two_processes_never_get_the_same(path: Path) -> None:
    """C3: claim with a lock, in a race that is run again and again"""
    path.write_text("# ours\n" + "".join(f"- id: t{n}\n  title: task {n}  # {n}\n" for n in range(40)))
    got: list[str] = []
    with _claimers(path, 2) as processes:
        for turn in range(20):
            for at, process in enumerate(processes):
                _ask(process, f"run {turn}-{at}")
            got += [_answer(process) for process in processes]
    assert sorted(got) == sorted(f"t{n}" for n in range(40))
    tasks = read_tasks(path.read_text()).tasks
    assert {task.status for task in tasks} == {"claimed"}
    assert len({task.claimed_by for task in tasks}) == 40
    assert path.read_text().count("  # ") == 40


def test_a_process_that_is_killed_leaves_its_claim_and_no_lock(path: Path) -> None:
    """H9: crash after the claim: the run that is started again gets its item, others the next"""
    path.write_text("- {id: x, title: a, priority: high}\n- {id: y, title: b}\n")
    with _claimers(path, 1) as (process,):
        _ask(process, "run 1")
        assert _answer(process) == "x"
        process.kill()
    with _claimers(path, 2) as (first, second):
        _ask(first, "run 1")
        _ask(second, "run 2")
        assert (_answer(first), _answer(second)) == ("x", "y")


def test_a_thousand_tasks_are_quick(path: Path) -> None:
    """C3: a long file"""
    task = (
        "- id: t{n}\n  title: Task {n}\n  body: |\n    Do this\n    and that.\n  priority: {p}\n  created: 2026-03-27\n"
    )
    path.write_text("".join(task.format(n=n, p=n % 7) for n in range(1_000)))
    source = TasksFile("tasks", path)
    began = time.thread_time()
    item = claimed(path)
    source.done(item, "run 1", "done", LATER)
    assert time.thread_time() - began < 20
    assert item.id == "t6"
    began = time.thread_time()
    source.release("t7", "nobody", LATER)
    assert time.thread_time() - began < 0.5
