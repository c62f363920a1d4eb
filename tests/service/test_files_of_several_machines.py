"""One file, several machines: a name owns what its file defines, and one place at a time applies a name. Row B18."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from file_steps import Desk

import postgres_fixtures
from matins.errors import Conflict, InvalidFile, InvalidInput, ManagedByFile, NotAllowed
from matins.model.access import Principal
from matins.surfaces.cli import cli
from matins.surfaces.transports.in_process import InProcess
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
TEXT = "agents: {scout: {runner: demo}}\nschedules:\n  a: {when: 5m, job: work}\n  b: {when: 5m, job: work}\n"
TEAM = "name: team-a\nschedules:\n  own: {when: 1h, agent: scout, prompt: Look}\n  more: {when: 1h, job: work}\n"


@pytest.fixture
def machines(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    """Two nodes with the same file, each at its own path."""
    desks: list[Desk] = []
    with ExitStack() as stack:
        for name in ("one", "two"):
            bench = stack.enter_context(closing(Sandbox(postgres_url, clock=ManualClock(), name=name)))
            bench.job("work")(lambda run: None)
            (tmp_path / name).mkdir()
            desks.append(Desk(bench, tmp_path / name / "matins.yaml", TEXT))
        yield desks[0], desks[1]


def test_b18_one_node_at_a_time_applies_a_name(machines: tuple[Desk, Desk]) -> None:
    """B18: equal copies are applied once; another node whose file differs says so and changes nothing until apply"""
    one, two = machines
    assert (one.look(), two.look()) == ("applied", "applied")
    assert len(one.notes()) == 1
    two.change(("b: {when: 5m", "b: {when: 6m"))
    assert two.look() == "waits"
    waits = f'the file "matins" was applied last from one:{one.path} at '
    assert waits in two.file.state.message
    assert two.bench.file.plan().waits is not None
    assert any(waits in found.sentence and not found.ok for found in two.bench.system.doctor())
    assert (one.look(), one.names()) == ("applied", ["a", "b"])
    assert two.bench.get("b").trigger_text == "every 5 minutes"
    assert two.reloader.check().state == "waits"

    one.change(("b: {when: 5m", "b: {when: 6m"))  # the copy arrives there too
    assert one.look() == "applied"
    assert two.reloader._others_applied()  # what makes the watch look again
    assert two.look() == "applied"
    assert two.bench.get("b").trigger_text == "every 6 minutes"

    two.write(TEXT.replace("a: {when: 5m", "a: {when: 7m"))
    assert two.look() == "waits"
    assert two.bench.file.apply().state == "applied"
    assert one.look() == "waits"
    assert one.bench.get("a").trigger_text == "every 7 minutes"
    with pytest.raises(ManagedByFile, match=rf'"a" is managed by two:{two.path} \(line 3\)'):
        one.bench.edit("a", when="9m")
    with two.bench.store.transaction(0) as transaction:  # as the store of one machine has it, which was moved here
        (applied,) = transaction.applied_files()
        transaction.set_applied_file(applied._replace(place=str(two.path)), two.path.read_text())
    two.change(("a: {when: 7m", "a: {when: 8m"))
    assert two.look() == "applied"
    one.path.unlink()  # a node without a file of its own is the normal case
    assert one.look() == "unread"
    two.path.unlink()
    assert (two.look(), two.bench.file.plan().waits) == ("waits", "the file is gone")


def test_b18_a_name_owns_what_its_file_defines(machines: tuple[Desk, Desk], tmp_path: Path) -> None:
    """B18: another name's file neither changes nor deletes it; a clash is refused with both places"""
    one, two = machines
    assert one.look() == "applied"
    two.write(TEAM)
    assert two.look() == "applied"
    assert two.names() == ["a", "b", "more", "own"]
    one.change(("  b: {when: 5m, job: work}\n", "  c: {when: 5m, job: work}\n"))
    assert one.look() == "applied"
    assert one.names() == ["a", "c", "more", "own"]

    two.change(("  more:", "  a:"))
    with pytest.raises(InvalidFile) as caught:
        two.bench.file.apply()
    (problem,) = caught.value.problems
    assert f"{two.path}, line 4, column 3" in problem.message
    assert f'there is a schedule "a" already, of the file "matins": one:{one.path}, line 3' in problem.message
    assert two.look() == "invalid"
    assert two.names() == ["a", "c", "more", "own"]
    one.change(("agents: {scout: {runner: demo}}\n", ""))
    with pytest.raises(Conflict, match=r'drops the agent "scout" \(line 1 before\), which own needs'):
        one.bench.file.apply()

    two.write(TEAM.replace("team-a", "team-b"))  # the name itself is a line of the file
    assert two.look() == "applied"
    assert two.bench.file.plan().name == "team-b"
    with two.bench.store.reading() as transaction:
        assert {entry.file for entry in transaction.file_entries()} == {"matins", "team-b"}
    two.write(TEAM.replace("team-a", "''"))
    with pytest.raises(InvalidFile, match='"name" must be text of 1 to 200'):
        two.bench.file.plan()


def test_b18_a_file_is_applied_from_anywhere(postgres_url: str, tmp_path: Path) -> None:
    """B18: matins apply --file sends it; what was sent from elsewhere is not taken back by a node's older copy"""
    here = Sandbox(postgres_url, clock=ManualClock(), name="one")
    file = tmp_path / "team.yaml"
    file.write_text(TEAM.replace("agent: scout, prompt: Look", "job: work"))

    class App:
        def transport(self, **location: str | None) -> InProcess:
            return InProcess(here, Principal("owner", "ana"))

    def typed(*arguments: str) -> str:
        done = CliRunner().invoke(cli, arguments, obj=App())
        assert done.exit_code == 0, done.output
        return done.output

    with closing(here):
        here.job("work")(lambda run: None)
        planned = json.loads(typed("--json", "plan", "--file", str(file)))
        place = f"{socket.gethostname()}:{file}"
        assert (planned["name"], planned["path"], planned["added"]) == ("team-a", place, 2)
        assert f"Applied {place}: +2 -0 ~0" in typed("apply", "--yes", "--file", str(file))
        with pytest.raises(ManagedByFile, match=rf"managed by {place} \(line 3\)"):
            here.edit("own", when="9m")
        copy = Desk(here, tmp_path / "matins.yaml", TEAM.replace("1h, agent: scout, prompt: Look", "2h, job: work"))
        assert copy.look() == "waits"
        assert f'the file "team-a" was applied last from {place}' in copy.file.state.message
        file.write_text(TEXT)
        assert "+3 -0 ~0" in typed("apply", "--yes", "--file", str(file))  # one folder of a CI server has many files
        assert {schedule.name for schedule in here.list()} == {"a", "b", "own", "more"}
        viewer = here.acting_as(Principal("viewer", "vic"))
        with pytest.raises(NotAllowed, match=r"cannot call file\.apply"):
            viewer.file.plan(text=TEXT)
        with pytest.raises(InvalidInput, match='"path" needs "text"'):
            here.file.apply(path="laptop:/x.yaml")


def test_b18_what_one_machine_follows_is_not_sent_to_it(tmp_path: Path) -> None:
    """B18: on a store of one machine, its file would be applied again with the next start"""
    with closing(Sandbox(clock=ManualClock())) as bench:
        bench.job("work")(lambda run: None)
        desk = Desk(bench, tmp_path / "matins.yaml", TEXT)
        assert desk.look() == "applied"
        with pytest.raises(Conflict, match=f'Matins follows the file "matins" at {desk.path}'):
            bench.file.apply(text=TEXT.replace("5m", "6m"), path="laptop:/home/ana/matins.yaml")
        sent = bench.file.apply(text=TEXT, path=f"{socket.gethostname()}:{desk.path}")  # the same file
        assert (sent.path, sent.state) == (str(desk.path), "applied")
        assert bench.file.apply(text=TEAM, path=f"{socket.gethostname()}:/team.yaml").path == "/team.yaml"
        assert desk.names() == ["a", "b", "more", "own"]
