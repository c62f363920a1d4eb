"""Changes elsewhere, written back into the file: comments kept, and nothing else touched. Row C7."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import every_store
import pytest
from file_steps import FILE, Desk
from hypothesis import given, settings
from hypothesis import strategies as st

from matins import parse_trigger
from matins.config.reader import read
from matins.config.writer import edit_settings
from matins.errors import Conflict, InvalidInput, NotAllowed, Stale
from matins.model.access import Principal
from matins.testing import Sandbox

in_memory = every_store.in_memory
BACK = "edits: write_back\n" + FILE


@pytest.fixture
def desk(in_memory: Sandbox, tmp_path: Path) -> Desk:
    made = Desk(in_memory, tmp_path / "matins.yaml", BACK)
    made.look()
    return made


def test_c7_an_edit_stands_in_the_file(desk: Desk) -> None:
    """C7: with comments kept"""
    after = desk.bench.edit("often", when="10m", retries=2, prompt=None)
    assert (after.rev, after.settings["retries"], after.settings["when"]) == (2, 2, "every 10m")
    expected = BACK.replace("when: 5m\n    job: work # hard\n", 'when: "10m"\n    job: work # hard\n    retries: 2\n')
    assert desk.path.read_text() == expected.replace("    retries: 2\n", "    retries: 2\n    prompt: null\n")
    assert desk.look() == "applied"
    assert desk.bench.file.plan().state == "same"
    assert desk.bench.get("hourly").file.line == 16


def test_c7_own_writes_are_no_news(desk: Desk) -> None:
    """C7: own writes do not trigger it"""
    desk.bench.edit("often", retries=2)
    notes = desk.notes()
    asked: list[str] = []
    desk.reloader._caller = SimpleNamespace(call=lambda principal, use_case, given: asked.append(use_case.name))
    assert desk.look() == "applied"
    assert asked == []
    assert desk.notes() == notes


def test_c7_a_removal_takes_it_out_of_the_file(desk: Desk) -> None:
    """C7, C11: and only it"""
    assert desk.bench.delete("often") is True
    assert desk.path.read_text() == BACK.replace("\n  often:\n    when: 5m\n    job: work # hard\n", "\n")
    assert desk.bench.delete("late") is True
    assert desk.bench.delete("late") is False
    assert desk.look() == "applied"
    assert desk.names() == ["hourly", "morning"]


def test_a_wrong_setting_is_refused_and_the_file_stays(desk: Desk) -> None:
    for wrong in ({"when": "sometimes"}, {"retries": -1}, {"quiet_hours": "none"}, {"whn": "5m"}):
        with pytest.raises(InvalidInput):
            desk.bench.edit("often", **wrong)
    with pytest.raises(Stale):
        desk.bench.edit("often", if_rev=7, retries=1)
    with pytest.raises(Conflict, match="cannot be written"):
        desk.bench.edit("often", when=parse_trigger("1h"))
    with pytest.raises(NotAllowed):
        desk.bench.acting_as(Principal("operator", "ada")).edit("often", pre_check="true")
    assert desk.path.read_text() == BACK


@pytest.mark.parametrize("name", ["approval: null #", "retries: 1\n    approval: null #", "preset", "paused"])
def test_no_setting_but_those_of_an_edit_gets_into_the_file(in_memory: Sandbox, tmp_path: Path, name: str) -> None:
    """V6: what only the owner sets is not smuggled in as part of a name, nor by a setting that only a file has"""
    text = "edits: write_back\ndefaults: {approval: owner_approve}\nschedules:\n  often:\n    when: 5m\n    job: work\n"
    desk = Desk(in_memory, tmp_path / "matins.yaml", text)
    desk.look()
    for value in (None, "polpo"):
        with pytest.raises(InvalidInput, match="A schedule has no"):
            desk.bench.acting_as(Principal("operator", "ada")).edit("often", **{name: value})
    assert desk.path.read_text() == text
    assert desk.bench.get("often").settings["approval"] == "owner_approve"


def test_a_grant_does_not_reach_into_a_file(in_memory: Sandbox, tmp_path: Path) -> None:
    """What the text becomes is not what was granted; a pause is not in the text."""
    text = "edits: write_back\nschedules:\n  often:\n    when: 5m\n    job: work\n    labels: {team: web}\n"
    desk = Desk(in_memory, tmp_path / "matins.yaml", text)
    desk.look()
    desk.bench.people.set("ben", role="viewer", grants=[{"labels": {"team": "web"}}])
    acting = desk.bench.acting_as(Principal("viewer", "ben", person="ben"))
    for refused in (
        lambda: acting.edit("often", labels=None),
        lambda: acting.edit("often", retries=2),
        lambda: acting.delete("often"),
    ):
        with pytest.raises(NotAllowed, match="A grant does not reach into"):
            refused()
    assert desk.path.read_text() == text
    assert acting.pause("often").state == "paused"


def test_what_is_not_applied_comes_first(desk: Desk) -> None:
    desk.change(("Good morning", "Good day"))
    with pytest.raises(Conflict, match="has changes that are not applied"):
        desk.bench.edit("often", retries=2)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("schedules:\n  often: {type: interval, interval: 5m, job: work}\n", {"when": "1h"}),
        ("schedules:\n  often:\n    when: 5m\n    job: work\n    payload:\n      - 1 # one\n", {"payload": [2]}),
        ("schedules:\n  often:\n    when: >-\n      5m\n    job: |-\n      work\n", {"retries": 1}),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(
    in_memory: Sandbox, tmp_path: Path, text: str, settings: dict[str, Any]
) -> None:
    desk = Desk(in_memory, tmp_path / "matins.yaml", "edits: write_back\n" + text)
    assert desk.look() == "applied", desk.file.state
    with pytest.raises(Conflict, match="of the file") as refused:
        desk.bench.edit("often", **settings)
    assert refused.value.hint == "Change it in the file."
    assert desk.path.read_text().endswith(text)


def test_nested_and_on_one_line(in_memory: Sandbox, tmp_path: Path) -> None:
    """H12: below an agent, or between braces"""
    text = "edits: write_back\nagents: {a: {runner: demo, schedules: {s: {when: 5m, prompt: Hi}}}} # all\n"
    desk = Desk(in_memory, tmp_path / "matins.yaml", text)
    desk.look()
    desk.bench.edit("s", prompt="Ho: {x}", retries=1)
    assert desk.path.read_text() == text.replace("prompt: Hi", 'prompt: "Ho: {x}", "retries": 1')
    assert desk.bench.delete("s") is True
    assert desk.path.read_text() == text.replace("{s: {when: 5m, prompt: Hi}}", "{}")


_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50)
@given(payload=_JSON.filter(lambda value: value is not None), retries=st.integers(0, 100))
def test_whatever_is_written_back_is_read_again(payload: Any, retries: int) -> None:
    """Round trips: the file says what was given, and the rest of the text stays."""
    spot = next(item for item in read(BACK).items if item.name == "often").block.location
    text = edit_settings(BACK, spot, {"payload": payload, "retries": retries})
    after = next(item for item in read(text).items if item.name == "often").block.values
    assert (after["payload"], after["retries"]) == (payload, retries)
    lines = text.split("\n")
    assert [line for line in lines if "payload: " not in line and "retries: " not in line] == BACK.split("\n")


def test_what_the_store_did_not_learn_is_news(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is replaced just before the commit; a crash between them is mended by the next look."""
    store: Any = desk.bench._store

    @contextmanager
    def lost(now: int) -> Iterator[Any]:
        with transaction(now) as opened:
            yield opened
            if "retries: 2" in desk.path.read_text():
                raise OSError("the disk is full")

    transaction = store.transaction
    with monkeypatch.context() as broken:
        broken.setattr(store, "transaction", lost)
        with pytest.raises(OSError, match="the disk is full"):
            desk.bench.edit("often", retries=2)
    assert "retries" not in desk.bench.get("often").settings
    assert "retries: 2" in desk.path.read_text()
    assert desk.look() == "applied"
    assert desk.bench.get("often").settings["retries"] == 2


def test_what_we_wrote_once_is_news_when_it_comes_again(desk: Desk) -> None:
    desk.bench.edit("often", retries=2)
    ours = desk.path.read_text()
    desk.look()
    desk.change(("retries: 2", "retries: 3"))
    assert (desk.look(), desk.bench.get("often").settings["retries"]) == ("applied", 3)
    desk.write(ours)
    assert (desk.look(), desk.bench.get("often").settings["retries"]) == ("applied", 2)
