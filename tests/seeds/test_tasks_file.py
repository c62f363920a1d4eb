"""Work from TASKS.yaml: who gets what, and how it ends."""

from pathlib import Path

import pytest
import tasks_desk
from tasks_desk import LATER, NOW, claimed, fields

from matins.engine.prompts import PromptContext, WorkItem, build_prompt
from matins.errors import Conflict, NotFound
from matins.seeds.cortex.tasks import TasksFile

path = tasks_desk.path


# -- which one


def test_the_highest_priority_then_the_oldest_is_claimed(path: Path) -> None:
    """C3: select and claim; H9: fetch a work item"""
    path.write_text(
        """\
- {id: undated, title: t}
- {id: young, title: t, created: 2026-03-02}
- {id: old, title: t, created: 2026-03-01, priority: medium}
- {id: low, title: t, created: 2020-01-01, priority: low}
- {id: number, title: t, priority: 11}
- {id: high, title: t, priority: high}
- {id: undated later, title: t, priority: 0}
- {id: finished, title: t, priority: high, status: done}
- {id: broken, title: t, priority: high, status: failed}
- {id: of a person, title: t, priority: high, status: claimed}
"""
    )
    order = [claimed(path, f"run {n}").id for n in range(7)]
    assert order == ["number", "high", "old", "young", "undated", "undated later", "low"]
    assert TasksFile("tasks", path).claim("run 8", NOW) is None


def test_a_claim_says_whose_it_is(path: Path) -> None:
    """C3: claimed with the run's key"""
    path.write_text("- title: Mend the door\n  body: It squeaks.\n  labels: [home]\n  url: https://example.org/1\n")
    item = claimed(path, "run 41")
    assert item._replace(id="") == WorkItem(
        "tasks", "", "Mend the door", "It squeaks.", "https://example.org/1", ("home",), 0
    )
    assert path.read_text() == (
        f'- title: Mend the door\n  id: "{item.id}"\n  status: claimed\n  claimed_by: "run 41"\n'
        "  claimed_at: 2026-03-27T09:00:00Z\n"
        "  body: It squeaks.\n  labels: [home]\n  url: https://example.org/1\n"
    )


def test_the_same_run_gets_the_same_item_again(path: Path) -> None:
    """H9: after a crash between the claim and the run's start"""
    path.write_text("- title: a\n")
    first = claimed(path)
    path.write_text(path.read_text() + "- title: more urgent\n  priority: high\n")
    before = path.read_bytes()
    assert claimed(path) == first
    assert path.read_bytes() == before
    assert claimed(path, "run 2").title == "more urgent"


def test_a_look_at_what_a_run_holds_claims_nothing(path: Path) -> None:
    """H9"""
    path.write_text("- title: One\n- title: Two\n")
    source = TasksFile("tasks", path)
    assert source.held("run 1", NOW) is None
    item, kept = claimed(path), path.read_text()
    assert source.held("run 1", LATER) == item
    assert source.held("run 2", LATER) is None
    assert path.read_text() == kept


def test_a_task_that_people_open_again_is_claimed_again(path: Path) -> None:
    """C3: what stood there from the last time is not taken for this one's"""
    path.write_text("- {title: a, id: x, status: open, claimed_by: run 1, done_at: 2026-01-01T00:00:00Z, note: bad}\n")
    assert claimed(path).id == "x"
    assert fields(path)["done_at"] is None
    assert fields(path)["note"] == "bad"


# -- how it ends


@pytest.mark.parametrize("status", ["done", "failed"])
def test_the_outcome_is_reported_back(path: Path, status: str) -> None:
    """H9: report the outcome to the work source"""
    path.write_text("- title: a\n  id: x\n")
    source, item = TasksFile("tasks", path), claimed(path)
    end = source.done if status == "done" else source.failed
    end(item, "run 1", 'Oiled \x1b[31mit\x07.\n"Twice" # – \u2028 {{x}} 😀\n', LATER)
    assert fields(path) == {
        "title": "a",
        "id": "x",
        "status": status,
        "claimed_by": "run 1",
        "claimed_at": "2026-03-27T09:00:00Z",
        "done_at": "2026-03-27T10:00:00Z",
        "note": 'Oiled [31mit.\n"Twice" # –  {{x}} 😀',
    }
    before = path.read_bytes()
    end(item, "run 1", "told again after a crash", LATER + 1)
    assert path.read_bytes() == before
    assert source.claim("run 2", LATER) is None


def test_a_long_report_is_cut(path: Path) -> None:
    """H9: the run's own record holds all of it"""
    path.write_text("- title: a\n")
    TasksFile("tasks", path).done(claimed(path), "run 1", "x" * 1_000_000, LATER)
    note = fields(path)["note"]
    assert note is not None
    assert (len(note), note[-2:]) == (4_000, "x…")


def test_a_claim_is_released(path: Path) -> None:
    """H9: a claim whose run is over without an end"""
    path.write_text("- title: a\n  id: x\n")
    source = TasksFile("tasks", path)
    claimed(path)
    source.release("x", "run 1", LATER)
    assert fields(path) == {"title": "a", "id": "x", "status": "open", "claimed_by": None, "claimed_at": None}
    assert claimed(path, "run 2").id == "x"


def test_only_the_holder_releases(path: Path) -> None:
    """H9: what a run does not hold stays as it is"""
    path.write_text("- title: a\n  id: x\n")
    source = TasksFile("tasks", path)
    item = claimed(path)
    before = path.read_bytes()
    source.release("x", "run 2", LATER)
    source.release("gone", "run 1", LATER)
    assert path.read_bytes() == before
    source.done(item, "run 1", "", LATER)
    source.release("x", "run 1", LATER)
    assert fields(path)["status"] == "done"
    assert "note" not in fields(path)


@pytest.mark.parametrize("status", ["open", "failed"])
def test_an_end_for_what_is_held_no_more_is_refused(path: Path, status: str) -> None:
    """H9: a person changed it while the run was at work"""
    path.write_text("- title: a\n  id: x\n")
    item = claimed(path)
    with pytest.raises(Conflict, match="is not held by run run 2: it is claimed by run 1"):
        TasksFile("tasks", path).done(item, "run 2", "", LATER)
    path.write_text(path.read_text().replace("status: claimed", f"status: {status}"))
    before = path.read_bytes()
    with pytest.raises(Conflict, match=f"Work item x is not held by run run 1: it is {status} by run 1"):
        TasksFile("tasks", path).done(item, "run 1", "", LATER)
    assert path.read_bytes() == before
    path.write_text("- title: b\n")
    with pytest.raises(NotFound, match='The task "x" no longer exists'):
        TasksFile("tasks", path).failed(item, "run 1", "", LATER)
    assert path.read_text() == "- title: b\n"


def test_words_in_a_task_stay_data(tmp_path: Path, path: Path) -> None:
    """H9: bodies are neither executed nor filled in"""
    hostile = "{{run}} ${HOME} $(touch canary) `touch canary` !!python/object/apply:os.system ['touch canary']"
    path.write_text(
        f"- title: {hostile!r}\n  body: {hostile!r}\n  x: !!python/object/apply:os.system ['touch canary']\n"
    )
    item = claimed(path, "run 1")
    assert item.title == item.body == hostile
    prompt = build_prompt("Work.", PromptContext("s", "a", 7, 1, None, 0, 0, None, item))
    assert hostile in prompt
    assert sorted(file.name for file in tmp_path.iterdir()) == ["TASKS.yaml", "TASKS.yaml.lock"]
