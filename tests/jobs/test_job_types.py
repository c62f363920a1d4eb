"""The job types of Cortex and corvid do what they say. Rows C3, C15, V10, V11."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from forge import Forge

from matins import InvalidInput, Matins, Run
from matins.errors import NotAllowed
from matins.executors.registry import installed_jobs
from matins.model.access import Principal
from matins.net.signing import verify
from matins.seeds.cortex.tasks import read_tasks
from matins.testing import ManualClock, Sandbox
from net.sites import http_site

START = "2026-03-27T08:00:00Z"
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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))) as made:
        made.agents.set("scout", runner="demo", workdir=str(tmp_path))
        yield made


def add(bench: Any, job: str, payload: Any = None, **settings: Any) -> Any:
    return bench.add("s", when="0 9 * * *", agent="scout", job=job, payload=payload, **settings)


def result(bench: Sandbox) -> Any:
    bench.run("s")
    bench.settle()
    run = bench.runs.list(schedule="s")[0]
    assert run.state == "succeeded", run.outcome
    return (run.outcome or {}).get("result")


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
    bench.run("s")
    bench.settle()
    run = bench.runs.list(schedule="s")[0]
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


def test_v10_a_council_is_a_run_of_steps(bench: Sandbox) -> None:
    """V10 V13: each member is asked, side by side; then the schedule's agent judges what they said"""
    for name in ("ann", "bob"):
        bench.agents.set(name, runner="demo")
    add(bench, "council_launch", NEEDS["council_launch"])
    assert result(bench).endswith("with ann, bob")
    (council,) = [found for found in bench.list() if found.name.startswith("council-elders-")]
    steps = council.settings["steps"]
    assert [(step["title"], step.get("agent"), step.get("after", [])) for step in steps] == [
        ("ann", "ann", []), ("bob", "bob", []), ("Verdict", None, ["ann", "bob"]),
    ]  # fmt: skip
    assert "{{steps.ann.text}}" in steps[2]["prompt"]
    assert "Which gate first?" in steps[0]["prompt"]


def test_v10_star_repo(bench: Sandbox, forge: Forge) -> None:
    """V10: "Star GitHub repositories" """
    add(bench, "star_repo", {"repos": ["octo-org/garden", "octo-org/shed"], "base_url": forge.url})
    assert result(bench) == "Starred octo-org/garden, octo-org/shed"
    assert forge.requests == ["PUT /user/starred/octo-org/garden", "PUT /user/starred/octo-org/shed"]


def test_v10_fork_repo(bench: Sandbox, forge: Forge) -> None:
    """V10: "Fork GitHub repositories" """
    add(bench, "fork_repo", {"repos": ["octo-org/garden"], "base_url": forge.url})
    assert result(bench) == ["me/garden"]


def test_what_github_refuses_is_a_failure_that_says_why(bench: Sandbox, forge: Forge) -> None:
    add(bench, "fork_repo", {"repos": ["octo-org/nothing"], "base_url": forge.url})
    bench.run("s")
    bench.settle()
    run = bench.runs.list(schedule="s")[0]
    assert run.state == "failed"
    assert "GitHub does not find octo-org/nothing: forks." in (run.outcome or {})["error"]


TASKS = """\
# Ours
tasks:
  - title: Old
    id: one
    status: done
    done_at: 2026-03-20T09:00:00Z

  # soon
  - title: Open
    id: two
  - title: Recent
    id: three
    status: done
    done_at: 2026-03-26T09:00:00Z
owner: us
"""


def test_c3_task_archive(bench: Sandbox, tmp_path: Path) -> None:
    """C3: "Archives completed tasks older than 3 days"; the rest of the file stays as it is"""
    (tmp_path / "TASKS.yaml").write_text(TASKS)
    add(bench, "task-archive")
    assert result(bench) == "Archived 1 task"
    old, kept = TASKS.index("  - title: Old"), TASKS.index("\n  # soon")
    assert (tmp_path / "TASKS.yaml").read_text() == TASKS[:old] + TASKS[kept:]
    archived = "- title: Old\n  id: one\n  status: done\n  done_at: 2026-03-20T09:00:00Z\n"
    assert (tmp_path / "TASKS.archive.yaml").read_text() == archived
    assert result(bench) == "Archived 0 tasks"
    (tmp_path / "TASKS.yaml").write_text(TASKS)  # as after a crash between the two files
    assert result(bench) == "Archived 1 task"
    assert (tmp_path / "TASKS.archive.yaml").read_text() == archived


def test_c3_an_archive_that_is_a_link_is_refused(bench: Sandbox, tmp_path: Path) -> None:
    """B16"""
    (tmp_path / "TASKS.yaml").write_text(TASKS)
    (tmp_path / "TASKS.archive.yaml").symlink_to(tmp_path / "other.yaml")
    add(bench, "task-archive")
    bench.run("s")
    bench.settle()
    run = bench.runs.list(schedule="s")[0]
    assert (run.state, "is a link" in (run.outcome or {})["error"]) == ("failed", True)
    assert (tmp_path / "TASKS.yaml").read_text() == TASKS
    assert not (tmp_path / "other.yaml").exists()


def test_c3_memory_index_regen(bench: Sandbox, tmp_path: Path) -> None:
    """C3: "Rebuilds all experiment/knowledge/pattern index files" """
    for name, text in (("experiments/a.md", "# First try\n"), ("knowledge/deep/b.md", "no title"), ("patterns/x", "")):
        path = tmp_path / "memory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    add(bench, "memory-index-regen")
    assert result(bench) == {"experiments": 1, "knowledge": 1, "patterns": 0}
    assert (tmp_path / "memory/experiments/INDEX.md").read_text() == "# Experiments\n\n- [First try](a.md)\n"
    assert (tmp_path / "memory/knowledge/INDEX.md").read_text() == "# Knowledge\n\n- [b](deep/b.md)\n"
    (tmp_path / "memory/experiments/a.md").unlink()
    assert result(bench) == {"experiments": 0, "knowledge": 1, "patterns": 0}
    assert "Nothing yet." in (tmp_path / "memory/experiments/INDEX.md").read_text()


def test_c3_an_index_follows_no_link_of_the_agent(bench: Sandbox, tmp_path: Path) -> None:
    """B16: what the agent may not read or write, the job does not read or write for it"""
    memory, secret = tmp_path / "memory", tmp_path / "secret.md"
    secret.write_text("# Secret\n")
    (memory / "experiments").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (memory / "patterns").symlink_to(tmp_path / "elsewhere")
    (memory / "experiments/a.md").symlink_to(secret)
    (memory / "experiments/INDEX.md").symlink_to(secret)
    add(bench, "memory-index-regen")
    assert result(bench) == {"experiments": 0}
    assert secret.read_text() == "# Secret\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_v10_an_attestation_counts_the_ledger_and_publishes_its_digest(bench: Sandbox) -> None:
    """V10: "Compute score and publish on-chain attestation"; the digest is an event, which webhooks deliver"""
    bench.job("work")(lambda run: None)
    bench.job("fail")(lambda run: 1 / 0)
    for name, job in (("w", "work"), ("f", "fail")):
        bench.add(name, when="30 8 * * *", agent="scout", job=job)
    bench.run_until("2026-03-27T08:30:00Z")
    add(bench, "reputation_attestation")
    found = result(bench)
    assert (found["agent"], found["succeeded"], found["failed"], found["score"]) == ("scout", 1, 1, 50)
    (event,) = bench.events.list(types=["reputation.attested"])
    assert event.data["digest"] == found["digest"]


def test_v10_the_digest_of_an_attestation_is_published_by_webhook(bench: Sandbox) -> None:
    """V10: signed, to whoever subscribes; anyone who has the attestation computes the same digest"""
    with http_site() as site:
        bench.allowed_hosts.set(hosts=[site.host])
        secret = bench.webhooks.add("chain", site.url("/in"), types=["reputation.attested"]).secret
        add(bench, "reputation_attestation")
        found = result(bench)
        bench.outbox.run_once(bench.clock.now_ms())
        ((_, _, headers, body),) = site.seen
    verify(secret, headers, body, bench.clock.now_ms() // 1000)
    published = json.loads(body)["data"]
    attestation = {key: value for key, value in published.items() if key != "digest"}
    assert published["digest"] == found["digest"]
    assert sha256(json.dumps(attestation, sort_keys=True).encode()).hexdigest() == published["digest"]


def started(m: Matins, prefix: str) -> Run:
    """The run of the schedule that a job has made, when it is over."""
    (made,) = [found for found in m.list() if found.name.startswith(prefix)]
    seen = threading.Event()
    stop = m.subscribe(lambda event: seen.set() if event.get("schedulename") == made.name else None)
    while not (runs := m.runs.list(schedule=made.name)):
        assert seen.wait(60)
        seen.clear()
    stop()
    return m.runs.wait(runs[0].id, timeout=90)


def test_v10_a_council_deliberates_and_a_message_arrives(tmp_path: Path) -> None:
    """V10 V13: by real agents: the judge reads what the members answered; the message wakes the other agent"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m, m:
        for name in ("ann", "bob"):
            m.agents.set(name, runner="shell", command=["sh", "-c", f"cat >/dev/null; echo {name} says the red one"])
        m.agents.set("judge", runner="shell", command=["cat"])
        members = {**NEEDS["council_launch"], "agents": ["ann", "bob"]}
        m.add("c", when="0 0 1 1 *", agent="judge", job="council_launch", payload=members)
        m.add("t", when="0 0 1 1 *", agent="ann", job="send_message", payload={"toAgentId": "judge", "message": "Hi"})
        launched = m.runs.wait(m.run("c").id, timeout=60)
        assert launched.state == "succeeded", launched.outcome
        assert m.runs.wait(m.run("t").id, timeout=60).state == "succeeded"
        council, message = (started(m, prefix) for prefix in ("council-elders-", "message-"))
        assert (council.state, message.state) == ("succeeded", "succeeded")
        verdict = next(step for step in council.steps if step.title == "Verdict")
        text = verdict.outcome["result"]["text"]
        assert "ann says the red one" in text
        assert "bob says the red one" in text
        assert "Message from ann:\n\nHi" in (message.outcome or {})["result"]["text"]


def test_c3_task_dispatch_claims_a_task_and_writes_its_outcome(tmp_path: Path) -> None:
    """C3: "selects, claims, and dispatches a task from TASKS.yaml"; by a real agent, in a process of its own"""
    (tmp_path / "TASKS.yaml").write_text("- title: Low\n  priority: low\n- title: Oil the hinges\n  priority: high\n")
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.agents.set("scout", runner="demo", workdir=str(tmp_path))
        m.add("s", when="0 0 1 1 *", agent="scout", job="task-dispatch")
        with m:
            run = m.runs.wait(m.run("s").id, timeout=60)
        assert run.state == "succeeded"
    low, high = read_tasks((tmp_path / "TASKS.yaml").read_text()).tasks
    assert (low.status, high.status) == ("open", "done")


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
