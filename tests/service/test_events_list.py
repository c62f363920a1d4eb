"""Events as people and programs read them: a page, the oldest first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from every_store import bench, postgres_server, postgres_url, rows, url

from matins.api._results import Limit
from matins.errors import InvalidInput, NotFound
from matins.service.events import _PAGE
from matins.testing import Sandbox

__all__ = ["bench", "postgres_server", "postgres_url", "rows", "url"]


@pytest.fixture
def history(bench: Sandbox) -> Sandbox:
    """Two schedules of two agents with a few runs each."""
    bench.add("a", when="5 * * * *", job="work", agent="ann")
    bench.add("b", when="10 * * * *", job="work", agent="ben")
    bench.run_until("2026-03-27T11:00:00Z")
    return bench


def test_the_newest_come_oldest_first(history: Sandbox) -> None:
    every, newest = history.events.list(limit=1000), history.events.list(limit=3)
    assert len(every) > 10
    assert newest == every[-3:]
    assert [int(event.id) for event in every] == sorted(int(event.id) for event in every)
    assert every[0].type == "schedule.created"
    assert (every[0].schedule, every[0].data["name"]) == ("a", "a")


def test_from_one_event_to_the_next(history: Sandbox) -> None:
    """Page by page, nothing twice and nothing left out."""
    every, seen, after = history.events.list(limit=1000), [], "0"
    while page := history.events.list(after=after, limit=4):
        assert len(page) <= 4
        seen += page
        after = page[-1].id
    assert seen == every


def test_what_is_wanted(history: Sandbox) -> None:
    every = history.events.list(limit=1000)
    run = history.runs.list(schedule="a")[0]
    wanted: list[tuple[dict[str, object], Callable[..., bool]]] = [
        ({"types": "run.succeeded"}, lambda event: event.type == "run.succeeded"),
        (
            {"types": ["schedule.created", "schedule:triggered"]},
            lambda e: e.type in ("schedule.created", "run.started"),
        ),
        ({"schedule": "a"}, lambda event: event.schedule == "a"),
        ({"schedule": "a", "agent": "ann"}, lambda event: event.schedule == "a"),
        ({"agent": "ben"}, lambda event: event.schedule == "b"),
        ({"run_id": run.id}, lambda event: event.run_id == run.id),
        ({"agent": "ben", "types": "run.started"}, lambda e: e.schedule == "b" and e.type == "run.started"),
    ]
    for filters, wanted_one in wanted:
        expected = [event for event in every if wanted_one(event)]
        assert expected, filters
        assert history.events.list(**filters, limit=1000) == expected, filters  # type: ignore[arg-type]
        assert history.events.list(**filters, limit=1) == expected[-1:], filters  # type: ignore[arg-type]
        assert history.events.list(**filters, after=0, limit=1) == expected[:1], filters  # type: ignore[arg-type]


def test_one_that_is_far_back_is_found(bench: Sandbox) -> None:
    bench.add("rare", when="every 1h", job="work")
    bench.pause("rare")
    for number in range(_PAGE // 1000 + 1):
        bench.add_many([{"name": f"{number}-{n}", "when": "every 1h", "job": "work"} for n in range(1000)])
    assert [event.type for event in bench.events.list(schedule="rare")] == ["schedule.created", "schedule.paused"]
    assert [event.type for event in bench.events.list(types="schedule.paused", after=0)] == ["schedule.paused"]


def test_a_look_changes_nothing(history: Sandbox, rows: Callable[[], object]) -> None:
    before = rows()
    history.events.list(schedule="a")
    assert rows() == before


def test_what_cannot_be_asked(bench: Sandbox) -> None:
    for limit in (0, 1001, True):
        with pytest.raises(InvalidInput, match="limit"):
            bench.events.list(limit=limit)
    with pytest.raises(InvalidInput, match="There is no event"):
        bench.events.list(types="run.flown")
    with pytest.raises(NotFound, match='There is no schedule "nobody"'):
        bench.events.list(schedule="nobody")


def test_limits_and_hooks_are_told(bench: Sandbox) -> None:
    """What governs can be seen as well as set."""
    assert bench.limits.list() == []
    assert bench.hooks.list() == []
    bench.limits.set("global", size=3)
    bench.hooks.set("after:run", command=["true", "--version"], timeout="5s")
    assert bench.limits.list() == [Limit("global", 3, 0)]
    (hook,) = bench.hooks.list()
    assert (hook.event, hook.timeout) == ("after:run", "5s")
    assert "true" in hook.command[0]
