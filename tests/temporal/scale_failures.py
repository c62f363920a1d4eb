"""The table of failures, played with real workers, keepers, trees and a server that is killed: `make test-scale`.
Row B18: no run has two live trees, none is lost, and none is repeated by the other engine."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from server import Server
from temporal_server import Relay, TemporalServer, WorkerProcess

from matins import Matins, Run
from matins.executors import outside
from matins.executors.orders import store_name
from matins.temporal import engine as adapter

Workers = Callable[..., WorkerProcess]
LEASE_MS, LOST_MS = 4_000, 9_000


class Agent:
    """An agent that holds a lock, says that it runs, and ends when it is let go. One that finds the lock taken writes
    `twice`."""

    def __init__(self, m: Matins, folder: Path, on_unknown: str) -> None:
        self.diary, self.began, self.go = folder / "diary", folder / "began", folder / "go"
        for fifo in (self.began, self.go):
            os.mkfifo(fifo)
        lock = f"exec 9> {folder}/lock; flock -n 9 || echo twice >> {self.diary}; echo run >> {self.diary}"
        script = (
            f"{lock}; [ $MATINS_ATTEMPT = 2 ] || {{ echo > {self.began}; cat {self.go}; echo on >> {self.diary}; }}"
        )
        m.agents.set("a", runner="shell", command=["sh", "-c", script], isolation="none", runs_on=["temporal:main"])
        m.add("a", when="every day at 09:00", agent="a", prompt="Hello", on_unknown=on_unknown)

    def lines(self) -> list[str]:
        return self.diary.read_text().split()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "HEARTBEAT_MS", 2_000)
    times = outside.OutsideTimes(lease_ms=LEASE_MS, lost_ms=LOST_MS, again_ms=500, max_delay_s=1)
    monkeypatch.setattr(outside.OutsideExecutor.__init__, "__defaults__", (times,))


def begun(m: Matins, agent: Agent) -> Run:
    run = m.run("a")
    agent.began.read_bytes()
    return run


def test_b18_a_killed_worker_that_returns_follows_its_runs(matins: Matins, workers: Workers, tmp_path: Path) -> None:
    """kill -9; the keeper and the tree go on; the next worker there is asked, and follows the tree to its end"""
    agent = Agent(matins, tmp_path, "hold")
    worker = workers("--name", "box")
    with matins:
        run = begun(matins, agent)
        worker.kill()
        workers("--name", "box")
        agent.go.write_text("on\n")
        ended = matins.runs.wait(run.id, timeout=120)
    assert (ended.state, ended.attempt) == ("succeeded", 1), (ended.reason, ended.outcome)
    assert agent.lines() == ["run", "on"]


def test_b18_a_killed_worker_that_stays_away_loses_its_tree_first(
    matins: Matins, workers: Workers, tmp_path: Path
) -> None:
    """kill -9, nobody returns: the lease ends the tree, and only then the run starts at another worker"""
    agent = Agent(matins, tmp_path, "retry")
    worker = workers("--name", "box")
    with matins:
        run = begun(matins, agent)
        worker.kill()
        workers("--name", "other", home="other")
        ended = matins.runs.wait(run.id, timeout=120)
    assert (ended.state, ended.attempt) == ("succeeded", 2), (ended.reason, ended.outcome)
    assert agent.lines() == ["run", "run"], "the lease has ended the first one"


def test_b18_a_stopped_worker_that_goes_on_is_asked_again(
    matins: Matins, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP for longer than its heartbeat timeout: it is given up, asked again, and still has the tree"""
    asked, ask = threading.Event(), adapter.TemporalEngine.ask

    async def noted(*given: Any) -> bool:
        asked.set()
        return await ask(*given)

    monkeypatch.setattr(adapter.TemporalEngine, "ask", noted)
    agent = Agent(matins, tmp_path, "hold")
    worker = workers("--name", "box")
    with matins:
        run = begun(matins, agent)
        worker.signal(signal.SIGSTOP)
        assert asked.wait(60)
        worker.signal(signal.SIGCONT)
        agent.go.write_text("on\n")
        ended = matins.runs.wait(run.id, timeout=120)
    assert (ended.state, ended.attempt) == ("succeeded", 1), (ended.reason, ended.outcome)
    assert agent.lines() == ["run", "on"]


def test_b18_a_worker_that_is_cut_off_ends_its_tree(
    matins: Matins, temporal: TemporalServer, prefix: str, workers: Workers, tmp_path: Path
) -> None:
    """Nothing passes to the server or back: no answer, no renewal. The run starts elsewhere after the lease, and what
    the first worker tells when the way is there again is refused"""
    agent, relay = Agent(matins, tmp_path, "retry"), Relay(temporal)
    worker = WorkerProcess(relay, prefix, tmp_path / "box", "--name", "box")
    try:
        with matins:
            run = begun(matins, agent)
            relay.cut()
            workers("--name", "other", home="other")
            ended = matins.runs.wait(run.id, timeout=120)
            relay.mend()
        assert (ended.state, ended.attempt) == ("succeeded", 2), (ended.reason, ended.outcome)
        assert agent.lines() == ["run", "run"], "the lease has ended the first one"
    finally:
        worker.kill()
        relay.close()


@pytest.mark.parametrize(("on_unknown", "state", "attempt"), [("hold", "held", 1), ("retry", "succeeded", 2)])
def test_b18_a_worker_whose_machine_lost_its_power(
    matins: Matins, workers: Workers, tmp_path: Path, on_unknown: str, state: str, attempt: int
) -> None:
    """Worker, keeper, warden and tree are gone; the journal, found again, says that the run began, and no end"""
    agent = Agent(matins, tmp_path, on_unknown)
    worker = workers("--name", "box")
    with matins:
        run = begun(matins, agent)
        worker.kill()
        end_all_of(tmp_path / "there", agent.go)
        workers("--name", "box")
        ended = matins.runs.wait(run.id, timeout=120)
    assert (ended.state, ended.attempt) == (state, attempt), (ended.reason, ended.outcome)
    assert agent.lines() == ["run"] * attempt


def end_all_of(*paths: Path) -> None:
    """Kill every process whose command line or folder names one of these paths."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace") + str((folder / "cwd").readlink())
            if int(folder.name) != os.getpid() and any(str(path) in words for path in paths):
                os.kill(int(folder.name), signal.SIGKILL)


def test_b18_people_terminate_a_run_in_temporal(
    matins: Matins, temporal: TemporalServer, prefix: str, workers: Workers, tmp_path: Path
) -> None:
    """The worker ends the tree, and the run is interrupted"""
    agent = Agent(matins, tmp_path, "hold")
    workers("--name", "box")
    engine = adapter.TemporalEngine(temporal.connection(prefix))
    with matins:
        run = begun(matins, agent)
        name = f"{store_name(matins.store)}/{run.id}/1"
        asyncio.run(engine.terminate(name, "enough"))
        ended = matins.runs.wait(run.id, timeout=120)
    assert ended.state == "interrupted", (ended.state, ended.reason, ended.outcome)
    assert "it was ended in temporal:main: enough" in str(ended.outcome)
    until = time.monotonic() + 60
    while any(str(agent.go) in (one / "cmdline").read_text(errors="replace") for one in processes()):
        assert time.monotonic() < until, "the tree lives"
        time.sleep(0.2)
    assert agent.lines() == ["run"]


def processes() -> list[Path]:
    """The processes that are still there."""
    return [folder for folder in Path("/proc").glob("[0-9]*") if (folder / "cmdline").exists()]


def test_b18_the_end_of_a_run_waits_for_the_store(
    temporal: TemporalServer, prefix: str, workers: Workers, tmp_path: Path
) -> None:
    """PostgreSQL is stopped while the run ends: its outcome waits in Temporal and in memory"""
    folder = Path(tempfile.mkdtemp(prefix="matins-temporal-"))  # where the account of the server may go
    folder.chmod(0o755)
    with Server(folder / "pg") as postgres:
        m = Matins(postgres.url("matins"), state_folder=str(tmp_path / "state"))
        m.temporal.set("main", address=temporal.address, prefix=prefix)  # type: ignore[attr-defined]
        agent = Agent(m, tmp_path, "hold")
        workers("--name", "box")
        with m:
            run = begun(m, agent)
            postgres.stop()
            agent.go.write_text("on\n")
            while agent.lines() != ["run", "on"]:
                time.sleep(0.1)
            postgres.start()
            ended = m.runs.wait(run.id, timeout=120)
        m.close()
    shutil.rmtree(folder)
    assert (ended.state, ended.attempt) == ("succeeded", 1), (ended.reason, ended.outcome)


def test_b18_a_killed_server_comes_back_and_knows_its_runs(prefix: str, tmp_path: Path) -> None:
    """kill -9 of the server, on a file: the run goes on, its end is taken; what was handed over while it was away
    starts when it is back"""
    (tmp_path / "server").mkdir()
    server = TemporalServer(tmp_path / "server")
    server.start()
    m = Matins(f"sqlite:///{tmp_path}/matins.db")
    m.temporal.set("main", address=server.address, prefix=prefix)  # type: ignore[attr-defined]
    agent = Agent(m, tmp_path, "hold")
    m.agents.set("b", runner="shell", command=["echo", "on"], isolation="none", runs_on=["temporal:main"])
    m.add("b", when="every day at 09:00", agent="b", prompt="Hello")
    worker = WorkerProcess(server, prefix, tmp_path / "there")
    try:
        with m:
            run = begun(m, agent)
            server.kill()
            later = m.run("b")
            agent.go.write_text("on\n")
            server.start()
            ended = [m.runs.wait(one.id, timeout=120) for one in (run, later)]
        assert [(one.state, one.attempt) for one in ended] == [("succeeded", 1)] * 2, [one.outcome for one in ended]
        assert agent.lines() == ["run", "on"]
    finally:
        worker.kill()
        m.close()
        server.kill()


def test_b18_a_server_that_lost_its_data_is_fenced(prefix: str, tmp_path: Path) -> None:
    """The name is unknown, while the tree may live: the run is tried again only after its lease"""
    (tmp_path / "server").mkdir()
    server = TemporalServer(tmp_path / "server")
    server.start()
    m = Matins(f"sqlite:///{tmp_path}/matins.db")
    m.temporal.set("main", address=server.address, prefix=prefix)  # type: ignore[attr-defined]
    agent = Agent(m, tmp_path, "retry")
    worker = WorkerProcess(server, prefix, tmp_path / "there")
    try:
        with m:
            run = begun(m, agent)
            server.kill()
            for file in (tmp_path / "server").glob("temporal.db*"):
                file.unlink()
            server.start()
            ended = m.runs.wait(run.id, timeout=120)
        assert (ended.state, ended.attempt) == ("succeeded", 2), (ended.reason, ended.outcome)
        assert agent.lines() == ["run", "run"]
    finally:
        worker.kill()
        m.close()
        server.kill()
