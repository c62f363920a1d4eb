"""TASKS.yaml as a file that people, crashes and several processes write too."""

import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path

import pytest
import tasks_desk
from tasks_desk import LATER, NOW, claimed

from matins.errors import InvalidInput
from matins.executors.work_items import WorkSourceUnavailable, open_source
from matins.model.policies import WorkSourceDefinition
from matins.seeds.cortex import tasks as tasks_file
from matins.seeds.cortex.tasks import TasksFile, read_tasks
from matins.texts.untrusted_folder import OwnFolders

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


def test_a_link_is_refused_and_the_file_itself_is_named(tmp_path: Path) -> None:
    """C3: an agent that can write the folder could lead it to another list; a folder that is a link is the owner's"""
    (tmp_path / "lists").mkdir()
    real = tmp_path / "lists" / "TASKS.yaml"
    real.write_text("- title: a\n")
    link = tmp_path / "TASKS.yaml"
    link.symlink_to(real)
    for call in (lambda: claimed(link), lambda: TasksFile("tasks", link).held("run 1", NOW)):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert refused.value.message == "TASKS.yaml is a link."
        assert refused.value.hint == f"Name the file itself: {real}."
    assert real.read_text() == "- title: a\n"
    (tmp_path / "folder").symlink_to("lists")
    assert claimed(tmp_path / "folder" / "TASKS.yaml").title == "a"


def test_what_a_crash_left_behind_is_no_hindrance(tmp_path: Path, path: Path) -> None:
    """H9: a process that died while it wrote"""
    path.write_text("- title: a\n")
    (tmp_path / ".TASKS.yaml.0123456789abcdef").write_text("half a fi")
    claimed(path)
    assert "claimed" in path.read_text()


def save_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch, texts: Iterable[str]) -> None:
    """A person saves the file whenever a new one is written, before that takes its place."""
    sync, saved = os.fsync, iter(texts)

    def saved_by_hand(file: int) -> None:
        sync(file)
        if stat.S_ISREG(os.fstat(file).st_mode) and (more := next(saved, None)) is not None:
            path.write_text(path.read_text() + more)

    monkeypatch.setattr(os, "fsync", saved_by_hand)


def test_an_edit_by_hand_meanwhile_is_read_and_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: a person saves the file between our reading and our writing"""
    path.write_text("- title: a\n")
    save_meanwhile(path, monkeypatch, ["- title: b\n  priority: high\n# mine\n"])
    assert claimed(path).title == "b"
    assert path.read_text().startswith("- title: a\n- title: b\n")
    assert path.read_text().endswith("priority: high\n# mine\n")


def test_a_file_that_never_rests_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: retryable, and nothing written"""
    path.write_text("- title: a\n")
    save_meanwhile(path, monkeypatch, repeat("#\n"))
    with pytest.raises(WorkSourceUnavailable, match="keeps changing") as refused:
        claimed(path)
    assert refused.value.retryable
    assert "claimed" not in path.read_text()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["TASKS.yaml", "TASKS.yaml.lock"]


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


@pytest.mark.parametrize("how", ["../other/TASKS.yaml", "link", "linked", "absolute", "lock"])
def test_b16_a_list_of_another_agent_is_not_read(tmp_path: Path, how: str) -> None:
    """B16: its title would be in the prompt; by a payload that names it, and by links that the agent makes"""
    home, robin = tmp_path / "home", tmp_path / "home" / "agents" / "robin"
    for agent in ("robin", "other"):
        (home / "agents" / agent).mkdir(parents=True)
        (home / "agents" / agent / "TASKS.yaml").write_text(f"- title: of {agent}\n")
    other = home / "agents" / "other" / "TASKS.yaml"
    own = OwnFolders(lambda: [home])
    name = {"link": "TASKS.yaml", "linked": "sub/TASKS.yaml", "absolute": str(other), "lock": "TASKS.yaml"}.get(
        how, how
    )
    if how == "link":
        (robin / "TASKS.yaml").unlink()
        (robin / "TASKS.yaml").symlink_to("../other/TASKS.yaml")
    elif how == "linked":
        (robin / "sub").symlink_to("../other")
    elif how == "lock":
        (robin / "TASKS.yaml.lock").symlink_to("../other/new")
    source = open_source(WorkSourceDefinition("tasks", "tasks", path=name), robin)
    with pytest.raises(InvalidInput) as refused:
        source.claim("run 1", NOW)
    assert "of other" not in refused.value.message
    assert sorted(entry.name for entry in other.parent.iterdir()) == ["TASKS.yaml"]
    assert other.read_text() == "- title: of other\n"
    if how in ("absolute", "../other/TASKS.yaml"):  # control: the owner names it, from the home on
        found = open_source(WorkSourceDefinition("tasks", "tasks", path="agents/other/TASKS.yaml"), home).claim(
            "1", NOW
        )
        assert found is not None
        assert found.title == "of other"
    own.close()


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
        large.truncate(900_000_000)
    for name, said in {
        "missing": "missing cannot be used: No such file or directory",
        "folder": "folder cannot be used: it is not a regular file",
        "pipe": "pipe cannot be used: it is not a regular file",
        "circle": "circle is a link.",
        "latin": "latin, line 2, column 10: this is not UTF-8.",
        "large": "large cannot be used: it is larger than 1,000,000 bytes",
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
