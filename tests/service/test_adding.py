"""Making schedules and looking at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from matins.errors import Conflict, InvalidInput, NotFound
from matins.model.access import Principal
from matins.service import drafts
from matins.store.sqlite.transaction import SqliteTransaction
from matins.testing import Sandbox, iso

Rows = Callable[[], list[Any]]


# -- add


def test_add_gives_the_schedule_as_it_stands(bench: Sandbox) -> None:
    """P8 S7"""
    shown = bench.add("s", when="0 9 * * *", job="work", agent="scout", timezone="Europe/London", payload={"a": 1})
    assert (shown.name, shown.agent, shown.state, shown.rev, shown.executions) == ("s", "scout", "active", 1, 0)
    assert iso(shown.next_run_at) == iso(shown.due_at) == "2026-03-27T09:00:00Z"
    assert shown.settings["payload"] == {"a": 1}
    assert shown == bench.get("s")


ADDED: tuple[dict[str, Any], ...] = (
    {"when": "0 9 * * *", "job": "work"},
    {"when": "0 9 * * *", "job": "work", "payload": {"a": [1, {"b": None}]}, "labels": {"x": "y"}, "description": "d"},
    {"when": "every 1h", "job": "work", "jitter": 5, "max_executions": 3, "ends_at": "2026-12-31T18:00"},
    {"when": "never", "job": "work"},
    {"when": "2026-04-01T10:00", "job": "work", "timezone": "Asia/Tokyo", "catch_up": "run_once"},
    {"when": "0 9 * * *", "agent": "scout", "prompt": "Look.", "approval": "owner_approve", "pre_check": ["true"]},
    {"on": {"webhook": "hook"}, "agent": "scout", "prompt": "Look."},
    {"when": "0 9 * * *", "steps": [{"title": "one", "job": "work"}]},
)


@pytest.mark.parametrize("role", ["owner", "operator", "agent"])
@pytest.mark.parametrize("settings", ADDED, ids=lambda settings: " ".join(settings))
def test_p8_what_add_returns_is_what_the_store_has(bench: Sandbox, settings: dict[str, Any], role: Any) -> None:
    """P8: the result is made from what was written, without reading it again"""
    bench.agents.set("scout", runner="demo")
    bench.inbound.set("hook", kind="bearer", secret="env:HOOK")
    given = {name: value for name, value in settings.items() if role == "owner" or name != "approval"}
    shown = bench.acting_as(Principal(role, "scout")).add("s", **given)
    assert structs.replace(shown, notes=[]) == bench.get("s")
    assert shown.due_at != shown.next_run_at or "jitter" not in given or role == "agent"


def test_p8_what_an_agent_adds_in_a_run_has_its_parent(bench: Sandbox) -> None:
    """P8"""
    bench.agents.set("scout", runner="demo")
    parent = bench.add("parent", when="0 9 * * *", job="work")
    run = bench.run("parent")
    shown = bench.acting_as(Principal("agent", "scout", run_id=int(run.id))).add("s", when="0 9 * * *", job="work")
    assert (shown.parent, shown.creator_run, shown.depth) == (parent.id, run.id, 1)
    assert structs.replace(shown, notes=[]) == bench.get("s")


def test_what_add_returns_is_not_the_callers_own(bench: Sandbox) -> None:
    payload = {"a": [1]}
    shown = bench.add("s", when="0 9 * * *", job="work", payload=payload, labels={"x": "y"})
    payload["a"].append(2)
    assert shown == bench.get("s")


def test_an_add_reads_what_it_needs(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run and no file entry of a schedule that is new, and no offers for a job that this process has"""
    asked: list[str] = []
    ask = SqliteTransaction._all

    def noted(self: SqliteTransaction, query: str, /, **values: Any) -> list[Any]:
        asked.append(query)
        return ask(self, query, **values)

    bench.add("first", when="0 9 * * *", job="work")
    monkeypatch.setattr(SqliteTransaction, "_all", noted)
    bench.add("s", when="0 9 * * *", job="work")
    assert asked == ["marks", "policy_rev", "last_schedule"]
    with pytest.raises(InvalidInput):
        bench.add("t", when="0 9 * * *", job="wrok")
    assert asked[3:] == ["marks", "policy_rev", "offers"]


def test_an_add_says_that_no_node_can_run_it(bench: Sandbox) -> None:
    """Engines are asked for what this process does not offer itself"""
    (note,) = bench.add("s", when="0 9 * * *", job="work", runs_on=["gpu"]).notes
    assert note.startswith('No node can run it now: it runs on gpu and needs the job "work".')
    assert bench.add("t", when="0 9 * * *", job="work").notes == []


def test_local_is_the_machines_own_zone(bench: Sandbox) -> None:
    """S7"""
    assert bench.add("s", when="0 9 * * *", job="work", timezone="local").timezone == "Asia/Tokyo"
    bench.edit("s", when="0 10 * * *", timezone="local")
    assert bench.get("s").timezone == "Asia/Tokyo"


BAD: list[dict[str, Any]] = [
    {"name": ""},
    {"name": None},
    {"name": "\ud800"},
    {"agent": "a\nb"},
    {"when": "sometimes"},
    {"job": None},
    {"overlap": "maybe"},
    {"retries": -1},
    {"payload": object()},
    {"colour": "red"},
]
"""One of each kind; tests/engine and tests/records have every setting."""


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{next(iter(bad))}")
def test_a_bad_setting_is_named_and_nothing_is_written(bench: Sandbox, rows: Rows, bad: dict[str, Any]) -> None:
    """B8"""
    before = rows()
    good = {"name": "s", "when": "0 9 * * *", "job": "work"}
    with pytest.raises(InvalidInput) as caught:
        bench.add_many([good, {**good, "name": "t", **bad}])
    (name,) = bad
    if name != "when":
        assert caught.value.field == name
    assert caught.value.hint or name in ("name", "agent", "when")
    assert rows() == before


def test_a_taken_name_is_refused(bench: Sandbox, rows: Rows) -> None:
    """P8: nothing is replaced unasked"""
    bench.add("s", when="0 9 * * *", job="work")
    before = rows()
    with pytest.raises(Conflict, match='There is a schedule "s" already') as caught:
        bench.add("s", when="0 10 * * *", job="work")
    assert (caught.value.field, bool(caught.value.hint)) == ("name", True)
    with pytest.raises(Conflict, match='"t" is given twice'):
        bench.add_many([{"name": "t", "when": "5m", "job": "work"}] * 2)
    assert rows() == before


def test_names_are_unique_per_agent_and_a_bare_one_works_while_it_is_unique(bench: Sandbox) -> None:
    """P8"""
    bench.add("s", when="0 9 * * *", job="work", agent="scout")
    assert bench.get("s").agent == "scout"
    bench.add("s", when="0 9 * * *", job="work", agent="writer")
    bench.add("s", when="0 9 * * *", job="work")
    with pytest.raises(Conflict, match='Several schedules have the name "s"') as caught:
        bench.get("s")
    assert "scout/s" in str(caught.value.hint)
    assert "writer/s" in str(caught.value.hint)
    assert bench.get("scout/s").agent == bench.get("s", agent="scout").agent == "scout"
    assert bench.get("s", agent="").agent == ""
    assert bench.delete("scout/s") is True
    assert bench.delete("scout/s") is False


def test_a_name_may_hold_a_stroke(bench: Sandbox) -> None:
    """P8"""
    bench.add("daily/report", when="0 9 * * *", job="work")
    assert bench.get("daily/report").name == "daily/report"


def test_an_unknown_name_is_not_found_with_the_nearest(bench: Sandbox) -> None:
    """P8"""
    bench.add("nightly", when="0 9 * * *", job="work")
    for use in (
        bench.get,
        bench.pause,
        bench.resume,
        bench.run,
        bench.edit,
        lambda name: bench.runs.list(schedule=name),
    ):
        with pytest.raises(NotFound, match='There is no schedule "nihtly"') as caught:
            use("nihtly")
        assert caught.value.hint == 'Did you mean "nightly"?'


# -- looking


def test_looking_never_moves_a_cursor(bench: Sandbox, rows: Rows) -> None:
    """P8"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.add("i", when="5m", job="work")
    bench.clock.advance(3_600_000)
    before = rows()
    for _ in range(3):
        bench.get("s")
        bench.list()
        bench.list(select="agent=nobody")
        bench.runs.list(schedule="s")
        bench.audit.verify()
    assert rows() == before


def test_a_list_comes_in_pages(bench: Sandbox) -> None:
    """P8"""
    ids = bench.add_many([{"name": f"s{n}", "when": "5m", "job": "work", "agent": "ab"[n % 2]} for n in range(10)])
    assert [schedule.id for schedule in bench.list(limit=4)] == ids[:4]
    assert [schedule.id for schedule in bench.list(limit=4, after=ids[3])] == ids[4:8]
    assert [schedule.id for schedule in bench.list(select="agent=b")] == ids[1::2]


def test_a_schedule_that_never_fires_by_time_stays_active_and_runs_when_it_is_started(bench: Sandbox) -> None:
    """A draft of a mission is such a schedule."""
    shown = bench.add("s", when="never", job="work")
    assert (shown.state, shown.next_run_at, shown.trigger_text) == ("active", None, "never")
    assert bench.why("s").summary == "The schedule never fires by time, and nothing has started it yet."
    bench.run("s")
    bench.settle()
    bench.assert_ran("s", times=1)
    assert bench.get("s").state == "active"
    assert bench.preview("s").slots == []
    bench.pause("s")
    assert bench.resume("s").state == "active"
    assert bench.preview_edit("s", when="0 9 * * *").after.slots != []


def test_many_are_compiled_before_their_transaction(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """H2 H10: nothing else waits, or times out, while 20,000 of them are read"""
    compiled: list[str] = []
    connection = bench._store._connection  # type: ignore[attr-defined]

    def outside(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parsed(when: Any, *arguments: Any) -> Any:
            assert not connection.in_transaction, "it is read inside a transaction"
            compiled.append(when)
            return parse(when, *arguments)

        return parsed

    for name in ("parse_schedule", "parse_when"):
        monkeypatch.setattr(drafts, name, outside(getattr(drafts, name)))
    bench.add_many([{"name": f"s{n}", "when": f"{n} 9 * * *", "job": "work"} for n in range(20)])
    assert len(compiled) == len(bench.list()) == 20
