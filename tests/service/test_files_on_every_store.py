"""The file applied on every store: one transaction, all of it or nothing. Row C7."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import every_store
import pytest
from file_steps import FILE, Desk

from matins.api.results import FilePlan, SettingChange
from matins.errors import InvalidInput, ManagedByFile
from matins.model.access import Principal
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, rows = every_store.bench, every_store.rows
ADA = Principal("operator", "ada")
SCOUT = Principal("agent", "scout")


@pytest.fixture
def desk(bench: Sandbox, tmp_path: Path) -> Iterator[Desk]:
    return Desk(bench, tmp_path / "matins.yaml")


def told(plan: FilePlan) -> list[str]:
    return [f"{entry.change} {entry.kind} {entry.name}" for entry in plan.entries]


def test_c7_add_remove_and_re_arm_in_one_transaction(desk: Desk, rows: Callable[[], list[Any]]) -> None:
    """C7, B3: the plan says setting by setting what a reload does; what is unchanged is not touched"""
    desk.look()
    desk.bench.run_until("2026-03-27T08:07:00Z")
    before = desk.cursors()
    desk.change(
        ("prompt: Good morning", "prompt: Good day"),
        ("when: 5m", "when: 10m"),
        ('  late: {when: "30 23 * * *", job: work}\n', "  new: {when: 1h, job: work}\n"),
    )
    untouched = rows()
    plan = desk.bench.file.plan()
    assert rows() == untouched
    assert told(plan) == [
        "changed schedule scout/morning",
        "changed schedule often",
        "added schedule new",
        "removed schedule late",
    ]
    assert plan.entries[0].settings == [SettingChange("prompt", "Good morning", "Good day")]
    assert plan.entries[1].settings == [SettingChange("when", "every 5m", "every 10m")]
    assert plan.entries[1].line == 10
    assert desk.look() == "applied"
    assert desk.notes()[-1] == "matins.yaml hot-reloaded: +1 -1 ~2 task(s)"
    after = desk.cursors()
    assert after["morning"] == (2, before["morning"][1])
    assert after["often"] == (2, "2026-03-27T08:17:00Z")
    assert after["hourly"] == before["hourly"]
    assert "late" not in after
    assert desk.bench.assert_ran("often", times=1)


def test_c7_a_crash_in_the_middle_leaves_nothing(
    desk: Desk, rows: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: all of it or nothing, on every store"""
    desk.look()
    desk.change(("when: 5m", "when: 10m"), ("runner: demo", "runner: shell, command: [ls]"), ("22:00", "21:00"))
    before = rows()

    def lost(self: Any, *arguments: Any) -> None:
        raise OSError("the machine is gone")

    with desk.bench._store.reading() as transaction:
        kind = type(transaction)
    with monkeypatch.context() as broken:
        broken.setattr(kind, "upsert_file_entries", lost)
        with pytest.raises(OSError, match="the machine is gone"):
            desk.bench.file.apply()
    assert rows() == before
    for number in range(5):  # what was read on the way to nowhere is not taken for what these wrote
        desk.bench.quiet_hours.set(f"n{number}", windows=["12:00-13:00"])
        assert len(desk.bench.quiet_hours.list()) == number + 2
        assert desk.bench.agents.get("scout").runner == "demo"
    assert desk.bench.file.apply().note == "+0 -0 ~3"
    assert desk.bench.agents.get("scout").runner == "shell"


def test_c7_a_file_that_vanished_waits_for_a_person(desk: Desk, rows: Callable[[], list[Any]]) -> None:
    """C7: also one that became empty, or drops more than half of its schedules"""
    desk.look()
    before = rows()
    desk.path.unlink()
    assert desk.look() == "waits"
    assert desk.bench.file.plan().waits == "the file is gone"
    desk.write("# nothing\n")
    assert desk.look() == "waits"
    assert desk.bench.file.plan().waits == "the file is empty"
    desk.write("agents: {scout: {runner: demo}}\nschedules: {often: {when: 5m, job: work}}\n")
    assert desk.look() == "waits"
    plan = desk.bench.file.plan()
    assert (plan.state, plan.waits) == ("waits", "it drops 3 of its 4 schedules")
    assert rows() == before
    assert "matins apply" in desk.file.state.message
    assert desk.bench.file.apply(digest=plan.digest).state == "applied"
    assert desk.file.state.state == "applied"
    assert desk.names() == ["often"]
    assert desk.look() == "applied"


def test_everything_that_governs(desk: Desk) -> None:
    """P7: hooks in the seed's shape; budgets, prices, rates, limits, webhooks, hosts, sources, rules"""
    more = """\
        budgets: {day: {period: day, max_cost: €5}}
        rates: {EUR: 2}
        prices: {mine: {input: $1, output: $2}}
        hooks: {"before:schedule:trigger": {"command": "true"}}
        webhooks: {ops: {url: "http://localhost:9/x", secret: "env:X", types: run.failed}}
        allowed_hosts: ["localhost:9"]
        limits: {global: 3, agent:scout: 1}
        work_sources: {todo: {kind: tasks}}
        agent_rules: {"*": {max_schedules: 1}}
        """
    desk.write(FILE + "\n".join(line.strip() for line in more.splitlines()) + "\n")
    assert desk.look() == "applied", desk.file.state
    bench = desk.bench
    assert bench.budgets.get("day").max_cost == "$10.00"
    assert bench.agent_rules.get("scout").max_schedules == bench.agent_rules.get().max_schedules == 1
    assert {(limit.scope, limit.size) for limit in bench.limits.list()} == {("global", 3), ("agent:scout", 1)}
    assert [hook.url for hook in bench.webhooks.list()] == ["http://localhost:9/x"]
    assert bench.allowed_hosts.get().hosts == ["localhost:9"]
    assert [hook.event for hook in bench.hooks.list()] == ["before:schedule:trigger"]
    with pytest.raises(ManagedByFile):
        bench.webhooks.delete("ops")
    with pytest.raises(ManagedByFile):
        bench.limits.set("global", size=9)
    desk.write(FILE)
    assert desk.look() == "waits"  # it is the beginning of what was there
    bench.file.apply()
    assert bench.budgets.list() == bench.webhooks.list() == bench.limits.list() == bench.work_sources.list() == []
    assert bench.agent_rules.get().max_schedules == 20


def test_c7_two_engines_that_follow_one_file_apply_it_once(postgres_url: str, tmp_path: Path) -> None:
    """C7: both see it saved, at the same moment"""
    path = tmp_path / "matins.yaml"
    benches = [Sandbox(postgres_url, clock=ManualClock(every_store.START)) for _ in range(2)]
    for bench in benches:
        bench.job("work")(lambda run: None)
    desks = [Desk(bench, path) for bench in benches]
    for text in (FILE, FILE.replace("5m", "10m").replace("22:00", "21:00"), "# less\n" + FILE):
        path.write_text(text)
        both = threading.Barrier(2)

        def look(desk: Desk, both: threading.Barrier = both) -> str:
            both.wait()
            return desk.look()

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(look, desks)) == ["applied", "applied"], [desk.file.state for desk in desks]
    assert desks[0].notes() == [
        "matins.yaml hot-reloaded: +4 -0 ~0 task(s)",
        "matins.yaml hot-reloaded: +0 -0 ~1 task(s)",
        "matins.yaml hot-reloaded: +0 -0 ~1 task(s)",
    ]
    assert desks[1].cursors()["often"][0] == 3
    for bench in benches:
        bench.close()


def test_c7_a_daemon_without_a_file_does_not_miss_that_of_another(desk: Desk, tmp_path: Path) -> None:
    """C7: nothing waits for an apply that would take away what the other's file defines"""
    assert desk.look() == "applied"
    other = desk.bench.watch_file(tmp_path / "elsewhere.yaml")
    assert other.check().state == "unread"
    assert [finding.ok for finding in desk.bench.system.doctor() if finding.what == "file"] == [True]
    with pytest.raises(InvalidInput, match="There is no file"):
        desk.bench.file.apply()
    assert len(desk.names()) == 4
