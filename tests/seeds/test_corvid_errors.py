"""corvid-agent's table of error cases, row by row. Row V11; the services that are not available are in
test_corvid_services."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from matins import Matins
from matins.errors import CronParseError, IntervalParseError
from matins.seeds.corvid import BUILT_IN, SchedulerService, create_schedule, validate_schedule_frequency
from matins.testing import ManualClock, Sandbox


def test_v11_an_invalid_cron_expression() -> None:
    """V11 V1: "validateScheduleFrequency throws Error("Invalid cron expression: ...")" """
    with pytest.raises(CronParseError, match=r'^Invalid cron expression: "every now and then" - expected 5 fields'):
        validate_schedule_frequency("every now and then")


def test_v11_an_interval_that_is_too_short() -> None:
    """V11 V1: "validateScheduleFrequency throws Error("Schedule interval too short: ...")" """
    with pytest.raises(IntervalParseError, match=r"^Schedule interval too short: "):
        validate_schedule_frequency(None, 299_999)
    with pytest.raises(IntervalParseError, match=r"^Schedule interval too short: .*5m"):
        validate_schedule_frequency("* * * * *")
    validate_schedule_frequency(None, 300_000)


def test_v11_an_agent_that_is_not_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """V11: "Agent not found during execution: Execution skipped with warning log"; the schedule goes on"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.agents.set("magpie", runner="demo")
        made = create_schedule(
            m, "c", agent_id="magpie", action_type="custom", action_input={"prompt": "Look"},
            cron_expression="0 9 * * *", approval_policy="auto",
        )  # fmt: skip
        with m.store.transaction(m.clock.now_ms()) as transaction:
            transaction.delete_policy("agent", "magpie")
        with m:
            run = m.runs.wait(m.run("c").id, timeout=60)
            assert (run.state, run.reason) == ("skipped", "no_agent")
            (warning,) = [record for record in caplog.records if 'There is no agent "magpie"' in record.getMessage()]
            assert warning.levelname == "WARNING"
            assert SchedulerService(m, BUILT_IN).list_executions(made) == [], "it came to no execution"
            assert (m.get("c").state, m.get("c").failures) == ("active", 0)
            m.agents.set("magpie", runner="demo")
            assert m.runs.wait(m.run("c").id, timeout=60).state == "succeeded"


def test_v11_an_unknown_action_type() -> None:
    """V11: "Unknown action type: Execution marked as failed": an action that no engine that runs has"""
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        bench.agents.set("magpie", runner="demo")
        bench.job("sing")(lambda run: None)
        made = create_schedule(
            bench, "c", agent_id="magpie", action_type="sing", cron_expression="0 9 * * *", approval_policy="auto"
        )
        bench.settle()
        del bench.jobs._own["sing"]
        bench.jobs._counted = False
        bench.run_until("2026-03-27T09:00:00Z")
        bench.clock.advance(20_000)
        bench.settle()
        (execution,) = SchedulerService(bench, BUILT_IN).list_executions(made)
        assert (execution.status, execution.result) == ("failed", "missing_job")
        assert bench.get("c").failures == 1


def test_v11_at_the_limit_executions_wait_and_none_is_lost(tmp_path: Path) -> None:
    """V11 V3: "Max concurrent reached: Tick skipped entirely": here the third waits, and runs when a place is free"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.agents.set("magpie", runner="demo")
        begun, may_end = threading.Semaphore(0), threading.Event()

        def paint(run: object) -> None:
            begun.release()
            assert may_end.wait(60)

        service = SchedulerService(m, paint)
        for name in "abc":
            create_schedule(
                m, name, agent_id="magpie", action_type="work_task", action_input={"description": "Paint"},
                cron_expression="0 9 * * *", approval_policy="auto",
            )  # fmt: skip
        service.start()
        try:
            ids = [m.run(name).id for name in "abc"]
            assert begun.acquire(timeout=60)
            assert begun.acquire(timeout=60)
            assert service.get_stats().running_executions == 2
            executions = [service.get_execution(number) for number in ids]
            assert sorted(found.status for found in executions if found) == ["pending", "running", "running"]
            may_end.set()
            assert [m.runs.wait(number, timeout=60).state for number in ids] == ["succeeded"] * 3
        finally:
            may_end.set()
            service.stop()
