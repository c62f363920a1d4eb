"""What would go wrong is said when a schedule is added, not when its first run fails or its bill comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from matins.model.access import Principal
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
SIX = "*/5 * * * * *"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))) as made:
        made.agents.set("ann", runner="claude")
        made.agents.set("sh", runner="shell", command=["true"])
        yield made


def sentences(bench: Sandbox, name: str) -> list[tuple[bool | None, str, str | None]]:
    found = [one for one in bench.system.doctor() if one.what == f"schedule {name}"]
    return [(one.ok, one.sentence, one.fix) for one in found]


def test_seconds_with_a_paid_agent(bench: Sandbox) -> None:
    """When it is previewed, added and edited, and by doctor, with wakes and cost a day"""
    seconds = "It wakes ann up to 17,280 times a day, for at most $1728.00: the first of six fields is the seconds."
    words = {"when": SIX, "agent": "ann", "prompt": "Go.", "max_cost": "$0.10"}
    note = f"{seconds} Less often: --when '*/5 * * * *'"
    assert note in bench.preview_new("s", **words).notes
    assert note in bench.add("s", **words).notes
    assert sentences(bench, "s") == [(None, seconds, "matins edit ann/s --when '*/5 * * * *'")]
    assert bench.edit("s", when="*/5 * * * *").notes == []
    assert sentences(bench, "s") == []
    assert note in bench.edit("s", when=SIX).notes


def test_an_unknown_cost_is_said_to_be_unknown(bench: Sandbox) -> None:
    """Also of an interval, and of a step"""
    unknown = 'It wakes ann up to 8,640 times a day, at an unknown cost, which "max_cost" limits.'
    assert (
        f"{unknown} Less often: --when 'every 5 minutes'" in bench.add("s", when="10s", agent="ann", prompt="Go.").notes
    )
    steps = [{"title": "Look", "prompt": "Look.", "agent": "ann"}]
    assert any(unknown in note for note in bench.add("t", when="10s", steps=steps).notes)


@pytest.mark.parametrize(("when", "agent"), [(SIX, "sh"), ("* * * * *", "ann"), ("0 */5 * * * *", "ann")])
def test_what_costs_nothing_or_is_seldom_is_not_said(bench: Sandbox, when: str, agent: str) -> None:
    """Nothing is said."""
    assert bench.add("s", when=when, agent=agent, prompt="Go.", deliver=["none"]).notes == []
    assert sentences(bench, "s") == []


def test_c3_an_index_without_a_memory_is_said_at_once(bench: Sandbox, tmp_path: Path) -> None:
    """C3: when it is previewed and added, and by doctor, until the folder is there"""
    memory = tmp_path / "memory"
    note = f"{memory} is not a folder. mkdir {memory}"
    assert note in bench.preview_new("s", when="1d", job="memory-index-regen").notes
    assert note in bench.add("s", when="1d", job="memory-index-regen").notes
    assert sentences(bench, "s") == [(False, f"{memory} is not a folder.", f"mkdir {memory}")]
    memory.mkdir()
    assert bench.add("t", when="1d", job="memory-index-regen").notes == []
    assert sentences(bench, "s") == []


def test_c3_an_agent_is_told_nothing_of_folders(bench: Sandbox, tmp_path: Path) -> None:
    """C3: it could ask for any path of the machine"""
    words = {"when": "1d", "agent": "ann", "job": "memory-index-regen", "payload": {"folder": f"{tmp_path}/no"}}
    assert not any("folder" in note for note in bench.acting_as(Principal("agent", "ann")).add("s", **words).notes)
