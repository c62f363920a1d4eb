"""Changes of schedules: who, when and what, and back to earlier settings, on both dialects."""

from __future__ import annotations

import every_store
import pytest

from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound, Stale
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory
ADA, SCOUT = Principal("operator", "ada"), Principal("agent", "scout")


def test_each_change_with_its_values(bench: Sandbox) -> None:
    """B20 V12: settings of one run are no change of the schedule"""
    bench.add("s", when="0 9 * * *", job="work", retries=1, environment={"KEY": "env:KEY"})
    bench.clock.advance(60_000)
    bench.acting_as(ADA).edit("s", when="0 10 * * *", retries=3)
    bench.edit("s", labels={"team": "ops"})
    bench.run("s")
    newest, older, first = bench.history("s")
    assert (newest.rev, newest.by, [(one.setting, one.after) for one in newest.settings]) == (
        3, "owner", [("labels", {"team": "ops"})],
    )  # fmt: skip
    assert (older.by, f"{older.at:%H:%M}") == ("ada", "08:01")
    assert [(one.setting, one.before, one.after) for one in older.settings] == [
        ("when", "every day at 09:00 (UTC)", "every day at 10:00 (UTC)"), ("retries", 1, 3),
    ]  # fmt: skip
    assert (first.rev, first.by, first.settings) == (1, "owner", [])
    assert [one.rev for one in bench.history("s", limit=2)] == [3, 2]


def test_undo_and_redo(bench: Sandbox) -> None:
    """B20 V12: time, settings and labels go back together, as an edit; variables keep their values"""
    bench.add("s", when="0 9 * * *", job="work", retries=1, environment={"KEY": "env:KEY"})
    before = bench.get("s")
    bench.edit("s", when="0 10 * * *", retries=None, labels={"team": "ops"}, environment=None)
    changed = bench.get("s")
    undone = bench.undo("s")
    assert (undone.settings, undone.next_run_at, undone.rev) == (before.settings, before.next_run_at, 3)
    assert bench.list(select="label.team=ops") == []
    redone = bench.undo("s")
    assert (redone.settings, redone.next_run_at) == (changed.settings, changed.next_run_at)
    assert bench.list(select="label.team=ops")[0].name == "s"
    assert bench.undo("s", to=1).settings == before.settings
    assert [one.rev for one in bench.history("s")] == [5, 4, 3, 2, 1]


def test_what_is_refused(in_memory: Sandbox) -> None:
    """B20"""
    in_memory.add("s", when="0 9 * * *", job="work")
    with pytest.raises(Conflict, match="there is nothing to undo"):
        in_memory.undo("s")
    in_memory.edit("s", retries=3)
    with pytest.raises(Stale):
        in_memory.undo("s", if_rev=1)
    for rev, verb in ((2, "has"), (7, "never had")):
        with pytest.raises(NotFound, match=f"{verb} the settings of revision {rev}"):
            in_memory.undo("s", to=rev)
    in_memory.edit("s", retries=None)
    with pytest.raises(Conflict, match="Revision 1 has the same settings"):
        in_memory.undo("s", to=1)
    with pytest.raises(NotAllowed):
        in_memory.acting_as(SCOUT).undo("s")
    with pytest.raises(NotAllowed):
        in_memory.acting_as(Principal("viewer", "eve")).undo("s")


def test_rights_are_those_of_an_edit(in_memory: Sandbox) -> None:
    """B20 B7: what only the owner may set, only the owner takes back"""
    in_memory.add("s", when="0 9 * * *", job="work")
    in_memory.edit("s", max_cost="$2")
    with pytest.raises(NotAllowed, match="max_cost"):
        in_memory.acting_as(ADA).undo("s")
    assert in_memory.get("s").settings["max_cost"] == "$2.00"


def test_a_deleted_schedule_comes_back(bench: Sandbox) -> None:
    """B20 V12: paused, the same one, with its runs; meanwhile its name says what became of it"""
    bench.add("s", when="0 9 * * *", job="work", labels={"team": "ops"})
    bench.run("s")
    bench.settle()
    before = bench.get("s")
    bench.acting_as(ADA).delete("s")
    with pytest.raises(NotFound, match=r'no schedule "s". It was deleted by ada on 27 Mar\.') as caught:
        bench.get("s")
    assert caught.value.hint == "To get it back: matins undelete s"
    assert [one.name for one in bench.list(deleted=True)] == ["s"]
    assert bench.list() == []
    assert [one.state for one in bench.runs.list(schedule="s")] == ["succeeded"]
    assert bench.history("s")[0].rev == 1
    back = bench.undelete("s")
    assert (back.id, back.state, back.settings) == (before.id, "paused", before.settings)
    assert bench.list(deleted=True) == []
    assert bench.resume("s").next_run_at == before.next_run_at
    bench.delete("s")
    bench.add("s", when="0 9 * * *", job="work")
    with pytest.raises(Conflict, match='There is a schedule "s" already'):
        bench.undelete("s")
    again = bench.undelete("s", new_name="s2", resume=True)
    assert (again.id, again.name, again.state) == (before.id, "s2", "active")


def test_what_does_not_come_back(in_memory: Sandbox) -> None:
    """B20 B7: an idea of an agent that waited is a proposal again; what needs something that is gone is refused"""
    in_memory.agents.set("lark", runner="claude")
    in_memory.add("s", when="0 9 * * *", agent="lark", prompt="Sing")
    in_memory.delete("s")
    in_memory.agents.delete("lark")
    with pytest.raises(InvalidInput, match='There is no agent "lark"'):
        in_memory.undelete("s")
    with pytest.raises(NotFound, match='There is no deleted schedule "x"'):
        in_memory.undelete("x")
    in_memory.acting_as(SCOUT).add("idea", when="0 9 * * *", job="work")
    in_memory.delete("idea")
    with pytest.raises(NotAllowed):
        in_memory.acting_as(Principal("agent", "lark")).undelete("idea")
    assert in_memory.acting_as(ADA).undelete("idea").state == "pending"
    assert len(in_memory.approvals.list()) == 1


def test_two_runs_compared(in_memory: Sandbox) -> None:
    """B20 V12: with the last success by itself, or with another run"""
    in_memory.add("s", when="0 9 * * *", job="work", retries=1)
    first = in_memory.run("s")
    in_memory.settle()
    in_memory.edit("s", job="fail", retries=None)
    second = in_memory.run("s")
    in_memory.settle()
    found = in_memory.runs.diff(second.id)
    assert (found.before.id, found.after.id) == (first.id, second.id)
    differences = {one.setting: (one.before, one.after) for one in found.differences}
    assert differences["job"] == ("work", "fail")
    assert differences["retries"] == (1, None)
    assert differences["state"] == ("succeeded", "failed")
    assert "no luck" in differences["error"][1]
    assert in_memory.runs.diff(second.id, other=second.id).differences == []
    with pytest.raises(NotFound, match="had no success before run"):
        in_memory.runs.diff(first.id)
