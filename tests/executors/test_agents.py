"""Agents are really woken: real processes, in the right conversation, with one kind of outcome."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import office as offices
import pytest
from office import Office

from matins import InvalidInput, SchedulerShutdownError
from matins.runtime.attempt import Attempt
from matins.runtime.run_context import RunContext

office = offices.office


def test_c3_the_demo_agent_is_told_its_prompt(office: Office) -> None:
    """C3 B4: the default path; executed, succeeded and delivered are three things"""
    m = office.matins
    m.agents.set("scout", runner="demo")
    m.add("hello", when="every day at 09:00", agent="scout", prompt="Say hello for {{schedule}}")
    m.run("hello")
    run = office.wait("hello")
    assert run.state == "succeeded", run.outcome
    result = run.outcome["result"]
    assert (result["executed"], result["succeeded"]) == (True, True)
    assert "delivered" not in result
    assert m.runs.facts(run.id).delivered is None
    assert result["money"] == {"micro_dollars": 0, "estimated": False}
    asked, answered = m.threads.messages(int(result["thread"]))
    assert asked.text == "[Scheduled Task] Say hello for hello"
    assert (answered.role, answered.text) == ("assistant", result["text"])
    assert Path(result["transcript"]).is_file()


def test_c4_a_channel_goes_on_in_its_own_session(office: Office, tmp_path: Path) -> None:
    """C4: the channel's thread is used again, and the tool's session with it; a fresh one begins another"""
    m = office.matins
    m.agents.set("ann", runner="claude", environment={"STANDIN_HOME": str(tmp_path)}, workdir=str(tmp_path))
    m.add("chat", when="every day at 09:00", agent="ann", prompt="Go on", target={"kind": "channel", "channel": "C1"})
    m.add("apart", when="every day at 09:00", agent="ann", prompt="Begin anew")
    sessions: list[str] = []
    threads: list[str] = []
    for name in ("chat", "chat", "apart"):
        key = m.run(name)
        run = office.wait(name, lambda run, key=key: run.id == key.id and not run.live)
        assert run.state == "succeeded", run.outcome
        sessions.append(run.outcome["result"]["session"])
        threads.append(run.outcome["result"]["thread"])
    assert sessions[0] == sessions[1] != sessions[2]
    assert threads[0] == threads[1] != threads[2]
    assert [message.role for message in m.threads.messages(int(threads[0]))] == ["user", "assistant"] * 2


@pytest.mark.parametrize(
    ("target", "fallback", "word"),
    [
        ({"kind": "session", "session": "gone"}, "fresh", "succeeded"),
        ({"kind": "session", "session": "gone"}, "skip", "skipped"),
        ({"kind": "thread", "thread": 99}, "fresh", "succeeded"),
        ({"kind": "thread", "thread": 99}, "skip", "skipped"),
    ],
)
def test_c5_a_target_that_is_gone(office: Office, target: dict[str, Any], fallback: str, word: str) -> None:
    """C5"""
    m = office.matins
    m.agents.set("scout", runner="demo")
    m.add("s", when="every day at 09:00", agent="scout", prompt="Hello", target=target, fallback=fallback)
    m.run("s")
    run = office.wait("s")
    assert run.state == word, run.outcome
    assert run.reason == ("target_gone" if word == "skipped" else None)


def test_b6_a_provider_limit_is_no_failure(office: Office, tmp_path: Path) -> None:
    """B6: the run waits for the reset, and all of that provider with it"""
    m = office.matins
    m.agents.set("ann", runner="claude", environment={"STANDIN_HOME": str(tmp_path), "STANDIN_FAULT": "rate_limit"})
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello")
    m.run("s")
    run = office.wait("s", lambda run: run.status == "throttled")
    assert [throttle.provider for throttle in m.throttles.list()] == ["anthropic"]
    assert m.get("s").failures == 0
    assert run.not_before == m.throttles.list()[0].resets_at


@pytest.mark.parametrize("fault", ["no_final", "fails", "garbage"])
def test_b4_success_needs_the_final_event(office: Office, tmp_path: Path, fault: str) -> None:
    """B4: never the exit code alone; garbage lines are no harm"""
    m = office.matins
    m.agents.set("ann", runner="claude", environment={"STANDIN_HOME": str(tmp_path), "STANDIN_FAULT": fault})
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello")
    m.run("s")
    run = office.wait("s")
    assert run.state == ("succeeded" if fault == "garbage" else "failed"), run.outcome
    if fault == "no_final":
        assert run.outcome["result"]["executed"] is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"runner": "claude", "workdir": "/nowhere/at/all"}, "is not a folder"),
        ({"runner": "codex", "environment": {"PATH": "/nowhere"}}, "is not on PATH"),
        ({"runner": "claude", "environment": {"KEY": "env:NOT_SET_ANYWHERE"}}, "the environment has no"),
        ({"runner": "claude", "environment": {"KEY": "file:/nowhere/key"}}, "cannot be read"),
        ({"runner": "claude", "permission_mode": "sudo"}, "permission mode"),
    ],
)
def test_what_cannot_be_started_is_found_before_anything_is_spent(
    office: Office, words: dict[str, Any], message: str
) -> None:
    """B4"""
    m = office.matins
    m.agents.set("ann", **words)
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello")
    m.run("s")
    run = office.wait("s")
    assert run.state == "failed"
    assert message in run.outcome["error"]
    assert run.outcome["error"].startswith("the run was not started: ")


def test_secrets_are_given_and_not_kept(office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B9: by reference, by environment, redacted in what is kept"""
    monkeypatch.setenv("MY_TOKEN", "tok-4711-very-secret")
    m = office.matins
    m.agents.set("sh", runner="shell", command=["sh", "-c", "echo token=$KEY"], environment={"KEY": "env:MY_TOKEN"})
    m.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
    m.run("s")
    run = office.wait("s")
    assert run.state == "succeeded", run.outcome
    assert "token=" in run.outcome["result"]["text"]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"tok-4711" not in path.read_bytes(), path


def test_b9_cancelling_ends_the_whole_tree(office: Office, tmp_path: Path) -> None:
    """B9"""
    m = office.matins
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    m.agents.set("sh", runner="shell", command=["sh", "-c", f"(exec 9>{fifo}; sleep 300) & exec 9>{fifo}; sleep 300"])
    m.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
    started = m.run("s")
    with fifo.open("rb") as alive:  # opens when it runs
        m.runs.cancel(started.id)
        assert alive.read() == b""  # and ends when nobody holds it any more
    assert office.wait("s").state == "cancelled"


def test_h11_what_runs_is_ended_and_recorded_when_matins_stops(office: Office, tmp_path: Path) -> None:
    """H11"""
    m = office.matins
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    m.agents.set("sh", runner="shell", command=["sh", "-c", f"exec 9>{fifo}; sleep 300"])
    m.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
    m.run("s")
    with fifo.open("rb") as alive:
        with pytest.raises(SchedulerShutdownError) as caught:
            m.stop(timeout=0.05)
        assert alive.read() == b""
    assert caught.value.running_job_count == 1
    (run,) = m.runs.list(schedule="s")
    assert (run.state, run.reason) == ("interrupted", "stopped")
    assert m.get("s").failures == 0


def test_b9_left_running_it_is_taken_up_again(office: Office, tmp_path: Path) -> None:
    """B9 H11: left for adoption, as asked; the next start has its outcome, and nothing ran twice"""
    m = office.matins
    fifo, diary = tmp_path / "go", tmp_path / "diary"
    os.mkfifo(fifo)
    m.agents.set("sh", runner="shell", command=["sh", "-c", f"echo run >> {diary}; cat {fifo}; echo done"])
    m.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
    m.run("s")
    with fifo.open("w") as go:
        with pytest.raises(SchedulerShutdownError):
            m.stop(timeout=0.05, leave=True)
        m.start()
        go.write("on\n")
    run = office.wait("s")
    assert run.state == "succeeded", run.outcome
    assert run.outcome["result"]["text"].split() == ["on", "done"]
    assert diary.read_text() == "run\n"


CRASHING = """
import sys
from matins import Matins
m = Matins(sys.argv[1])
m.agents.set("sh", runner="shell", command=["sh", "-c", sys.argv[2]], isolation="none")
m.add("s", when="every day at 09:00", agent="sh", prompt="Hello")
m.run("s")
m.run_forever()
"""


@pytest.mark.parametrize("late", [False, True])
def test_b9_after_a_crash_of_matins_the_agent_is_adopted(tmp_path: Path, late: bool) -> None:
    """B9: it lives: adopted; it is over: its end is read. Either way it ran once."""
    fifo, diary, url = tmp_path / "go", tmp_path / "diary", f"sqlite:///{tmp_path}/matins.db"
    over = tmp_path / "over"
    os.mkfifo(fifo)
    os.mkfifo(over)
    command = f"echo run >> {diary}; cat {fifo}; echo done; : > {over}"
    engine = subprocess.Popen([sys.executable, "-c", CRASHING, url, command])
    with fifo.open("w") as go:  # opens when the agent runs
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        office = Office(url)
        if late:
            office.matins.start()
        go.write("on\n")
    over.read_text()  # the agent is through
    with office.matins:
        run = office.wait("s")
        assert run.state == "succeeded", (run.reason, run.outcome)
        assert run.attempt == 1
        assert diary.read_text() == "run\n"
    office.matins.close()


def test_agents_that_cannot_be(office: Office) -> None:
    """B4"""
    m = office.matins
    for words, field in (
        ({}, "runner"),
        ({"runner": "sorcery"}, "runner"),
        ({"runner": "claude", "timeout": "soon"}, None),
        ({"runner": "claude", "target": "nowhere"}, "target"),
        ({"runner": "claude", "environment": {"A B": "x"}}, "environment"),
        ({"runner": "claude", "max_turns": 0}, "max_turns"),
        ({"runner": "claude", "modle": "x"}, "modle"),
    ):
        with pytest.raises(InvalidInput) as caught:
            m.agents.set("ann", **words)
        assert field is None or caught.value.field == field
    assert m.agents.list() == []


def test_h9_work_is_fetched_told_and_reported(office: Office, tmp_path: Path) -> None:
    """H9: a work item is claimed, put into the prompt, and told how it went; then there is none left"""
    tasks = tmp_path / "TASKS.yaml"
    tasks.write_text("tasks:\n  - id: T-1\n    title: Mend the door\n    status: open\n    priority: high\n")
    m = office.matins
    m.work_sources.set("todo", kind="tasks", path=str(tasks))
    m.agents.set("scout", runner="demo")
    m.add("worker", when="every day at 09:00", agent="scout", prompt="Do the next task", work_source="todo")
    first = m.run("worker")
    run = office.wait("worker", lambda run: run.id == first.id and not run.live)
    assert run.state == "succeeded", run.outcome
    assert run.outcome["result"]["work"] == {"item": "T-1", "source": "todo", "untold": None}
    asked = m.threads.messages(int(run.outcome["result"]["thread"]))[0]
    assert "Mend the door" in asked.text
    assert "Priority: 10" in asked.text
    assert "status: done" in tasks.read_text()
    second = m.run("worker")
    run = office.wait("worker", lambda run: run.id == second.id and not run.live)
    assert (run.state, run.reason) == ("skipped", "no_work")
    assert m.why("worker").summary.endswith('Skipped: work source "todo" had no item to claim.')


def test_h9_a_source_that_is_not_there_is_refused(office: Office) -> None:
    """H9"""
    office.matins.agents.set("scout", runner="demo")
    with pytest.raises(InvalidInput, match=r'There is no work source "nowhere"\.') as caught:
        office.matins.add("worker", when="every day at 09:00", agent="scout", prompt="Go", work_source="nowhere")
    assert caught.value.field == "work_source"


def test_h9_a_run_that_is_tried_again_has_its_item_again(office: Office, tmp_path: Path) -> None:
    """H9: an item is failed once its run is; the next one is untouched"""
    tasks = tmp_path / "TASKS.yaml"
    tasks.write_text("tasks:\n  - id: T-1\n    title: Mend the door\n  - id: T-2\n    title: Paint it\n")
    m = office.matins
    m.work_sources.set("todo", kind="tasks", path=str(tasks))
    m.agents.set("sh", runner="shell", command=["sh", "-c", f"cat {tasks} >> {tmp_path}/seen; exit 3"])
    m.add("worker", when="every day at 09:00", agent="sh", prompt="Go", work_source="todo", retries=2, retry_delay="1s")
    run = office.fire("worker")
    assert (run.state, run.reason, run.attempt) == ("failed", "failed", 3)
    assert run.outcome["result"]["work"]["item"] == "T-1"
    seen = (tmp_path / "seen").read_text()
    assert (seen.count("status: claimed"), seen.count("status: failed")) == (3, 0)
    assert tasks.read_text().count("status:") == 1


def test_b7_an_agent_that_changes_after_the_claim_is_asked_about_again(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B7: a yes is one to this agent, also in the moment between claim and start"""
    m = office.matins
    m.agents.set("sh", runner="shell", command=["echo", "as approved"])
    m.add("s", when="every day at 09:00", agent="sh", prompt="Hello", approval="owner_approve")
    m.stop()
    run_context, changes = m._loader.run_context, iter([["touch", str(tmp_path / "canary")]])

    def late(attempt: Attempt) -> RunContext:
        for command in changes:
            m.agents.set("sh", runner="shell", command=command)
        return run_context(attempt)

    monkeypatch.setattr(m._loader, "run_context", late)
    m.start()
    m.run("s")
    office.wait("s", lambda run: run.status == "awaiting_approval")
    (first,) = m.approvals.list()
    m.approvals.approve(first.id)
    office.wait("s", lambda run: run.status == "awaiting_approval" and run.epoch > 0)
    assert not (tmp_path / "canary").exists()
    second = next(asked for asked in m.approvals.list() if asked.state == "pending")
    assert second.digest != first.digest
    m.approvals.approve(second.id)
    assert office.wait("s").state == "succeeded"
    assert (tmp_path / "canary").exists()


def test_b7_a_folder_of_its_own_is_made_when_it_is_needed(office: Office, tmp_path: Path) -> None:
    """B7: a relative one, beside the store, for nobody else to look into"""
    m = office.matins
    m.agents.set("ann", runner="shell", command=["sh", "-c", "pwd > here; pwd"], workdir="agents/ann")
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello")
    beside = m.store.path.parent if m.store.path else tmp_path
    assert [finding.ok for finding in m.system.doctor() if finding.what == "agent ann"] == [True]
    assert not (beside / "agents").exists()
    m.run("s")
    run = office.wait("s")
    assert run.state == "succeeded", run.outcome
    made = beside / "agents" / "ann"
    assert (made / "here").read_text().strip() == str(made.resolve())
    assert [folder.stat().st_mode & 0o777 for folder in (made.parent, made)] == [0o700, 0o700]


def test_b4_another_folder_that_is_missing_is_told(office: Office) -> None:
    """B4: it may be a slip of the hand, and nothing is made or started"""
    m = office.matins
    m.agents.set("ann", runner="demo", workdir="agents/anne")
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello")
    assert [finding.ok for finding in m.system.doctor() if finding.what == "agent ann"] == [False]
    m.run("s")
    run = office.wait("s")
    assert run.state == "failed"
    assert "agents/anne is not a folder" in run.outcome["error"]


def test_b4_a_folder_that_cannot_be_made(office: Office) -> None:
    """B4: told before anything is started"""
    m = office.matins
    assert m.store.path is not None
    (m.store.path.parent / "agents").write_text("in the way")
    m.agents.set("ann", runner="demo", workdir="agents/ann")
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello")
    m.run("s")
    run = office.wait("s")
    assert run.state == "failed"
    assert "agents/ann cannot be created: Not a directory" in run.outcome["error"]
