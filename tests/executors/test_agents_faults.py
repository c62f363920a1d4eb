"""Every tool's stand-in with the faults that tools have shown, woken by a scheduler, in real process trees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import office as offices
import pytest
from office import Office

from matins import Run

office = offices.office
TOOLS = ("claude", "codex", "gemini", "goose", "opencode", "qwen")
ENDS = {  # state, reason, executed, what ended it
    "": ("succeeded", None, True, None),
    "no_final": ("failed", "failed", False, None),
    "never_exits": ("succeeded", None, True, "exit_timeout"),
    "hang": ("failed", "timed_out", False, "timeout"),
    "floods": ("succeeded", None, True, None),
    "big_line": ("succeeded", None, True, None),
    "garbage": ("succeeded", None, True, None),
    "partial_utf8": ("succeeded", None, True, None),
    "forks_away": ("succeeded", None, True, None),
    "exit0_failed": ("failed", "failed", None, None),
    "rate_limit": ("throttled", "throttled", None, None),
    "denial": ("succeeded", "with_denials", True, None),
    "declares_failed": ("failed", "failed", True, None),
    "declares_nothing": ("succeeded", None, True, None),
}


def wake(office: Office, home: Path, tool: str, fault: str, **words: Any) -> int:
    """Each is its own provider's: one that is refused must not hold up the others."""
    home.mkdir()
    name, m = f"{tool}-{fault}", office.matins
    environment = {"STANDIN_HOME": str(home), "STANDIN_FAULT": fault, "STANDIN_FLOOD": "2000000"}
    words = {"workdir": str(home), "provider": name, "exit_timeout": "1s", **words}
    m.agents.set(name, runner=tool, environment=environment, **words)
    m.add(name, when="every day at 09:00", agent=name, prompt="Water the plants")
    return m.run(name).id


def over(run: Run) -> bool:
    return not run.live or run.status == "throttled"


@pytest.mark.parametrize("tool", TOOLS)
def test_b4_b9_each_fault_of_each_tool(office: Office, tmp_path: Path, tool: str) -> None:
    """B4 B6 B9: one kind of outcome, and nothing of it is left behind"""
    for fault in ENDS:
        wake(office, tmp_path / f"home-{fault}", tool, fault, **({"timeout": "1s"} if fault == "hang" else {}))
    found = {fault: office.wait(f"{tool}-{fault}", over) for fault in ENDS}
    for fault, (status, reason, executed, ended_by) in ENDS.items():
        run, result = found[fault], found[fault].outcome["result"]
        assert (run.status, run.reason, result["ended_by"]) == (status, reason, ended_by), (fault, run.outcome)
        assert executed in (None, result["executed"]), fault
    reports = {fault: run.outcome["result"] for fault, run in found.items()}
    assert reports["declares_failed"]["declared"] == "failed"
    assert (reports["declares_nothing"]["declared"], reports["declares_nothing"]["reason"]) == (
        "nothing",
        "no new mail",
    )
    assert len(reports["denial"]["denials"]) == 1
    why = office.matins.why(f"{tool}-denial")
    assert "a tool call was denied" in why.summary
    assert why.quote
    assert reports["big_line"]["truncated"]
    assert all(Path(report["transcript"]).is_file() for report in reports.values() if report["text"])
    assert [limit.provider for limit in office.matins.throttles.list()] == [f"{tool}-rate_limit"]
    assert office.matins.get(f"{tool}-rate_limit").failures == 0
    assert reports["forks_away"]["leftovers"] >= 1
    assert not is_there(int((tmp_path / "home-forks_away" / "daemon.pid").read_text(encoding="ascii")))


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_b4_what_is_done_was_done_before_anybody_could_end_it(office: Office, tmp_path: Path) -> None:
    """B4: the tool's word that it went well stands, whichever limit ends what stays behind"""
    for limit in ("idle_timeout", "timeout"):
        for seconds in (1, 4, 16, 64):  # more, where it cannot say so in a second
            words = {limit: f"{seconds}s", "exit_timeout": "none"}
            wake(office, tmp_path / f"{limit}-{seconds}", "claude", "never_exits", **words)
            run = office.wait("claude-never_exits")
            office.matins.delete("claude-never_exits")
            if run.outcome["result"]["executed"]:
                break
        assert (run.state, run.outcome["result"]["ended_by"]) == ("succeeded", "exit_timeout"), run.outcome


def test_b9_a_run_that_stops_its_supervisor_after_its_final_event_has_failed(office: Office, tmp_path: Path) -> None:
    """B9: any other end after the final event is a success"""
    run_id = wake(office, tmp_path / "home", "claude", "never_exits", exit_timeout="none")
    while '"result"' not in office.matins.runs.output(run_id).text:
        pass
    supervisor = office.matins._supervisor()
    ((key, _),) = supervisor._watched.items()
    supervisor.end_command(key, "supervisor")
    run = office.wait("claude-never_exits")
    assert (run.state, run.outcome["error"]) == ("failed", "the run stopped its supervisor, and was ended")
    assert run.outcome["result"]["executed"]
