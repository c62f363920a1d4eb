"""What is written back while others write too: nothing of theirs is lost or passed over. Row C7."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import every_store
import pytest
from file_steps import Desk

from matins.api.use_case import USE_CASES
from matins.config import reader
from matins.config.file import ConfigFile, Content
from matins.errors import Conflict, InvalidInput, Stale
from matins.model.access import OWNER
from matins.testing import Sandbox

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory = every_store.bench, every_store.in_memory
TEXT = """\
edits: write_back
agents:
  scout: {runner: demo, model: m1}
schedules:
  check: {when: 5m, agent: scout, prompt: Hi}
"""


@pytest.fixture
def desk(in_memory: Sandbox, tmp_path: Path) -> Desk:
    made = Desk(in_memory, tmp_path / "matins.yaml", TEXT)
    assert made.look() == "applied"
    return made


def edit(bench: Sandbox, **arguments: Any) -> Any:
    """Past the turns that threads of one Matins take."""
    return bench._service.invoke(OWNER, USE_CASES["schedules.edit"], {"name": "check", **arguments})


def edit_agent(bench: Sandbox, **arguments: Any) -> Any:
    return bench._service.invoke(OWNER, USE_CASES["agents.edit"], {"name": "ann", **arguments})


def test_c7_who_takes_a_change_back_in_the_file_has_the_last_word(desk: Desk) -> None:
    """C7: also where nobody looked between our write and theirs"""
    desk.bench.agents.edit("scout", model="m2")
    desk.write(TEXT)
    assert (desk.look(), desk.bench.agents.get("scout").model) == ("applied", "m1")


def test_c7_a_revision_that_passed_meanwhile_is_stale(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: another edit comes after ours was let in, and before we read the file"""
    rev, read = desk.bench.get("check").rev, desk.file.read
    others: list[Callable[[], Any]] = [lambda: edit(desk.bench, prompt="theirs")]

    def read_late() -> Content:
        if others:
            others.pop()()
        return read()

    monkeypatch.setattr(desk.file, "read", read_late)
    with pytest.raises(Stale):
        edit(desk.bench, if_rev=rev, prompt="ours")
    assert desk.path.read_text() == TEXT.replace("Hi", '"theirs"')
    assert desk.bench.get("check").settings["prompt"] == "theirs"


def test_c7_whoever_reads_another_text_meanwhile_does_not_change_ours(tmp_path: Path) -> None:
    """C7: the last text that was read is kept for all threads"""
    other = TEXT.replace("m1", "m2")

    class Busy(ConfigFile):
        def __setattr__(self, name: str, value: Any) -> None:
            theirs = (other, reader.read(other)) if name == "_read" and value else value
            super().__setattr__(name, theirs)

    parsed = Busy(tmp_path / "matins.yaml").parse(TEXT)
    assert parsed.items[0].block.values["model"] == "m1"


def test_two_edits_of_an_agent_at_once_are_both_kept(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is made of what is there when it is written, not of what was there when it was asked for"""
    bench.agents.set("ann", runner="demo")
    begin = bench.store.transaction
    others: list[Callable[[], Any]] = [lambda: edit_agent(bench, model="theirs")]

    def begun_late(now: int) -> Any:
        if others:
            others.pop()()
        return begin(now)

    monkeypatch.setattr(bench.store, "transaction", begun_late)
    edit_agent(bench, max_turns=3)
    ann = bench.agents.get("ann")
    assert (ann.model, ann.max_turns) == ("theirs", 3)


@pytest.mark.parametrize("change", ["set", "edit"])
def test_v7_what_is_shown_for_a_hidden_value_never_takes_its_place(in_memory: Sandbox, change: str) -> None:
    """V7: whoever gives back what was shown would lose what was not"""
    in_memory.agents.set("ann", runner="demo", environment={"KEY": "hush", "HOME": "env:HOME"})
    with pytest.raises(InvalidInput, match='"KEY" has no value: … stands for a hidden one') as refused:
        getattr(in_memory.agents, change)("ann", runner="demo", environment={"KEY": "…", "HOME": "env:HOME"})
    assert refused.value.field == "environment"
    assert in_memory.agents.get("ann").environment == {"KEY": "…", "HOME": "env:HOME"}
    assert dict(in_memory._loader.policies().agents["ann"].environment)["KEY"] == "hush"


def test_h10_an_agent_whose_limit_is_the_files_is_changed_with_it_or_not_at_all(desk: Desk) -> None:
    """H10: under edits: refuse neither of them, and without a limit there is none left of the old one"""
    desk.bench.agents.set("own", runner="demo", max_concurrent=2)
    assert [(limit.scope, limit.size) for limit in desk.bench.limits.list()] == [("agent:own", 2)]
    desk.bench.agents.set("own", runner="demo")
    assert [limit for limit in desk.bench.limits.list() if limit.size] == []
    desk.write(TEXT.replace("write_back", "refuse") + "limits: {agent:own: 3}\n")
    assert desk.look() == "applied"
    for change in (desk.bench.agents.set, desk.bench.agents.edit):
        with pytest.raises(Conflict, match=r"\"agent:own\" is managed by .* \(line 6\)"):
            change("own", runner="demo", max_concurrent=5)
    assert desk.bench.agents.get("own").max_concurrent is None
    assert [(limit.scope, limit.size) for limit in desk.bench.limits.list()] == [("agent:own", 3)]
