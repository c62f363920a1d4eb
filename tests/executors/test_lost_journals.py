"""Journals that a power cut, a fresh folder or an older store took away: nothing runs twice, nothing is believed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import office as offices
import pytest
from office import Office

from matins import SchedulerShutdownError
from matins.executors.processes import proc, supervisor
from matins.executors.processes.launch import Launch, LaunchMessage
from matins.executors.processes.process_tree import ProcessTree
from matins.executors.processes.run_folder import RunFolder

office = offices.office


class Sleeper:
    """An agent that says that it runs, and goes on until it is ended."""

    def __init__(self, folder: Path) -> None:
        self.begun, self.diary, self._pid = folder / "begun", folder / "diary", folder / "pid"
        os.mkfifo(self.begun)
        self.command = ["sh", "-c", f"echo $$ > {self._pid}; echo run >> {self.diary}; echo > {self.begun}; sleep 600"]

    def wait(self) -> None:
        self.begun.read_text()

    def kill(self) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.killpg(int(self._pid.read_text()), signal.SIGKILL)


@pytest.fixture
def sleeper(office: Office, tmp_path: Path) -> Iterator[Sleeper]:
    """It runs, and its engine is gone."""
    made = Sleeper(tmp_path)
    office.matins.agents.set("sh", runner="shell", command=made.command)
    office.matins.add("s", when="every day at 09:00", agent="sh", prompt="Hello", on_unknown="hold")
    office.matins.run("s")
    made.wait()
    with pytest.raises(SchedulerShutdownError):
        office.matins.stop(timeout=0.05, leave=True)
    yield made
    made.kill()


def fresh_folder(folder: Path) -> None:
    """A pod of the same name, with an empty disk."""
    folder.rename(folder.with_suffix(".gone"))


def lost_files(folder: Path) -> None:
    """The folder is there; what was written last is not."""
    for file in (folder / "runs").iterdir():
        file.unlink()


@pytest.mark.parametrize("lose", [fresh_folder, lost_files])
def test_without_its_journal_a_run_is_held(
    office: Office, sleeper: Sleeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None]
) -> None:
    """S2, H8: an agent with `on_unknown: hold` does not run again after a power cut, or in a fresh folder."""
    sleeper.kill()
    lose(tmp_path / "matins.db.runs")
    if lose is lost_files:
        monkeypatch.setattr(proc, "boot_id", lambda: "another-boot 1")
    office.matins.start()
    run = office.wait("s", lambda run: run.state == "held")
    assert (run.reason, sleeper.diary.read_text()) == ("unknown", "run\n")


def test_a_missing_journal_of_this_boot_proves_that_nothing_ran(
    office: Office, sleeper: Sleeper, tmp_path: Path
) -> None:
    """H8: the run starts again; its process was never there."""
    sleeper.kill()
    lost_files(tmp_path / "matins.db.runs")
    office.matins.start()
    sleeper.wait()
    assert sleeper.diary.read_text() == "run\nrun\n"
    office.matins.runs.cancel(office.matins.runs.list(schedule="s")[0].id)
    office.wait("s")


def test_an_older_store_does_not_believe_newer_journals(office: Office, tmp_path: Path) -> None:
    """B8, S2: run ids are given again after a restore. The journal of another run is no evidence."""
    diary, file = tmp_path / "diary", tmp_path / "matins.db"
    office.matins.agents.set("sh", runner="shell", command=["sh", "-c", f"echo $0 >> {diary}"])
    office.matins.add("a", when="every day at 09:00", agent="sh", prompt="a")
    office.matins.add("b", when="every day at 09:00", agent="sh", prompt="b")
    office.matins.stop()
    office.matins.store.checkpoint()
    shutil.copy(file, tmp_path / "copy.db")
    office.matins.start()
    seen = {office.fire("a").id for _ in range(3)}
    office.matins.close()
    for name in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        name.unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy.db", file)
    again = Office(f"sqlite:///{file}")
    with again.matins:
        diary.write_text("")
        runs = [again.fire("b") for _ in range(3)]
        assert [event.data["reason"] for event in again.matins.events.list(types=["store.restored"])] == ["older_copy"]
        assert seen & {run.id for run in runs}, "the ids are given again"
        assert [run.state for run in runs] == ["succeeded"] * 3
        assert len(diary.read_text().splitlines()) == 3
        assert again.matins.runs.output(runs[0].id).total == 0
    again.matins.close()


@pytest.mark.parametrize("durable", [True, False])
def test_the_first_line_is_on_the_disk_before_the_command_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """S2, H8: the line and its name in the folder, where a run must not start again after a power cut"""
    written: list[str] = []
    message = LaunchMessage("1-1", Launch(1, 1, ("true",), {}, "/"), fsync=durable)
    folder = RunFolder(str(tmp_path))
    tree = ProcessTree(json.loads(message.line)["start"], None, folder, [1, 1])
    monkeypatch.setattr(os, "fsync", lambda file: written.append(Path(f"/proc/self/fd/{file}").readlink().name))
    assert tree.claim({"boot": "this", "warden": [1, 1]})
    assert written == (["1-1", "runs"] if durable else [])
    tree.close()
    folder.close()


@pytest.mark.parametrize("on_unknown", ["hold", "retry"])
def test_that_is_asked_for_runs_that_are_held(office: Office, monkeypatch: pytest.MonkeyPatch, on_unknown: str) -> None:
    """H8: a run that may be repeated does not wait for the disk"""
    asked: list[bool] = []

    def message(key: str, launch: Launch, *, fsync: bool) -> LaunchMessage:
        asked.append(fsync)
        return LaunchMessage(key, launch, fsync=fsync)

    monkeypatch.setattr(supervisor, "LaunchMessage", message)
    office.matins.agents.set("sh", runner="shell", command=["true"])
    office.matins.add("s", when="every day at 09:00", agent="sh", prompt="Hello", on_unknown=on_unknown)
    assert office.fire("s").state == "succeeded"
    assert asked == [on_unknown == "hold"]
