"""corvid's action types do what they say. Rows V10, V13."""

from __future__ import annotations

import json
import os
import threading
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from jobs import job_bench
from jobs.job_bench import add, agent, fire, result
from matins import Matins, Run
from matins.net.signing import verify
from matins.testing import Sandbox
from net.sites import http_site

bench, m = job_bench.bench, job_bench.m
COUNCIL = {"councilId": "elders", "projectId": "garden", "description": "Which gate first?"}
DAY = 86_400


def test_v10_a_council_is_a_run_of_steps(bench: Sandbox) -> None:
    """V10 V13: each member is asked, side by side; then the schedule's agent judges what they said"""
    for name in ("ann", "bob"):
        bench.agents.set(name, runner="demo")
    add(bench, "council_launch", COUNCIL)
    assert result(bench).endswith("with ann, bob")
    (council,) = [found for found in bench.list() if found.name.startswith("council-elders-")]
    steps = council.settings["steps"]
    assert [(step["title"], step.get("agent"), step.get("after", [])) for step in steps] == [
        ("ann", "ann", []), ("bob", "bob", []), ("Verdict", None, ["ann", "bob"]),
    ]  # fmt: skip
    assert "{{steps.ann.text}}" in steps[2]["prompt"]
    assert "Which gate first?" in steps[0]["prompt"]


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
        members = {**COUNCIL, "agents": ["ann", "bob"]}
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


def test_v10_memory_maintenance(m: Matins, tmp_path: Path) -> None:
    """V10: "Summarize and archive old memories": by an agent, which is not woken when nothing is old"""
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "new.md").write_text("# New\n")
    agent(m, tmp_path, "cat; cd memory; mkdir -p archive; cat old.md > summary.md; mv old.md archive/")
    run = fire(m, "memory_maintenance", {})
    assert (run.state, run.reason) == ("skipped", "no_work")
    (memory / "old.md").write_text("# Old\n")
    long_ago = m.clock.now_ms() / 1000 - 31 * DAY
    os.utime(memory / "old.md", (long_ago, long_ago))
    run = m.runs.wait(m.run("s").id, timeout=90)
    result = (run.outcome or {})["result"]
    assert result["job"] == {"left": 0, "archived": 1}
    assert "old.md" in result["text"]
    assert "new.md" not in result["text"]
    assert (memory / "summary.md").read_text() == "# Old\n"


@pytest.mark.parametrize(
    ("job", "payload", "asked"),
    [
        ("codebase_review", {"description": "The parser"}, "Look at this in particular: The parser"),
        ("dependency_audit", {}, "Audit the dependencies of the project in this folder."),
        ("improvement_loop", {"maxImprovementTasks": 2, "focusArea": "tests"}, "at most 2."),
        ("custom", {"prompt": "Count the bees"}, "Count the bees"),
    ],
)
def test_v10_jobs_that_are_their_prompt(
    m: Matins, tmp_path: Path, job: str, payload: dict[str, Any], asked: str
) -> None:
    """V10: the agent is woken in its folder with the prompt, and its answer is kept"""
    (tmp_path / "project").mkdir()
    agent(m, tmp_path / "project", 'cat > told; pwd; echo "found two"')
    run = fire(m, job, payload)
    assert run.state == "succeeded", run.outcome
    assert (run.outcome or {})["result"]["text"].split("\n")[:2] == [str(tmp_path / "project"), "found two"]
    assert asked in (tmp_path / "project/told").read_text()
