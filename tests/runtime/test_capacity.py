"""Limits: of an agent, and of all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from matins.errors import InvalidInput
from matins.model.rows import ReadyRun
from matins.store.sqlite.transaction import SqliteTransaction
from matins.store.transaction import Transaction
from matins.testing import Sandbox

AT = "2026-03-27T08:05:00Z"
Lines = Callable[..., list[str]]


def add(bench: Sandbox, agent: str, count: int, **words: Any) -> None:
    bench.add_many(
        [
            {"name": f"{agent or 'none'}-{n}", "agent": agent, "when": "5 8 27 3 *", "job": "work", **words}
            for n in range(count)
        ]
    )


def test_an_agents_limit_holds_and_the_rest_wait(theatre: Sandbox) -> None:
    """H10 V3: above 1 too; the rest wait and are not lost"""
    theatre.limits.set("agent:x", size=2)
    add(theatre, "x", 5)
    theatre.run_until(AT)
    seen = []
    while theatre.stage.on:
        assert len(theatre.stage.on) <= 2
        seen.append(theatre.stage.names()[0])
        theatre.end(seen[-1])
    assert sorted(seen) == [f"x-{n}" for n in range(5)]


def test_other_agents_are_not_held_up(theatre: Sandbox) -> None:
    """H10: the first hundred in line all want the same agent"""
    theatre.limits.set("agent:x", size=1)
    add(theatre, "x", 100)
    add(theatre, "y", 3)
    add(theatre, "", 3)
    theatre.run_until(AT)
    assert theatre.stage.names() == ["none-0", "none-1", "none-2", *theatre.stage.names()[3:4], "y-0", "y-1", "y-2"]


def test_a_limit_of_a_label_holds_up_no_others(theatre: Sandbox) -> None:
    """The first hundred in line all have the label; two of them run at a time, whatever their agent."""
    theatre.limits.set("label.team=ops", size=2)
    for agent in ("x", "y"):
        add(theatre, agent, 50, labels={"team": "ops"})
    add(theatre, "z", 3, labels={"team": "web"})
    theatre.run_until(AT)
    names = theatre.stage.names()
    assert [name for name in names if name.startswith("z-")] == ["z-0", "z-1", "z-2"]
    assert len(names) == 5
    assert theatre.limits.get("label.team=ops").in_use == 2
    theatre.end(next(name for name in names if not name.startswith("z-")))
    assert len(theatre.stage.names()) == 5


@pytest.mark.parametrize("scope", ["team=ops", "label.team", "label.=ops", "everything"])
def test_what_is_no_scope_is_refused(theatre: Sandbox, scope: str) -> None:
    with pytest.raises(InvalidInput, match="is not the scope of a limit") as caught:
        theatre.limits.set(scope, size=2)
    assert "label.team=ops" in str(caught.value.hint)


def test_a_global_limit_is_for_all_together(theatre: Sandbox) -> None:
    """V3"""
    theatre.limits.set("global", size=3)
    theatre.limits.set("agent:x", size=2)
    add(theatre, "x", 4)
    add(theatre, "", 4)
    theatre.run_until(AT)
    ended = 0
    while theatre.stage.on:
        names = theatre.stage.names()
        assert len(names) <= 3
        assert sum(name.startswith("x") for name in names) <= 2
        theatre.end(names[-1])
        ended += 1
    assert ended == 8


def test_with_nothing_free_the_engine_sleeps(theatre: Sandbox) -> None:
    """H10: it does not look again and again for what cannot start"""
    theatre.limits.set("global", size=1)
    add(theatre, "", 2)
    theatre.run_until(AT)
    assert len(theatre.stage.on) == 1
    assert theatre.engine.turn() == theatre.settings.check_interval_ms


def test_wait_is_the_default_and_skip_leaves_a_record(theatre: Sandbox, lines: Lines) -> None:
    """H10"""
    theatre.limits.set("agent:x", size=1)
    theatre.add("first", when="5 8 27 3 *", job="work", agent="x")
    theatre.add("waits", when="6 8 27 3 *", job="work", agent="x")
    theatre.add("skips", when="6 8 27 3 *", job="work", agent="x", at_capacity="skip")
    theatre.run_until("2026-03-27T08:07:00Z")
    assert lines(theatre, "waits") == ["08:06 ready"]
    assert lines(theatre, "skips") == ["08:06 skipped at_capacity"]


def test_skip_counts_what_is_planned_in_the_same_moment(theatre: Sandbox, lines: Lines) -> None:
    """H10"""
    theatre.limits.set("agent:x", size=2)
    add(theatre, "x", 4, at_capacity="skip")
    theatre.run_until(AT)
    found = sorted(line for n in range(4) for line in lines(theatre, f"x-{n}"))
    assert found == ["08:05 running"] * 2 + ["08:05 skipped at_capacity"] * 2


@pytest.mark.parametrize("how", ["failed", "cancelled", "retrying", "held"])
def test_what_ends_gives_its_place_back_and_what_is_held_keeps_it(theatre: Sandbox, how: str) -> None:
    """H10"""
    theatre.limits.set("agent:x", size=1)
    add(theatre, "x", 2, **({"retries": 1} if how == "retrying" else {}))
    theatre.run_until(AT)
    (name,) = theatre.stage.names()
    if how == "held":
        theatre.engine._overdue = list(theatre.stage.on.values())
        theatre.settle()
        theatre.settle()
        assert theatre.stage.names() == [name]
        assert [run.state for run in theatre.runs.list(schedule=name)] == ["held"]
    else:
        theatre.end(name, error=None if how == "cancelled" else "no luck", cancelled=how == "cancelled")
        (other,) = theatre.stage.names()
        assert other != name


def test_the_owner_chooses_whether_held_runs_keep_their_place(theatre: Sandbox) -> None:
    """H10, S2: `why` says who keeps the place; `held_keeps_capacity: false` gives it to the next."""
    theatre.limits.set("agent:x", size=1)
    add(theatre, "x", 2)
    theatre.run_until(AT)
    (name,) = theatre.stage.names()
    theatre.engine._overdue = list(theatre.stage.on.values())
    theatre.settle()
    theatre.settle()
    assert theatre.why(name).summary.endswith('Until then it keeps its place in "agent:x".')
    (other,) = {"x-0", "x-1"} - {name}
    (capacity,) = [report for report in theatre.why(other).now if report.gate == "capacity"]
    assert capacity.sentence.endswith("1 of them belong to held runs, until a person resolves them.")
    assert capacity.evidence == {"agent:x": {"size": 1, "taken": 1, "held": 1}}


def test_a_held_run_may_leave_its_place_to_others(theatre: Sandbox) -> None:
    """H10: where the owner says so"""
    theatre.limits.set("agent:x", size=1)
    add(theatre, "x", 2, held_keeps_capacity=False)
    theatre.run_until(AT)
    (name,) = theatre.stage.names()
    theatre.engine._overdue = list(theatre.stage.on.values())
    theatre.settle()
    theatre.settle()
    assert theatre.stage.names() == ["x-0", "x-1"]
    assert theatre.runs.list(schedule=name)[0].state == "held"
    assert "keeps its place" not in theatre.why(name).summary


def test_a_crash_gives_places_back(reopen: Callable[..., Sandbox]) -> None:
    """H10 H8"""
    theatre = reopen()
    theatre.limits.set("agent:x", size=1)
    add(theatre, "x", 2, on_unknown="retry")
    theatre.run_until(AT)
    assert len(theatre.stage.on) == 1
    theatre = reopen()
    theatre.settle()
    assert len(theatre.stage.on) == 1
    theatre.end(theatre.stage.names()[0])
    theatre.end(theatre.stage.names()[0])
    theatre.assert_ran("x-0", times=1)
    theatre.assert_ran("x-1", times=1)


def test_a_limit_can_grow_and_shrink(theatre: Sandbox) -> None:
    """H10"""
    theatre.limits.set("agent:x", size=1)
    add(theatre, "x", 6)
    theatre.run_until(AT)
    theatre.limits.set("agent:x", size=4)
    theatre.settle()
    assert len(theatre.stage.on) == 4
    theatre.limits.set("agent:x", size=2)
    for expected in (3, 2, 2, 2, 1, 0):
        theatre.end(theatre.stage.names()[0])
        assert len(theatre.stage.on) == expected


@pytest.mark.parametrize(
    ("scope", "size", "field"),
    [
        ("agent:x", 0, "size"),
        ("agent:x", 1 << 40, "size"),
        ("agnet:x", 1, "scope"),
        ("agent:", 1, "scope"),
        ("", 1, "scope"),
    ],
)
def test_bad_limits_are_refused(bench: Sandbox, scope: str, size: int, field: str) -> None:
    """H10"""
    with pytest.raises(InvalidInput) as caught:
        bench.limits.set(scope, size=size)
    assert caught.value.field == field
    with bench._store.reading() as transaction:
        assert transaction.limits() == []


def test_a_permit_is_not_kept_by_a_run_that_lacks_another(theatre: Sandbox) -> None:
    """H10 V3: all of them or none"""
    theatre.limits.set("global", size=1)
    theatre.limits.set("agent:x", size=1)
    add(theatre, "", 1)
    add(theatre, "x", 1)
    theatre.run("none-0")
    theatre.clock.advance(1)
    theatre.run("x-0")
    theatre.settle()
    assert theatre.stage.names() == ["none-0"]
    with theatre._store.reading() as transaction:
        assert sorted(transaction.limits()) == [("agent:x", 1, 0), ("global", 1, 1)]
    theatre.end("none-0")
    assert theatre.stage.names() == ["x-0"]


@pytest.mark.parametrize("job", ["work", "fail"])
def test_a_limit_on_one_agent_costs_the_runs_of_others_nothing(
    bench: Sandbox, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """H10: only runs that may have a permit release one, by however they end"""
    released: list[int] = []
    release = Transaction.release_permits

    def releasing(rows: Transaction, run_ids: Iterable[int]) -> None:
        ids = list(run_ids)
        released.extend(ids)
        release(rows, ids)

    monkeypatch.setattr(Transaction, "release_permits", releasing)
    bench.limits.set("agent:x", size=1)
    for name, agent in (("mine", "x"), *((f"other-{number}", "y") for number in range(5)), ("plain", "")):
        bench.add(name, when="*/5 * * * *", job=job, agent=agent)
    bench.run_until(AT)
    (mine,) = bench.runs.list(schedule="mine")
    assert released == [int(mine.id)]
    assert len(bench.runs.list()) == 7
    with bench._store.reading() as transaction:
        assert transaction.limits() == [("agent:x", 1, 0)]


def test_what_has_no_permit_releases_none(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: a limit on everything costs a drain one permit per run, and nothing for those that wait"""
    taken: list[int] = []
    released: list[int] = []
    take, release, read = Transaction.take_permits, Transaction.release_permits, SqliteTransaction.ready
    refuse = [True]  # once, another worker takes the last one first

    def taking(rows: Transaction, scope: str, run_ids: list[int]) -> list[int]:
        found = take(rows, scope, run_ids[: -1 if len(taken) == 12 and refuse and refuse.pop() else None])
        taken.extend(found)
        return found

    def releasing(rows: Transaction, run_ids: Iterable[int]) -> None:
        ids = list(run_ids)
        released.extend(ids)
        release(rows, ids)

    def reading(rows: SqliteTransaction, now: int, limit: int, *more: Any) -> list[ReadyRun]:
        assert limit <= 4, "more runs are read than the limit has left"
        return read(rows, now, limit, *more)

    monkeypatch.setattr(SqliteTransaction, "ready", reading)
    monkeypatch.setattr(Transaction, "take_permits", taking)
    monkeypatch.setattr(Transaction, "release_permits", releasing)
    bench.limits.set("global", size=4)
    add(bench, "x", 40)
    bench.run_until(AT)
    assert not refuse
    assert len(set(taken)) == 40
    assert (sorted(taken), sorted(released)) == (sorted(set(taken)), sorted(taken))
