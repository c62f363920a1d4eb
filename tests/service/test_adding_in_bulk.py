"""A bulk shares what its schedules have in common, and stores exactly what adding them one by one stores."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from matins.errors import MatinsError
from matins.model.access import Principal
from matins.model.job import JobType
from matins.model.settings import Int, Setting, Text
from matins.testing import ManualClock, Sandbox

NOW = "2026-03-27T08:00:00Z"
WHEN = (
    "0 9 * * *", "5 9 * * 1", "H 3 * * *", "H 3 * * *", "every 5m", "every weekday at 9am", "never",
    "FREQ=DAILY;COUNT=3",
    "2026-04-01T10:00", "2026-04-01T10:00:00.123Z", "2026-04-02 11:00 Europe/Berlin", "2026-10-25T01:30+01:00",
    "in 5 minutes", "after other ends", "2020-01-01", "sometimes", None, 7, {"kind": "never"},
)  # fmt: skip
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"timezone": "Europe/London"},
    {"timezone": "local"},
    {"ends_at": "2026-12-31T18:00", "timezone": "Asia/Tokyo"},
    {"ends_at": "2026-12-31T18:00"},
    {"jitter": 5},
    {"overlap": "queue", "max_executions": 3},
    {"labels": {"project": "apollo"}},
    {"on": "webhook hook"},
    {"on": {"webhook": "hook"}},
    {"pre_check": "true"},
    {"anchor": "grid"},
    {"colour": "red"},
)
JOBS: tuple[dict[str, Any], ...] = (
    {"job": "work"},
    {"job": "typed"},
    {"job": "written", "agent": "scout"},
    {"job": "message"},
    {"job": "unknown"},
    {"agent": "scout", "prompt": "Look at {{slot}}."},
    {"agent": "scout", "prompt": "Look at {{nothing}}."},
    {"steps": [{"title": "one", "job": "work"}, {"title": "two", "job": "work", "after": ["one"]}]},
)
PAYLOADS: tuple[Any, ...] = (
    None, 0, "", [], {"nth": 1}, {"nth": 2, "deep": [1.5, None, {"a": "ü"}]}, {"nth": "x"}, {"text": "{{slot}}"},
    {"text": "{{nothing}}"}, (1, 2), {1: 2},
)  # fmt: skip


@dataclass(frozen=True)
class Numbered:
    nth: Annotated[int, Setting(Int(1, 9), "A number.", 1, required=True)]
    deep: Annotated[str | None, Setting(Text(), "A text.", "x")] = None


def sandbox() -> Sandbox:
    made = Sandbox(clock=ManualClock(NOW, zone="America/New_York"))
    made.job("work")(lambda run: None)
    made.job("typed", inputs=Numbered)(lambda run: None)
    made.jobs.register(JobType("written", prompt=lambda payload: f"Do {payload}."))
    made.agents.set("scout", runner="demo")
    made.inbound.set("hook", kind="bearer", secret="env:HOOK")
    made.add("other", when="0 1 * * *", job="work")
    return made


def stored(bench: Sandbox) -> list[Any]:
    connection = bench._store._connection  # type: ignore[attr-defined]
    schedules = "id, agent, name, state, rev, created_at, created_by, creator_role, depth FROM schedules"
    parts = (schedules, "* FROM revisions", "* FROM due", "* FROM listeners", "type, schedule_id, data FROM events")
    return [connection.execute(f"SELECT {part} ORDER BY 1, 2, 3").fetchall() for part in parts]


def told(error: MatinsError) -> tuple[Any, ...]:
    return type(error), error.message, error.hint, *(getattr(error, name, None) for name in ("field", "allowed"))


def added(bench: Sandbox, *schedules: dict[str, Any]) -> tuple[Any, ...] | None:
    """None, or the error."""
    try:
        bench.add_many(schedules)
    except MatinsError as error:
        return told(error)
    return None


@pytest.mark.parametrize(
    ("job", "settings"), [(JOBS[0], settings) for settings in SETTINGS] + [(job, {}) for job in JOBS], ids=str
)
def test_h10_a_bulk_stores_what_one_by_one_stores(job: dict[str, Any], settings: dict[str, Any]) -> None:
    """H10 B8: and it refuses the same with the same words"""
    differing = [*((when, None) for when in WHEN), *((WHEN[0], payload) for payload in PAYLOADS), (WHEN[8], {"nth": 3})]
    given = [
        {"name": f"s{nth}", **settings, **job, "when": when, "payload": payload}
        for nth, (when, payload) in enumerate(differing)
    ]
    with closing(sandbox()) as single, closing(sandbox()) as bulk:
        outcomes = [added(single, one) for one in given]
        good = [one for one, outcome in zip(given, outcomes, strict=True) if outcome is None]
        bulk.add_many(good)
        assert stored(bulk) == stored(single)
        before = [{**one, "name": f"before {one['name']}"} for one in good]
        for one, outcome in zip(given, outcomes, strict=True):
            if outcome is not None:
                assert added(bulk, *before, one) == outcome
        assert stored(bulk) == stored(single)


def test_b8_equal_values_of_another_type_are_not_shared() -> None:
    """B8: True equals 1, and is no number of retries"""
    with closing(sandbox()) as bench:
        good = {"name": "s", "when": "0 9 * * *", "job": "work", "retries": 1}
        bad = {**good, "name": "t", "retries": True}
        assert added(bench, good, bad) is not None


@pytest.mark.parametrize("role", ["agent", "operator"])
def test_b5_people_see_the_payload_of_each_proposal(role: str) -> None:
    """B5: what an agent proposes, and the commands of an operator, wait for a person, each with its own payload"""
    with closing(sandbox()) as bench:
        principal = Principal(role, "scout")  # type: ignore[arg-type]
        command = {} if role == "agent" else {"pre_check": "true"}
        api = bench.acting_as(principal)
        api.add_many(
            [{"name": f"s{n}", "when": "0 9 * * *", "job": "work", "payload": {"n": n}, **command} for n in range(3)]
        )
        shown = [approval.request["payload"] for approval in bench.approvals.list()]
        assert sorted(shown, key=str) == [{"n": 0}, {"n": 1}, {"n": 2}]
