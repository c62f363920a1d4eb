"""A run that a machine cannot start is left to other machines, and waits for one. Rows B2, B9."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from office import Office

import postgres_fixtures
from matins import Matins
from matins.executors.agents import Fitness, reason_now
from matins.testing import ManualClock

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url

MOUNTING = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
SICK = """
import errno, os, sys
from pathlib import Path
from matins import Matins
url, home = sys.argv[1], Path(sys.argv[2])
m = Matins(url, state_folder=str(home))
m.start()
m.agents.set("sh", runner="shell", command=["sh", "-c", "echo done"], isolation="none")
m.add("s", when="every day at 09:00", agent="sh", prompt="Hello", overlap="allow")
first = m.run("s")
while m.runs.get(first.id).live: pass
number = 0
while True:
    try:
        (home / f"full{number}").touch()
    except OSError as error:
        assert error.errno == errno.ENOSPC
        break
    number += 1
print(m.runs.get(first.id).state, flush=True)
sys.stdin.readline()
for number in range(number): (home / f"full{number}").unlink()
sys.stdin.readline()
m.stop()
"""


class SickMachine:
    """An engine in a process of its own, in whose folder there are no inodes left."""

    def __init__(self, url: str, home: Path) -> None:
        home.mkdir()
        script = 'mount -t tmpfs -o nr_inodes=64 none "$1" && exec "$0" -c "$2" "$3" "$1"'
        inner = ["sh", "-c", script, sys.executable, str(home), SICK, url]
        self.process = subprocess.Popen(
            [*MOUNTING, *inner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "succeeded\n"  # before its disk was full

    def next(self) -> None:
        """Free its inodes; the second time, stop."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def sick(postgres_url: str, tmp_path: Path) -> Iterator[SickMachine]:
    if subprocess.run([*MOUNTING, "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces: no disk can be filled here")
    machine = SickMachine(postgres_url, tmp_path / "sick")
    yield machine
    machine.close()


@contextmanager
def closing(matins: Matins) -> Iterator[Matins]:
    try:
        yield matins
    finally:
        matins.stop()
        matins.close()


def until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 90
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def events(matins: Matins, kind: str) -> list[Any]:
    return list(matins.events.list(types=[kind]))


def test_b9_runs_of_a_machine_without_inodes_are_left_to_others(
    sick: SickMachine, postgres_url: str, tmp_path: Path
) -> None:
    """B9 B2: none of them fails; doctor, why and an incident say which machine it is, until it works again"""
    with closing(Matins(postgres_url, state_folder=str(tmp_path / "well"))) as matins:
        ids = [matins.run("s").id for _ in range(6)]
        (said,) = until(lambda: events(matins, "engine.cannot_start"))
        assert "No space left on device" in (said.data or {})["reason"]
        until(lambda: all(matins.runs.get(one).state == "ready" for one in ids))
        assert {matins.runs.get(one).attempt for one in ids} == {0}
        (finding,) = [one for one in matins.system.doctor() if one.what.startswith("engine on")]
        assert (finding.ok, "No space left on device" in finding.sentence) == (False, True)
        # An engine that did not get its turn in time registers again, and its former row lasts as long as its lease.
        gate = until(lambda: _engine_gate(matins, "Runs wait."))
        assert gate.passes is False
        assert "No space left on device" in gate.sentence

        matins.start()  # another machine
        until(lambda: not any(matins.runs.get(one).live for one in ids))
        assert {(matins.runs.get(one).state, matins.runs.get(one).attempt) for one in ids} == {("succeeded", 1)}
        (incident,) = until(lambda: [one for one in matins.incidents.list() if one.kind == "engine"])
        assert "cannot start agents" in incident.summary

        sick.next()
        until(lambda: events(matins, "engine.can_start"))
        assert not [one for one in matins.system.doctor() if one.what.startswith("engine on")]
        until(lambda: not [one for one in matins.incidents.list() if one.kind == "engine"])


def _engine_gate(matins: Matins, end: str) -> Any:
    (gate,) = [one for one in matins.why("s").now if one.gate == "engine"]
    return gate if gate.sentence.endswith(end) else None


@pytest.fixture
def office(postgres_url: str, tmp_path: Path) -> Iterator[Office]:
    office = Office(postgres_url, state_folder=str(tmp_path / "home"), name="a")
    with office.matins:
        office.matins.agents.set("sh", runner="shell", command=["true"], workdir=str(tmp_path / "w"), isolation="none")
        office.matins.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
        yield office
    office.matins.close()


def other_node(office: Office) -> int:
    """Another node, as far as the store can tell."""
    matins = office.matins
    offers = json.dumps(["host:b", "runner:shell"])
    with matins.store.transaction(0) as transaction:
        return transaction.insert_worker('{"host": "far"}', matins.clock.now_ms() + 10_000, offers, "b")


def test_b9_b18_a_node_without_the_folder_leaves_the_run_to_others(
    office: Office, postgres_url: str, tmp_path: Path
) -> None:
    """B9 B18: once, and the attempt does not count; `why` says what is missing; another node has the folder"""
    matins, fake = office.matins, other_node(office)
    run = matins.run("s")
    (told,) = until(lambda: events(matins, "run.not_here"))
    assert told.data == {"node": "a", "reason": f"{tmp_path / 'w'} is not a folder."}
    assert (matins.runs.get(run.id).state, matins.runs.get(run.id).attempt) == ("ready", 0)
    (tmp_path / "w").mkdir()
    with matins.store.transaction(0) as transaction:
        transaction.stop_worker(fake, 0)
    summary = matins.why("s").summary
    assert f"a turned it away ({tmp_path / 'w'} is not a folder). It waits since" in summary
    with closing(Matins(postgres_url, state_folder=str(tmp_path / "b"), name="b")) as other:
        other.start()
        ended = office.wait("s")
    assert (ended.state, ended.attempt) == ("succeeded", 1), ended.outcome
    assert len(events(matins, "run.not_here")) == 1


def test_b9_b18_a_folder_that_no_node_has_fails_the_run(office: Office, postgres_url: str, tmp_path: Path) -> None:
    """B9 B18: with the list of nodes. A node alone fails it at once, in its own words"""
    alone = office.fire("s")
    assert alone.state == "failed"
    assert alone.outcome["error"].startswith(f"the run was not started: {tmp_path / 'w'} is not a folder.")
    assert events(office.matins, "run.released") == []
    with closing(Matins(postgres_url, state_folder=str(tmp_path / "b"), name="b")) as other:
        other.start()
        ended = office.fire("s")
    missing = f"{tmp_path / 'w'} is not a folder"
    assert (ended.state, ended.attempt) == ("failed", 1)
    assert f"No node can run it. a: {missing}; b: {missing}." in ended.outcome["error"]
    assert len(events(office.matins, "run.not_here")) == 1


def test_b18_a_run_that_all_live_nodes_turned_away_fails(office: Office, tmp_path: Path) -> None:
    """B18: also when the other node is gone meanwhile; the reason has what each lacks"""
    matins, fake = office.matins, other_node(office)
    run = matins.run("s")
    until(lambda: events(matins, "run.not_here"))
    with matins.store.transaction(0) as transaction:
        transaction.stop_worker(fake, 0)
    engine = matins._loop.engine
    engine.unserved_runs.look(matins.clock.now_ms() + 60_000)
    ended = matins.runs.get(run.id)
    assert (ended.state, ended.reason) == ("failed", "not_here")
    assert f"turned it away (a: {tmp_path / 'w'} is not a folder)" in matins.why("s").summary


def test_a_machine_is_tested_ever_less_often_until_it_works() -> None:
    """B9"""
    clock, results = ManualClock(), ["No space left on device", "No space left on device", None]
    fitness = Fitness(clock, lambda folders: results.pop(0))
    assert not fitness.is_test_due()
    fitness.fail("No space left on device", ["/a"])
    waits = []
    while results:
        waited = 0
        while not fitness.is_test_due():
            clock.advance(1_000)
            waited += 1
        assert not fitness.is_test_due()  # while it is tested
        assert fitness.offers() == {"trouble:No space left on device"}
        fitness.test()
        waits.append(waited)
    assert waits == [5, 10, 20]
    assert (fitness.reason, fitness.offers()) == (None, frozenset())


def test_the_test_of_a_machine_writes_where_the_run_failed(tmp_path: Path) -> None:
    """B9: and a folder that is gone says nothing about the machine"""
    assert reason_now([str(tmp_path)]) is None
    assert reason_now([str(tmp_path / "gone")]) is None
    assert list(tmp_path.iterdir()) == []
    if shutil.which("unshare") and not subprocess.run([*MOUNTING, "true"], capture_output=True).returncode:
        code = "from matins.executors.agents import reason_now; import sys; print(reason_now([sys.argv[1]]))"
        script = f'mount -t tmpfs -o nr_inodes=1 none {tmp_path} && exec "$0" -c "$1" {tmp_path}'
        done = subprocess.run(
            [*MOUNTING, "sh", "-c", script, sys.executable, code], capture_output=True, text=True, check=True
        )
        assert done.stdout == "No space left on device\n"
