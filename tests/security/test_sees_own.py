"""An agent sees names, times, states and reasons of everything, and content only of what it made or is."""

from __future__ import annotations

import inspect
from typing import Any

import orjson
import pytest
from security_cast import OWNER, SCOUT, Watched, at

from matins.api import codec
from matins.api.use_case import USE_CASES
from matins.errors import MatinsError, NotAllowed

SECRET = "the-secret-of-the-owner"
LISTS: dict[str, dict[str, Any]] = {
    "schedules.list": {},
    "schedules.get": {"name": "private"},
    "schedules.upcoming": {},
    "missions.list": {},
    "missions.get": {"name": "private-mission"},
    "schedules.why": {"name": "private"},
    "schedules.lanes": {},
    "schedules.timeline": {},
    "runs.list": {},
    "runs.live": {},
    "runs.facts": {"run_id": "1"},
    "approvals.list": {},
    "events.list": {},
    "threads.list": {},
}


@pytest.fixture
def bench(bench: Watched) -> Watched:
    bench.add("private", when="5 * * * *", job="work", payload=SECRET, description=SECRET, labels={"a": SECRET})
    bench.add("asked", when="5 * * * *", job="work", payload=SECRET, approval="owner_approve")
    steps = [{"title": "Build", "job": "work", "payload": SECRET}]
    bench.missions.make("private-mission", when="5 * * * *", steps=steps)
    bench.add("of-scout", agent="scout", when="5 * * * *", job="work", payload="mine")
    bench.run_until(at("08:06"))
    return bench


@pytest.mark.parametrize("use_case", LISTS)
def test_b7_an_agent_reads_no_content_of_others(bench: Watched, use_case: str) -> None:
    """B7 B16: on every store; the owner, and an agent with `sees: all`, do"""
    found = [text(bench, principal, use_case) for principal in (OWNER, SCOUT)]
    assert SECRET not in found[1]
    assert use_case in ("threads.list", "runs.facts") or "private" in found[1] or "asked" in found[1]
    bench.agent_rules.set("scout", sees="all")
    assert (SECRET in text(bench, SCOUT, use_case)) is (SECRET in found[0])


GIVEN = {"name": "private", "run_id": "1", "schedule": "private", "approval_id": "1", "thread_id": "1"}


def test_b7_no_use_case_that_reads_shows_an_agent_content_of_others(bench: Watched) -> None:
    """B7 B16: those that are added later too; refusals repeat nothing of it"""
    called, leaks = 0, []
    for name, use_case in USE_CASES.items():
        names = inspect.signature(use_case.function).parameters
        given = {key: value for key, value in GIVEN.items() if key in names}
        if use_case.right == "read":
            try:
                found = codec.to_document(bench.invoke(SCOUT, use_case, given))
                called += 1
            except MatinsError as error:
                found = f"{error} {error.hint}"
            leaks += [name] if SECRET in orjson.dumps(found, default=str).decode() else []
    assert leaks == []
    assert called > 40, called


def text(bench: Watched, principal: Any, use_case: str) -> str:
    result = bench.invoke(principal, USE_CASES[use_case], LISTS[use_case])
    return orjson.dumps(codec.to_document(result)).decode()


def test_b7_an_agent_reads_what_it_is_and_what_it_made(bench: Watched) -> None:
    """B7"""
    acting = bench.acting_as(SCOUT)
    acting.add("made", when="5 * * * *", job="work", payload="made by scout")
    assert acting.get("of-scout").settings["payload"] == "mine"
    assert acting.get("made").settings["payload"] == "made by scout"
    assert acting.runs.snapshot(bench.last("of-scout").id).payload == "mine"
    (asked,) = [one for one in acting.approvals.list() if one.schedule == "made"]
    assert asked.request["payload"] == "made by scout"


@pytest.mark.parametrize("use_case", ["output", "transcript", "snapshot", "checks", "thread"])
def test_b7_the_content_of_somebody_else_s_run_is_refused(bench: Watched, use_case: str) -> None:
    """B7"""
    run = bench.last("private").id
    for number in (run, f"{bench.last('private-mission').id}/1"):
        with pytest.raises(NotAllowed, match="cannot read its content"):
            getattr(bench.acting_as(SCOUT).runs, use_case)(number)
    assert bench.acting_as(SCOUT).runs.get(run).state == "succeeded"
