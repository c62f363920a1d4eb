"""corvid-agent's services that are attached late. Row V2."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from algosdk import account, encoding, mnemonic
from algosdk.encoding import encode_address

from matins import InvalidInput, Matins
from matins.api.results import Schedule
from matins.engine.notify_addresses import is_address
from matins.errors import CronParseError
from matins.seeds import corvid
from matins.seeds.corvid import (
    BUILT_IN,
    AgentSchedule,
    ScheduleExecution,
    SchedulerService,
    agent_schedule,
    create_schedule,
)
from matins.seeds.corvid import read as import_corvid
from matins.testing import ManualClock, Sandbox
from standins.algod import open_algod

INPUTS: dict[str, dict[str, Any]] = {
    "send_message": {"toAgentId": "rook", "message": "Hello"},
    "improvement_loop": {},
    "reputation_attestation": {},
    "work_task": {"description": "Paint"},
}
SENTENCES = {
    "send_message": "Agent messenger not available",
    "improvement_loop": "Improvement loop service not available",
    "reputation_attestation": "Reputation services not available",
    "work_task": "Work task service not available",
}


def hourly(m: Matins, *actions: str) -> None:
    for action in actions:
        create_schedule(
            m, action, agent_id="magpie", action_type=action, action_input=INPUTS[action], cron_expression="0 * * * *",
            approval_policy="auto",
        )  # fmt: skip


def test_v2_services_are_attached_late() -> None:
    """V2: "Late-inject messenger after AlgoChat init"; "Late-inject improvement loop service"; "Late-inject reputation
    services" """
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        service, told = SchedulerService(bench), list[Any]()
        names = ("send_message", "improvement_loop", "reputation_attestation")
        service.set_agent_messenger(lambda run: told.append(run.payload["message"]))
        service.set_improvement_loop_service(lambda run: told.append(run.schedule))
        service.set_reputation_services(lambda run: 7, lambda run, score: told.append((run.schedule, score)))
        hourly(bench, *names)
        bench.run_until("2026-03-27T09:00:00Z")
        assert {bench.runs.list(schedule=name)[0].state for name in names} == {"succeeded"}
        assert sorted(map(str, told)) == ["('reputation_attestation', 7)", "Hello", "improvement_loop"]


@pytest.mark.parametrize("action", sorted(SENTENCES))
def test_v11_a_service_that_is_not_available(tmp_path: Path, action: str) -> None:
    """V11: "WorkTaskService not available: Execution fails with "Work task service not available""; "AgentMessenger not
    available: send_message execution fails"; a service that comes late is used from then on"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.agents.set("magpie", runner="demo")
        service = SchedulerService(m)
        hourly(m, action)
        with m:
            run = m.runs.wait(m.run(action).id, timeout=60)
            assert (run.state, (run.outcome or {})["error"]) == ("failed", SENTENCES[action])
            service.set_agent_messenger(lambda run: None)
            service.set_improvement_loop_service(BUILT_IN)
            service.set_reputation_services(BUILT_IN)
            if action != "work_task":
                assert m.runs.wait(m.run(action).id, timeout=60).state == "succeeded"


def test_v11_an_unknown_action_type() -> None:
    """V11: "Unknown action type: Execution marked as failed"; one that no program ever had is refused at once"""
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        with pytest.raises(InvalidInput, match=r'There is no job "dance"\.'):
            create_schedule(bench, "d", agent_id="magpie", action_type="dance", cron_expression="0 9 * * *")
        bench.job("dance")(lambda run: None)
        made = create_schedule(
            bench, "d", agent_id="magpie", action_type="dance", cron_expression="0 9 * * *", approval_policy="auto"
        )
        bench.run_until("2026-03-27T08:30:00Z")
        bench.jobs._own.clear()  # the program loses it while it runs
        bench.run_until("2026-03-27T09:00:00Z")
        (execution,) = SchedulerService(bench).list_executions(made)
        assert (execution.status, execution.result) == (
            "failed", 'the job "dance" is not registered in this process',
        )  # fmt: skip


def test_v2_services_may_be_there_from_the_start() -> None:
    """V2: "workTaskService: Optional: for `work_task` actions"; "agentMessenger: Optional: for messaging" """
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        told = list[str]()
        SchedulerService(bench, lambda run: told.append(run.schedule), lambda run: told.append(run.schedule))
        hourly(bench, "work_task", "send_message")
        bench.run_until("2026-03-27T09:00:00Z")
        assert sorted(told) == ["send_message", "work_task"]


def test_v2_the_limit_is_known_before_the_start() -> None:
    """V2: "maxConcurrent" is MAX_CONCURRENT_EXECUTIONS (2)"""
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        service = SchedulerService(bench)
        assert service.get_stats().max_concurrent == 2
        assert bench.limits.list() == [], "looking sets nothing"
        bench.limits.set("global", size=5)
        assert service.get_stats().max_concurrent == 5


def failing(bench: Sandbox, address: str, **settings: Any) -> Schedule:
    def fail(run: object) -> None:
        raise ValueError("no disk left")

    bench.job("star_repo")(fail)
    return create_schedule(
        bench, "star", agent_id="magpie", action_type="star_repo", action_input={"repos": ["a/b"]},
        cron_expression="0 9 * * *", notify_address=address, approval_policy="auto", **settings,
    )  # fmt: skip


def deliver(bench: Sandbox) -> None:
    bench.run_until("2026-03-27T09:00:00Z")
    for _ in range(3):  # the incident, its message, and what became of that
        bench.outbox.run_once(bench.clock.now_ms())


def test_v9_notify_address_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """V9: "On-chain notifications to notifyAddress": by the owner's destination for this address, and by no other"""
    key, address = account.generate_account()
    monkeypatch.setenv("MNEMONIC", mnemonic.from_private_key(key))
    with open_algod() as node, closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        for name, to in (("other", account.generate_account()[1]), ("chain", address)):
            bench.destinations.set(name, kind="algorand", url=node.url, to=[to], token="env:MNEMONIC")
        made = failing(bench, address)
        assert (made.settings["notify"], made.notes) == (["chain"], [])
        assert not [one for one in bench.system.doctor() if "Nothing is sent" in one.sentence]
        deliver(bench)
        assert bench.runs.list(schedule="star")[0].state == "failed"
    [taken] = node.taken
    assert encode_address(taken["rcv"]) == address
    assert b'"status":"failed"' in taken["note"]


def test_v9_a_node_that_refuses_changes_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """V9: "fire-and-forget; failures are logged but don't affect execution status" """
    key, address = account.generate_account()
    monkeypatch.setenv("MNEMONIC", mnemonic.from_private_key(key))
    with open_algod() as node, closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        node.refuses = "overspend"
        bench.destinations.set("chain", kind="algorand", url=node.url, to=[address], token="env:MNEMONIC")
        failing(bench, address)
        deliver(bench)
        assert [run.state for run in bench.runs.list(schedule="star")] == ["failed"]
        assert "undelivered" in [found.kind for found in bench.incidents.list()]


@pytest.mark.parametrize("address", ["nonsense", "", "A" * 58])
def test_v9_what_is_no_address_is_refused(address: str) -> None:
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        with pytest.raises(InvalidInput, match='"notify_address" is not an address of Algorand') as refused:
            failing(bench, address)
        assert refused.value.field == "notify_address"
        assert bench.list() == []


def test_v9_without_a_node_and_a_key_it_says_that_nothing_is_sent() -> None:
    """V9: off by default; the answer and `doctor` say so, with the command that changes it"""
    address = account.generate_account()[1]
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        made = failing(bench, address)
        (note,) = made.notes
        assert note.startswith(f"Nothing is sent to {address}: the schedule has no destination of kind algorand.")
        (found,) = [one for one in bench.system.doctor() if one.what == "schedule star"]
        assert f"Nothing is sent to {address}" in found.sentence
        assert (
            found.fix
            == f"matins destinations set chain --kind algorand --url NODE --to {address} --token env:ALGORAND_MNEMONIC"
        )
        deliver(bench)
        assert bench.runs.list(schedule="star")[0].state == "failed"


@pytest.mark.parametrize("known", [True, False])
def test_v9_an_imported_address_says_what_it_needs(tmp_path: Path, known: bool) -> None:
    """V9 B11: the importer has neither a node nor a key"""
    address = account.generate_account()[1] if known else "nonsense"
    row = {
        "id": "s1", "name": "star", "agent_id": "magpie", "cron_expression": "0 9 * * 1", "status": "active",
        "actions": [{"type": "star_repo", "repos": ["a/b"]}], "notify_address": address,
    }  # fmt: skip
    (tmp_path / "corvid.json").write_text(json.dumps([row]))
    (entry,) = import_corvid(str(tmp_path / "corvid.json"), "UTC").entries
    assert entry.settings["labels"] == {"notify_address": address}
    assert ("by a destination of kind algorand" if known else "is not an address of Algorand") in entry.notes[0]


def test_v9_addresses_are_read_as_the_library_reads_them() -> None:
    for _ in range(20):
        address = account.generate_account()[1]
        changed = address[:-1] + ("A" if address[-1] != "A" else "E")
        for text in (address, changed, address.lower(), address[:-1], f"{address}=", "é" * 58):
            assert is_address(text) == encoding.is_valid_address(text), text


def test_v12_every_column_of_agent_schedules() -> None:
    """V12: the table agent_schedules, held or derived"""
    columns = {
        "id", "name", "description", "agent_id", "project_id", "cron_expression", "interval_ms", "actions",
        "approval_policy", "max_executions", "execution_count", "notify_address", "status", "consecutive_failures",
        "last_run_at", "next_run_at", "created_at", "updated_at",
    }  # fmt: skip
    assert {field.name for field in fields(AgentSchedule)} == columns
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        bench.job("star_repo")(lambda run: None)
        made = create_schedule(
            bench, "star", agent_id="magpie", action_type="star_repo", action_input={"repos": ["a/b"]},
            cron_expression="0 9 * * 1", project_id="apollo", notify_address=account.generate_account()[1],
            max_executions=3,
        )  # fmt: skip
        row = agent_schedule(made)
        assert is_address(row.notify_address or "")
        assert (row.description, row.approval_policy, row.execution_count) == ("", "owner_approve", 0)
        assert row.actions == ({"type": "star_repo", "repos": ["a/b"]},)
        assert (row.project_id, row.max_executions) == ("apollo", 3)
        assert (row.cron_expression, row.interval_ms, row.status) == ("0 9 * * 1", None, "active")
        assert (row.next_run_at, row.last_run_at) == ("2026-03-30T09:00:00Z", None)
        bench.pause("star")
        assert agent_schedule(bench.get("star")).status == "paused"


def test_v12_every_column_of_schedule_executions() -> None:
    """V12: "session_id: Linked agent session"; "work_task_id: Linked work task" """
    columns = {
        "id", "schedule_id", "agent_id", "action_type", "action_input", "config_snapshot", "status", "session_id",
        "work_task_id", "result", "started_at", "completed_at",
    }  # fmt: skip
    assert {field.name for field in fields(ScheduleExecution)} == columns
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        service = SchedulerService(bench, lambda run: {"work_task_id": "wt-7", "session": "sess_xyz"})
        made = create_schedule(
            bench, "w", agent_id="magpie", action_type="work_task", action_input={"description": "Paint"},
            cron_expression="0 9 * * *", approval_policy="auto",
        )  # fmt: skip
        bench.run_until("2026-03-27T09:00:00Z")
        (execution,) = service.list_executions(made)
        assert (execution.work_task_id, execution.session_id) == ("wt-7", "sess_xyz")


def test_v1_the_constants() -> None:
    """V1 V3 V4: the table of configuration"""
    assert (corvid.POLL_INTERVAL_MS, corvid.MAX_CONCURRENT_EXECUTIONS) == (30_000, 2)
    assert (corvid.MAX_CONSECUTIVE_FAILURES, corvid.MIN_SCHEDULE_INTERVAL_MS) == (5, 300_000)


def test_v1_five_fields_only() -> None:
    """V1: "5-field cron expression" """
    with pytest.raises(CronParseError, match=r"^Invalid cron expression: .*expected 5 fields, got 6"):
        corvid.validate_schedule_frequency("0 0 9 * * *")


def test_v7_a_cron_schedule_fires_and_creates_a_work_task() -> None:
    """V1 V7: "an execution record is created, last_run_at is updated, next_run_at is recalculated And the work_task
    action is dispatched immediately (no approval needed for auto)" """
    with closing(Sandbox(clock=ManualClock("2026-03-30T08:59:00Z"))) as bench:  # a Monday
        told = list[Any]()
        service = SchedulerService(bench, lambda run: told.append(run.payload))
        made = create_schedule(
            bench, "work", agent_id="magpie", action_type="work_task", action_input={"description": "Mend the door"},
            cron_expression="0 9 * * 1", approval_policy="auto",
        )  # fmt: skip
        bench.run_until("2026-03-30T09:00:00Z")
        assert told == [{"description": "Mend the door"}]
        (execution,) = service.list_executions(made)
        assert (execution.action_type, execution.status) == ("work_task", "completed")
        row = agent_schedule(bench.get("work"))
        assert (row.last_run_at, row.next_run_at) == ("2026-03-30T09:00:00Z", "2026-04-06T09:00:00Z")
        assert row.execution_count == 1


def test_v13_several_actions_are_steps_with_executions_of_their_own() -> None:
    """V13 V6 V12: "actions: JSON array of ScheduleAction objects"; each has its own state, approval, work task and
    result, and a failure stops no other"""
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        service = SchedulerService(bench, lambda run: {"work_task_id": "wt-7"})
        bench.job("star_repo")(lambda run: 1 / 0)
        actions = [{"type": "star_repo", "repos": ["a/b"]}, {"type": "work_task", "description": "Paint"}]
        made = create_schedule(bench, "w", agent_id="magpie", actions=actions, cron_expression="0 9 * * *")
        assert agent_schedule(made).actions == tuple(actions)
        bench.run_until("2026-03-27T09:00:00Z")
        states = {each.action_type: each.status for each in service.list_executions(made)}
        assert states == {"star_repo": "failed", "work_task": "awaiting_approval"}
        asked = next(each for each in service.list_executions(made) if each.action_type == "work_task")
        assert asked.action_input == {"description": "Paint"}
        service.resolve_approval(asked.id, True)
        bench.settle()
        done = service.get_execution(asked.id)
        assert done is not None
        assert (done.status, done.work_task_id) == ("completed", "wt-7")


def test_v13_a_schedule_needs_an_action() -> None:
    """V13: "actions: NOT NULL" """
    with closing(Sandbox()) as bench, pytest.raises(InvalidInput, match="needs an action"):
        create_schedule(bench, "w", agent_id="magpie", cron_expression="0 9 * * *")
