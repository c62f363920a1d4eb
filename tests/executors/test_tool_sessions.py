"""Sessions of every tool, as it says itself whether it knows them: real processes, nothing spent twice. C4, C5."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import office as offices
import pytest
from office import Office

from matins import Matins
from matins.executors.runners.protocol import RunnerRequest, RunnerResult
from matins.executors.runners.session_files import session_gone

office = offices.office
TOOLS = ("claude", "codex", "gemini", "goose", "opencode")
SESSION = "ses_00000000-0000-4000-8000-000000000000"


def kept(home: Path, tool: str) -> dict[str, list[str]]:
    """What a tool has in its sessions."""
    return {path.stem: json.loads(path.read_text()) for path in (home / tool).glob("*.json")}


def keep(home: Path, tool: str, session: str, *said: str) -> None:
    (home / tool).mkdir(exist_ok=True)
    (home / tool / f"{session}.json").write_text(json.dumps(said))


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, office: Office, tmp_path: Path) -> str:
    office.matins.agents.set("ann", runner=request.param, environment={"STANDIN_HOME": str(tmp_path)})
    return request.param


def schedule(office: Office, target: dict[str, Any] | None = None, **words: Any) -> None:
    office.matins.add("s", when="every day at 09:00", agent="ann", prompt="Go on", target=target, **words)


def test_c4_a_session_that_was_begun_elsewhere_goes_on(office: Office, tool: str, tmp_path: Path) -> None:
    """C4"""
    keep(tmp_path, tool, SESSION, "My name is Ada")
    schedule(office, {"kind": "session", "session": SESSION}, fallback="skip")
    run = office.fire("s")
    assert run.state == "succeeded", run.outcome
    assert "Before that: My name is Ada" in run.outcome["result"]["text"]
    assert kept(tmp_path, tool)[SESSION] == ["My name is Ada", "[Scheduled Task] Go on"]


def test_c5_a_session_that_is_gone_begins_anew_in_the_same_run(office: Office, tool: str, tmp_path: Path) -> None:
    """C5: the fallback, not a failure; one attempt, one prompt, one price"""
    schedule(office, {"kind": "session", "session": SESSION})
    run = office.fire("s")
    assert (run.state, run.attempt) == ("succeeded", 1), run.outcome
    result = run.outcome["result"]
    assert result["session"] != SESSION
    assert list(kept(tmp_path, tool).values()) == [["[Scheduled Task] Go on"]]
    assignment = office.matins.runs.thread(run.id)
    assert assignment is not None
    assert (assignment.how, str(assignment.thread.id)) == ("session: gone, fallback fresh", result["thread"])
    assert office.matins.get("s").failures == 0


def test_c5_a_session_that_is_gone_may_be_skipped(office: Office, tool: str, tmp_path: Path) -> None:
    """C5"""
    schedule(office, {"kind": "session", "session": SESSION}, fallback="skip")
    run = office.fire("s")
    assert (run.state, run.reason) == ("skipped", "target_gone")
    assert kept(tmp_path, tool) == {}
    assert office.matins.why("s").summary.endswith("Skipped: the target session no longer exists.")


def test_c5_a_thread_whose_tool_forgot_it(office: Office, tool: str, tmp_path: Path) -> None:
    """C5: also in the middle of a conversation"""
    schedule(office)
    thread = int(office.fire("s").outcome["result"]["thread"])
    for path in (tmp_path / tool).glob("*.json"):
        path.unlink()
    office.matins.edit("s", target={"kind": "thread", "thread": thread}, fallback="skip")
    assert office.fire("s").reason == "target_gone"


def test_c5_waiting_for_a_session_ends_with_the_final_fallback(office: Office, tmp_path: Path) -> None:
    """C5"""
    office.matins.agents.set("ann", runner="codex", environment={"STANDIN_HOME": str(tmp_path)})
    schedule(
        office, {"kind": "session", "session": SESSION}, fallback="wait", fallback_timeout="1s", final_fallback="skip"
    )
    run = office.fire("s")
    assert (run.state, run.reason) == ("skipped", "target_gone")
    assert run.ended_at is not None
    assert run.ended_at - run.planned_at >= timedelta(seconds=1)


def test_c5_an_agent_that_got_another_tool(office: Office, tmp_path: Path) -> None:
    """C5: the old tool's session is no session of the new one, whether that says so or Matins sees it"""
    m = office.matins
    m.agents.set("ann", runner="claude")
    schedule(office, {"kind": "channel", "channel": "C1"})
    for runner in ("claude", "opencode", "codex"):
        m.agents.set("ann", runner=runner, environment={"STANDIN_HOME": str(tmp_path)})
        run = office.fire("s")
        assert run.state == "succeeded", run.outcome
        assert len(kept(tmp_path, runner)) == 1
    assert len(m.threads.list()) == 1


def test_c5_a_tool_without_sessions_of_its_own(office: Office) -> None:
    """C5: what it was never told here it cannot go on with"""
    office.matins.agents.set("ann", runner="demo")
    schedule(office, {"kind": "session", "session": SESSION}, fallback="skip")
    for _ in range(2):
        assert office.fire("s").reason == "target_gone"


def test_c5_only_a_tool_that_spent_nothing_can_have_lost_its_session() -> None:
    """C5: an agent that quotes the words has not"""
    words, call = (b"no such session",), RunnerRequest("Go on", "/", session="s")
    result = RunnerResult(executed=True, succeeded=False)
    assert session_gone(call, result, words, b"error: no such session s")
    assert session_gone(call, RunnerResult(False, False, error="no such session"), words, b"")
    assert not session_gone(call, RunnerResult(True, False, tokens_out=1), words, b"error: no such session s")
    assert not session_gone(RunnerRequest("Go on", "/"), result, words, b"error: no such session s")
    assert not session_gone(call, result, words, b"another error")


def test_b22_prompts_of_a_conversation_that_ends(tmp_path: Path) -> None:
    """B22: the last run is told what to keep, and the first of the next conversation is told what was kept"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m, m:
        script = "cat; printf '\\nKEEP:\\nThe gate is open.\\n'"
        m.agents.set("magpie", runner="shell", command=["sh", "-c", script], isolation="none")
        target = {"kind": "channel", "channel": "C07"}
        m.add("s", when="0 0 1 1 *", agent="magpie", prompt="Look", target=target, fresh_after=2, keep="what is open")
        texts = [m.runs.wait(m.run("s").id, timeout=90).outcome["result"]["text"] for _ in range(3)]  # type: ignore[index]
    ends, kept = "must know: what is open", "You kept this from the conversation before:"
    assert [(ends in text, kept in text) for text in texts] == [(False, False), (True, False), (False, True)]
    assert texts[2].index(kept) < texts[2].index("The gate is open.")
