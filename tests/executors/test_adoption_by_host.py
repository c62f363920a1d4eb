"""On a store of many machines, agents are adopted by the engine of their machine and folder, at once. Rows B9, S2."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from office import Office

import postgres_fixtures
from matins import Matins
from matins.executors.processes.recovery import evidence_in, is_gone

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
HOUR_MS = 3_600_000
"""A lease that does not run out within a test."""
ENGINE = """
import sys
from matins import Matins
m = Matins(sys.argv[1], state_folder=sys.argv[2], lease_ms=3_600_000)
m.agents.set("sh", runner="shell", command=["sh", "-c", sys.argv[3]], isolation="none")
m.add("s", when="every day at 09:00", agent="sh", prompt="Hello", on_unknown="hold")
m.run("s")
m.run_forever()
"""


class Agent:
    """An agent of an engine in a process of its own. It says that it runs, and ends when it is let go."""

    def __init__(self, url: str, home: Path, folder: Path) -> None:
        self.fifo, self.diary = folder / "go", folder / "diary"
        os.mkfifo(self.fifo)
        command = f"echo run >> {self.diary}; cat {self.fifo}; echo done"
        self.engine = subprocess.Popen([sys.executable, "-c", ENGINE, url, str(home), command])

    def kill_engine(self) -> None:
        self.engine.send_signal(signal.SIGKILL)
        self.engine.wait()

    def check_end(self, office: Office) -> None:
        run = office.wait("s")
        assert (run.state, run.attempt) == ("succeeded", 1), (run.reason, run.outcome)
        assert self.diary.read_text() == "run\n"


@pytest.fixture
def agent(postgres_url: str, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(postgres_url, tmp_path / "home", tmp_path)
    yield made
    made.kill_engine()


@contextmanager
def engine_in(url: str, home: Path, **words: Any) -> Iterator[Office]:
    office = Office(url, state_folder=str(home), lease_ms=HOUR_MS, **words)
    with office.matins:
        yield office
    office.matins.close()


def adopted(matins: Matins) -> int:
    return len(matins.events.list(types=["run.adopted"]))


def test_b9_an_engine_that_is_started_again_adopts_its_agents_at_once(
    agent: Agent, postgres_url: str, tmp_path: Path
) -> None:
    """B9 S2: after a lease, an engine of another machine would hold a run whose agent still runs"""
    with agent.fifo.open("w") as go:  # opens when the agent runs
        agent.kill_engine()
        with engine_in(postgres_url, tmp_path / "home") as office:
            assert adopted(office.matins) == 1
            go.write("on\n")
            go.close()
            agent.check_end(office)


def test_b9_an_engine_with_another_folder_leaves_them_alone(agent: Agent, postgres_url: str, tmp_path: Path) -> None:
    """B9: it is on the same machine, and has no journals of theirs"""
    with agent.fifo.open("w") as go:
        agent.kill_engine()
        with engine_in(postgres_url, tmp_path / "other") as other:
            assert adopted(other.matins) == 0
            assert [run.state for run in other.matins.runs.list(schedule="s")] == ["running"]
            with engine_in(postgres_url, tmp_path / "home") as office:
                assert adopted(office.matins) == 1
                go.write("on\n")
                go.close()
                agent.check_end(office)


def test_b9_agents_of_an_engine_that_lives_stay_with_it_until_it_ends(
    agent: Agent, postgres_url: str, tmp_path: Path
) -> None:
    """B9: two engines share a folder; the other one adopts them within a beat of the first one's end"""
    with agent.fifo.open("w") as go, engine_in(postgres_url, tmp_path / "home", beat_ms=100) as office:
        assert adopted(office.matins) == 0
        agent.kill_engine()
        go.write("on\n")
        go.close()
        agent.check_end(office)
        assert adopted(office.matins) == 1


def test_a_process_is_gone_only_where_its_pid_has_a_meaning(tmp_path: Path) -> None:
    """B9: containers share a name and a kernel, and have pids of their own; pids are used again"""
    own = evidence_in(tmp_path)
    with subprocess.Popen(["sleep", "5"]) as living:
        other = {**own, "pid": living.pid, "start": own["start"]}
        assert is_gone(own, other), "its pid belongs to another process now"
        assert not is_gone(own, own)
        for change in ({"boot": "b"}, {"namespace": "1"}, {"nonce": "n"}, {"start": 0}, {"pid": None}):
            assert not is_gone(own, {**other, **change}), change
        assert not is_gone(own, {"host": "here", "pid": living.pid})
        living.kill()
