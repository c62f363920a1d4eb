"""Runs go to a worker through a real Temporal server, and their outcomes come back. Row B18."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from temporal_server import TemporalServer, WorkerProcess

from matins import Matins
from matins.executors.processes import proc

Workers = Callable[..., WorkerProcess]


def add(m: Matins, name: str, script: str, **settings: object) -> None:
    m.agents.set(name, runner="shell", command=["sh", "-c", script], isolation="none", **settings)
    m.add(name, when="every day at 09:00", agent=name, prompt="Hello")


def test_b18_a_run_goes_to_a_worker_and_its_outcome_comes_back(
    matins: Matins, workers: Workers, tmp_path: Path
) -> None:
    """B18: by connection and label; a worker that lacks what it needs starts nothing, and that is no attempt"""
    add(matins, "plain", "echo on $MATINS_ATTEMPT", runs_on=["temporal:main", "gpu"])
    workers("--name", "bare")
    workers("--name", "box", "--label", "gpu", home="box")
    with matins:
        run = matins.runs.wait(matins.run("plain").id, timeout=90)
        assert (run.state, run.attempt) == ("succeeded", 1), (run.reason, run.outcome)
        assert run.outcome["result"]["text"].strip() == "on 1"
        found = [one for one in matins.system.doctor() if one.what == "temporal main"]
        assert [one.ok for one in found] == [True], found
        assert "box@" in found[0].sentence


def test_b18_the_output_of_a_run_on_a_worker_is_shown(matins: Matins, workers: Workers, tmp_path: Path) -> None:
    """B18 B8: its end while it runs, within beats of the worker; afterwards the last 64 KB of each stream"""
    os.mkfifo(tmp_path / "go")
    long = "seq 1 30000; echo oops >&2; exit 3"
    add(matins, "long", f"echo one; cat {tmp_path}/go; {long}", runs_on=["temporal:main"])
    workers()
    with matins:
        run = matins.run("long")
        until = time.monotonic() + 60
        while not (shown := matins.runs.output(run.id)).text:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert (shown.text, shown.over) == ("one\n", False)
        (tmp_path / "go").write_text("on\n")
        assert matins.runs.wait(run.id, timeout=90).state == "failed"
        rest = matins.runs.output(run.id, offset=shown.next)
        assert rest.total == rest.offset + 65_536
        assert (rest.offset > shown.next, rest.text.endswith("29999\n30000\n")) == (True, True)
        assert matins.runs.output(run.id, stream="stderr").text == "oops\n"
        assert [one.text for one in matins.runs.transcript(run.id).entries] == ["one"]
        (note, *_) = matins.runs.transcript(run.id, offset=rest.offset - 1).entries
        assert (note.kind, note.text) == ("note", "1 bytes were not kept")


def test_b18_a_cancel_ends_the_tree_on_the_worker(matins: Matins, workers: Workers, tmp_path: Path) -> None:
    """B18 B8: within a beat of the worker"""
    os.mkfifo(tmp_path / "began")
    add(matins, "long", f"echo $$ > {tmp_path}/began; sleep 1000", runs_on=["temporal:main"])
    workers()
    with matins:
        run = matins.run("long")
        pid = int((tmp_path / "began").read_text())
        assert proc.start_of(pid)
        matins.runs.cancel(run.id)
        assert matins.runs.wait(run.id, timeout=90).state == "cancelled"
        assert not Path(f"/proc/{pid}").exists()


def test_b18_a_run_goes_on_without_its_engine_and_any_engine_finds_its_end(
    matins: Matins, workers: Workers, tmp_path: Path, temporal: TemporalServer
) -> None:
    """B18: matins up may go away"""
    for name in ("began", "go"):
        os.mkfifo(tmp_path / name)
    script = f"echo run >> {tmp_path}/diary; echo > {tmp_path}/began; cat {tmp_path}/go"
    add(matins, "long", script, runs_on=["temporal:main"])
    workers()
    with matins:
        run = matins.run("long")
        (tmp_path / "began").read_bytes()
    assert matins.runs.get(run.id).live, "the engine has stopped, and waited for nothing"
    (tmp_path / "go").write_text("on\n")
    with matins:
        ended = matins.runs.wait(run.id, timeout=90)
    assert (ended.state, ended.attempt) == ("succeeded", 1), (ended.reason, ended.outcome)
    assert (tmp_path / "diary").read_text() == "run\n"
