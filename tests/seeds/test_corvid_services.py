"""corvid-agent's services that are attached late. Row V2."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from matins.executors.python import JobContext
from matins.seeds.corvid import SchedulerService, create_schedule
from matins.testing import ManualClock, Sandbox


def not_available(run: JobContext) -> None:
    raise RuntimeError(f"{run.schedule} is not available")


def test_v2_services_are_attached_late() -> None:
    """V2: "Late-inject messenger after AlgoChat init"; "AgentMessenger not available: send_message execution fails" """
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        service, told = SchedulerService(bench), list[Any]()
        for action in ("send_message", "improvement_loop", "reputation_attestation"):
            bench.job(action)(not_available)
        for action in ("send_message", "improvement_loop", "reputation_attestation"):
            create_schedule(
                bench, action, agent_id="magpie", action_type=action, action_input={"to": action},
                cron_expression="0 * * * *", approval_policy="auto",
            )  # fmt: skip
        bench.run_until("2026-03-27T09:00:00Z")
        names = ("send_message", "improvement_loop", "reputation_attestation")
        last = {name: bench.runs.list(schedule=name)[0] for name in names}
        assert {run.state for run in last.values()} == {"failed"}
        assert "send_message is not available" in last["send_message"].outcome["error"]  # type: ignore[index]
        service.set_agent_messenger(lambda run: told.append(run.payload["to"]))
        service.set_improvement_loop_service(lambda run: told.append(run.payload["to"]))
        service.set_reputation_services(lambda run: 7, lambda run, score: told.append((run.payload["to"], score)))
        bench.run_until("2026-03-27T10:00:00Z")
        assert {bench.runs.list(schedule=name)[0].state for name in last} == {"succeeded"}
        assert sorted(map(str, told)) == ["('reputation_attestation', 7)", "improvement_loop", "send_message"]
