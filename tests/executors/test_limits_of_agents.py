"""The limits that an agent's settings name reach its processes, and the end of a run says which one it was."""

from __future__ import annotations

import office as offices
import pytest
from office import Office

from matins.model.agent import Agent

office = offices.office
LIMITS = {"memory": "256MB", "processes": 50, "open_files": 64, "cpu_seconds": 7, "file_size": "1MB"}


def test_b16_every_agent_has_limits_by_default() -> None:
    """B16: 4 GB and 500 processes for the tree, 4,096 open files, files of 4 GB, no limit of CPU time"""
    agent = Agent("ann", "shell")
    found = (agent.memory, agent.processes, agent.open_files, agent.file_size, agent.cpu_seconds)
    assert found == (4_000_000_000, 500, 4_096, 4_000_000_000, None)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exec head -c 2000000 /dev/zero > file", "the run exceeded its limit for the size of a file and was ended"),
        ("for n in $(seq 60); do sleep 1000 & done; wait", "the run exceeded its process limit and was ended"),
    ],
)
def test_b16_the_end_of_a_run_says_which_limit_it_was(office: Office, script: str, said: str) -> None:
    """B16: and the limits that the system holds are those of the settings"""
    script = f"ulimit -n; ulimit -t; {script}"
    office.matins.agents.set("ann", runner="shell", command=["sh", "-c", script], **LIMITS)
    office.matins.add("s", when="every 1 day", agent="ann", prompt="Go.")
    run = office.fire("s")
    assert run.outcome["error"] == said
    assert office.matins.runs.output(run.id).text.split() == ["64", "7"]


def test_b9_why_says_that_a_run_stopped_its_supervisor(office: Office) -> None:
    """B9"""
    loop = "echo done; while :; do kill -STOP $PPID; done"
    office.matins.agents.set("ann", runner="shell", command=["sh", "-c", loop], isolation="none")
    office.matins.add("s", when="every 1 day", agent="ann", prompt="Go.")
    run = office.fire("s")
    assert (run.state, run.outcome["result"]["ended_by"]) == ("failed", "supervisor")
    assert office.matins.why("s").quote == "the run stopped its supervisor, and was ended"
