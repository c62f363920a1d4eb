"""Two machines, one PostgreSQL: a run that may be retried elsewhere never has two live trees. Rows B9, S2, B18."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from office import Office

import postgres_fixtures
from matins.runtime import recorder

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
LEASE_MS = 2_500
ENGINE = """
import sys
from matins import Matins
m = Matins(sys.argv[1], state_folder=sys.argv[2], lease_ms=3_600_000, beat_ms=100, run_lease_ms=int(sys.argv[4]))
m.agents.set("sh", runner="shell", command=["sh", "-c", sys.argv[3]], isolation="none")
m.add("s", when="every day at 09:00", agent="sh", prompt="Hello", on_unknown=sys.argv[5])
m.run("s")
m.run_forever()
"""


class Machine:
    """An engine in a process of its own, whose agent says that it runs, and waits. It holds a lock meanwhile: an agent
    that finds the lock taken writes `twice`. Let go, it works for longer than its lease."""

    def __init__(self, url: str, folder: Path, on_unknown: str) -> None:
        self.diary, self.began, self.go = folder / "diary", folder / "began", folder / "go"
        for fifo in (self.began, self.go):
            os.mkfifo(fifo)
        lines = f"exec 9> {folder}/lock; flock -n 9 || echo twice >> {self.diary}; echo run >> {self.diary}"
        first = f"{{ echo > {self.began}; cat {self.go}; sleep {LEASE_MS / 1000 + 0.5}; echo on >> {self.diary}; }}"
        arguments = (
            url,
            str(folder / "home"),
            f"{lines}; [ $MATINS_ATTEMPT = 2 ] || {first}",
            str(LEASE_MS),
            on_unknown,
        )
        self.engine = subprocess.Popen([sys.executable, "-c", ENGINE, *arguments])

    def kill(self) -> None:
        """Kill the engine, and not the keeper with its tree."""
        self.engine.send_signal(signal.SIGKILL)
        self.engine.wait()


@pytest.fixture
def machine(request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(postgres_url, tmp_path, getattr(request, "param", "retry"))
    yield made
    made.kill()


def office_in(url: str, home: Path) -> Office:
    return Office(url, state_folder=str(home), lease_ms=300, beat_ms=100, run_lease_ms=LEASE_MS)


def test_b9_another_machine_retries_a_run_only_when_its_processes_have_ended(
    machine: Machine, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9 S2: the engine is killed, its keeper and the agent go on, and nobody returns to that machine"""
    monkeypatch.setattr(recorder, "_AFTER_LEASE_MS", 1_000)
    machine.began.read_bytes()
    office = office_in(postgres_url, tmp_path / "other")
    with office.matins:
        machine.kill()
        run = office.wait("s")
        assert (run.state, run.attempt) == ("succeeded", 2), (run.reason, run.outcome)
    office.matins.close()
    assert machine.diary.read_text().split() == ["run", "run"], "its lease has ended the first one"


def test_b9_an_engine_that_returns_to_its_machine_renews_the_lease(
    machine: Machine, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9 S2: another machine took the engine for dead, and leaves the run alone; it runs longer than its lease"""
    left_alone, may_live = threading.Event(), recorder.Reaper._may_live
    monkeypatch.setattr(recorder.Reaper, "_may_live", lambda *given: may_live(*given) and (left_alone.set() or True))
    machine.began.read_bytes()
    other, office = office_in(postgres_url, tmp_path / "other"), office_in(postgres_url, tmp_path / "home")
    with other.matins:
        machine.kill()
        assert left_alone.wait(60)
        with office.matins:
            machine.go.write_text("on\n")
            run = office.wait("s")
            assert (run.state, run.attempt) == ("succeeded", 1), (run.reason, run.outcome)
            assert "run.adopted" in [event.type for event in office.matins.events.list(run_id=run.id)]
    for one in (other, office):
        one.matins.close()
    assert machine.diary.read_text().split() == ["run", "on"]


@pytest.mark.parametrize("machine", ["hold"], indirect=True)
def test_b18_a_host_that_comes_back_with_another_disk_holds_what_ran_there(
    machine: Machine, postgres_url: str, tmp_path: Path
) -> None:
    """B18 B9: its journals are gone, so nobody knows what became of the agent; a person decides, and `why` says so"""
    machine.began.read_bytes()
    machine.kill()
    office = office_in(postgres_url, tmp_path / "empty")
    with office.matins as m:
        run = office.wait("s", lambda run: run.state == "held")
        summary, found = m.why("s").summary, [one.fix or "" for one in m.system.doctor() if one.what == "runs"]
        machine.go.write_text("on\n")
    m.close()
    assert (run.attempt, "the worker process is gone" in summary) == (1, True), summary
    assert len(found) == 1
    assert f"matins resolve {run.id} failed # or succeeded, unknown, retry" in found[0]
    assert machine.diary.read_text().split()[:1] == ["run"]
