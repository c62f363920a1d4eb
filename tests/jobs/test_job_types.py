"""Job types: the inputs that each needs, and what those of the core do. Rows V6, V10, V11."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import job_bench
import pytest
from job_bench import add, ended, result

from matins import InvalidInput, Matins
from matins.errors import NotAllowed
from matins.executors.registry import installed_jobs
from matins.model.access import Principal
from matins.testing import Sandbox

DESTRUCTIVE = {"work_task", "github_suggest", "fork_repo", "codebase_review", "dependency_audit", "improvement_loop"}
NEEDS: dict[str, dict[str, Any]] = {
    "star_repo": {"repos": ["octo-org/garden"]},
    "fork_repo": {"repos": ["octo-org/garden"]},
    "review_prs": {"repos": ["octo-org/garden"]},
    "work_task": {"description": "Paint the gate"},
    "council_launch": {"councilId": "elders", "projectId": "garden", "description": "Which gate first?"},
    "send_message": {"toAgentId": "scout", "message": "Hello"},
    "github_suggest": {"repos": ["octo-org/garden"]},
    "custom": {"prompt": "Look around"},
}
"""The required inputs of the seed's table."""
OPTIONAL: dict[str, dict[str, Any]] = {
    "review_prs": {"maxPrs": 3},
    "github_suggest": {"autoCreatePr": True},
    "codebase_review": {"description": "The parser"},
    "dependency_audit": {"description": "Only security"},
    "improvement_loop": {"maxImprovementTasks": 2, "focusArea": "tests"},
    "memory_maintenance": {},
    "reputation_attestation": {},
}


bench = job_bench.bench


@pytest.mark.parametrize("job", sorted(NEEDS))
def test_v10_required_inputs_are_enforced(bench: Sandbox, job: str) -> None:
    """V10: each of them, by name; with all of them the schedule is made"""
    for name in NEEDS[job]:
        payload = {key: value for key, value in NEEDS[job].items() if key != name}
        with pytest.raises(InvalidInput, match=f'The job "{job}" needs "{name}"') as refused:
            add(bench, job, payload)
        assert refused.value.field == f"payload.{name}"
    add(bench, job, NEEDS[job] | OPTIONAL.get(job, {}))
    with pytest.raises(InvalidInput, match=f'The job "{job}" has no setting "reposs"'):
        bench.edit("s", payload={**NEEDS[job], "reposs": 1})


@pytest.mark.parametrize("job", sorted(OPTIONAL.keys() - NEEDS.keys()))
def test_v10_optional_inputs(bench: Sandbox, job: str) -> None:
    """V10: none is needed; those of the seed's table are taken"""
    add(bench, job)
    bench.edit("s", payload=OPTIONAL[job])


def test_v6_the_six_destructive_types_ask_the_owner() -> None:
    """V6: "Under owner_approve policy, these action types require approval" """
    known = {name: job for name, job in installed_jobs().items() if "_" in name or name == "custom"}
    assert {name for name, job in known.items() if job.destructive} == DESTRUCTIVE


def test_v10_custom_is_the_owners(bench: Sandbox) -> None:
    """V10: "Freeform prompt (owner-only creation)" """
    operator = bench.acting_as(Principal("operator", "olga"))
    with pytest.raises(NotAllowed, match='Only the owner can schedule the job "custom"'):
        add(operator, "custom", NEEDS["custom"])
    assert add(bench, "custom", NEEDS["custom"]).prompt == "Look around"


def test_v11_a_service_that_is_not_there(bench: Sandbox) -> None:
    """V11: "AgentMessenger not available: send_message execution fails" """
    bench.services["messenger"] = None
    add(bench, "send_message", NEEDS["send_message"])
    run = ended(bench)
    assert (run.state, (run.outcome or {})["error"]) == ("failed", "Agent messenger not available")


def test_v10_a_message_wakes_the_other_agent_once(bench: Sandbox) -> None:
    """V10: as a run of its own, in its thread with the sender"""
    add(bench, "send_message", NEEDS["send_message"])
    assert result(bench).startswith("Sent to scout as message-")
    (sent,) = [found for found in bench.list() if found.name.startswith("message-")]
    assert (sent.agent, sent.prompt) == ("scout", "Message from scout:\n\nHello")
    assert sent.settings["target"] == {"kind": "channel", "channel": "from-scout"}


@pytest.mark.parametrize("job", ["send_message", "council_launch"])
def test_an_attempt_that_is_repeated_sends_and_launches_once(bench: Sandbox, job: str) -> None:
    """An attempt whose end was lost is made again, with the same key"""
    for name in ("ann", "bob"):
        bench.agents.set(name, runner="demo")
    done = installed_jobs()[job].run
    assert done is not None
    bench.jobs[job] = lambda run: [done(run), done(run)]
    add(bench, job, NEEDS[job])
    first, again = result(bench)
    assert first.startswith(again)
    assert len(bench.list()) == 2, "the schedule of the job, and what it made"


def test_v11_an_agent_that_is_gone_skips_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """V11: "Agent not found during execution: Execution skipped with warning log" """
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.agents.set("scout", runner="demo")
        m.add("s", when="0 0 1 1 *", agent="scout", job="custom", payload={"prompt": "Look around"})
        with m.store.transaction(m.clock.now_ms()) as transaction:
            transaction.delete_policy("agent", "scout")
        with m:
            run = m.runs.wait(m.run("s").id, timeout=60)
        assert (run.state, run.reason) == ("skipped", "no_agent")
        assert 'there is no agent "scout"' in m.why("s").summary
    assert 'There is no agent "scout".' in caplog.text
