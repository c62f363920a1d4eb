"""A login that a provider refuses is one cause for all agents of the tool. Rows B6, B17."""

from __future__ import annotations

from pathlib import Path

import office as offices
from office import Office

from matins import Run

office = offices.office


def waits(run: Run) -> bool:
    return run.status == "throttled" or not run.live


def agent(office: Office, home: Path, name: str, fault: str, **environment: str) -> None:
    m = office.matins
    m.agents.set(
        name,
        runner="codex",
        workdir=str(home),
        environment={"STANDIN_HOME": str(home), "STANDIN_FAULT": fault, **environment},
    )
    m.add(name, when="every day at 09:00", agent=name, prompt="Water the plants", pause_after_failures=1)


def test_b6_one_cause_for_all_schedules_of_the_tool(office: Office, tmp_path: Path) -> None:
    """B6 B17: told once, the runs wait, no schedule is paused; another key and another tool go on"""
    m = office.matins
    for name in ("one", "two"):
        agent(office, tmp_path, name, "unauthorized")
    agent(office, tmp_path, "keyed", "", OPENAI_API_KEY="sk-own")
    m.run("one")
    first = office.wait("one", waits)
    assert (first.status, first.reason, first.attempt) == ("throttled", "throttled", 0)
    (throttle,) = m.throttles.list()
    assert (throttle.provider, throttle.affects) == ("openai", ["one", "two"])
    m.run("two")
    second = office.wait("two", waits)
    assert (second.status, m.why("two").run.attempts) == ("throttled", []), "the tool was started before a new login"
    for name in ("one", "two"):
        why = m.why(name)
        assert 'the login at provider "openai" is refused.' in why.summary
        assert why.summary.endswith("To log in: codex login.")
        assert (m.get(name).state, m.get(name).failures) == ("active", 0)
    assert office.fire("keyed").state == "succeeded"
    opened = [found for found in office.until(lambda: m.incidents.list()) if found.kind == "login"]
    assert [found.summary for found in opened] == [
        'Provider "openai" refuses the login. Its runs wait. To log in: codex login.'
    ]
    assert "401 Unauthorized" in (opened[0].quote or "")
    assert [found.kind for found in m.incidents.list()] == ["login"]


def test_b6_runs_continue_after_a_new_login(office: Office, tmp_path: Path) -> None:
    """B6: the control: with a login the same run succeeds"""
    m = office.matins
    agent(office, tmp_path, "one", "unauthorized")
    m.run("one")
    waiting = office.wait("one", waits)
    m.agents.edit("one", environment={"STANDIN_HOME": str(tmp_path)})
    m.throttles.delete("openai")
    run = office.wait("one", lambda run: not run.live)
    assert (run.id, run.state) == (waiting.id, "succeeded")
