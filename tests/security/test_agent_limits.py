"""How much agents may schedule, how often, how long, and how deep. Row B7."""

from __future__ import annotations

from typing import Any

import pytest
from security_cast import ROVER, SCOUT, Watched, at, propose
from security_rows import everything

from matins.errors import InvalidInput, NotAllowed
from matins.executors.job_context import JobContext
from matins.model.access import Principal
from matins.testing import iso

HOURLY = {"when": "5 * * * *", "job": "work"}
DAY = 86_400_000


def add(bench: Watched, count: int, agent: Principal = SCOUT) -> int:
    """How many of so many proposals are taken."""
    taken = {schedule.name for schedule in bench.list(select=f"agent={agent.name}", limit=1_000)}
    names = [name for name in (f"{agent.name}-{number}" for number in range(100)) if name not in taken]
    for number, name in enumerate(names[:count]):
        try:
            bench.acting_as(agent).add(name, **HOURLY)
        except NotAllowed:
            return number
    return count


# -- how many


def test_the_quota(bench: Watched) -> None:
    """B7: of each agent, pending ones included; what is taken away makes room."""
    bench.agent_rules.set(max_schedules=3)
    assert add(bench, 5) == 3
    with pytest.raises(NotAllowed, match="The agent already has 3 of at most 3 schedules") as caught:
        bench.acting_as(SCOUT).add("more", **HOURLY)
    assert (caught.value.field, bool(caught.value.hint)) == ("max_schedules", True)
    assert add(bench, 5, ROVER) == 3
    assert bench.acting_as(SCOUT).delete("scout-0")
    assert add(bench, 2) == 1


def test_the_quota_holds_for_what_comes_back(bench: Watched) -> None:
    """B7: deleted ones, and one-shots that have run and get another time, count again"""
    bench.agent_rules.set(max_schedules=3)
    agent = bench.acting_as(SCOUT)
    once = agent.add("once", when="in 1h", job="work")
    bench.approvals.approve(bench.asked("once").id)
    bench.run_until(at("09:30"))
    assert bench.get("once").state == "completed"
    assert add(bench, 5) == 3
    agent.delete("scout-0")
    assert add(bench, 1) == 1
    before = everything(bench)
    for again in (lambda: agent.undelete("scout-0", new_name="back"), lambda: agent.edit(once.name, when="5 * * * *")):
        with pytest.raises(NotAllowed, match="The agent already has 3 of at most 3 schedules"):
            again()
    assert everything(bench) == before
    agent.delete("scout-1")
    assert agent.edit(once.name, when="5 * * * *").state == "pending"


def test_the_usual_quota(bench: Watched) -> None:
    """B7: nobody has said anything, and there is one."""
    assert add(bench, 25) == 20


def test_the_quota_holds_for_many_at_once(bench: Watched) -> None:
    """B7: all of them or none."""
    bench.agent_rules.set(max_schedules=3)
    before = everything(bench)
    with pytest.raises(NotAllowed):
        bench.acting_as(SCOUT).add_many([{"name": f"s{n}", **HOURLY} for n in range(4)])
    assert everything(bench) == before
    bench.acting_as(SCOUT).add_many([{"name": f"s{n}", **HOURLY} for n in range(3)])
    assert add(bench, 1) == 0


def test_what_people_make_is_not_counted(bench: Watched) -> None:
    bench.agent_rules.set(max_schedules=1)
    for name in "abc":
        bench.add(name, **HOURLY, agent="scout")
    assert add(bench, 2) == 1


def test_rejected_ones_do_not_come_back_beyond_the_quota(bench: Watched) -> None:
    """B7: a rejection makes room; whoever fills it cannot bring the rejected ones back as well."""
    bench.agent_rules.set(max_schedules=1)
    agent = bench.acting_as(SCOUT)
    for name in "abc":
        agent.add(name, **HOURLY)
        bench.approvals.deny(bench.asked(name).id)
    agent.edit("a", payload=1)
    for name in "bc":
        with pytest.raises(NotAllowed, match="The agent already has 1 of at most 1 schedules"):
            agent.edit(name, payload=1)
    assert [bench.get(name).state for name in "abc"] == ["pending", "rejected", "rejected"]
    agent.edit("a", payload=2)


def test_expired_ones_do_not_come_back_beyond_the_quota(bench: Watched) -> None:
    bench.agent_rules.set(max_schedules=1, max_lifetime="1h")
    agent = propose(bench, "a")
    bench.run_until(at("10:00"))
    assert bench.get("a").state == "expired"
    agent.add("b", **HOURLY)
    with pytest.raises(NotAllowed, match="The agent already has 1 of at most 1 schedules"):
        agent.edit("a", payload=1)


def test_a_quota_of_its_own(bench: Watched) -> None:
    """B7: an agent's own rule goes before the one for all."""
    bench.agent_rules.set(max_schedules=1)
    bench.agent_rules.set("rover", max_schedules=2)
    assert (add(bench, 5), add(bench, 5, ROVER)) == (1, 2)
    bench.agent_rules.set("scout", max_schedules=0)
    bench.acting_as(SCOUT).delete("scout-0")
    assert add(bench, 1) == 0


# -- how deep


def planting(bench: Watched, agent: str = "scout") -> list[str]:
    """A job that schedules itself again and again, as its agent; what it was refused with."""
    refused: list[str] = []

    @bench.job("bomb")
    def bomb(run: JobContext) -> None:
        acting = bench.acting_as(Principal("agent", agent, run.id))
        for number in range(3):
            try:
                acting.add(f"{run.schedule}.{run.id}.{number}", when="*/5 * * * *", job="bomb")
            except NotAllowed as error:
                refused.append(str(error.field))

    return refused


def test_a_bomb_stops_at_the_first_generation(bench: Watched) -> None:
    """B7: even if the owner approves everything: what agents made makes nothing."""
    refused = planting(bench)
    bench.add("root", when="0 * * * *", job="bomb", agent="scout")
    bench.run_until(at("09:01"))
    for approval in bench.approvals.list():
        bench.approvals.approve(approval.id)
    bench.run_until(at("09:31"))
    assert len(bench.list(limit=1_000)) == 1 + 3
    assert {schedule.depth for schedule in bench.list()} == {0, 1}
    assert set(refused) == {"max_depth"}


def test_a_deeper_bomb_stops_at_the_cap(bench: Watched) -> None:
    """B7: where the owner lets them go deeper, the quota is the end of it."""
    bench.agent_rules.set(max_depth=50, max_schedules=10)
    refused = planting(bench)
    bench.add("root", when="0 * * * *", job="bomb", agent="scout")
    for minute in (1, 6, 11, 16, 21, 26, 31):
        bench.run_until(at(f"09:{minute:02}"))
        for approval in bench.approvals.list():
            bench.approvals.approve(approval.id)
    assert len(bench.list(select="agent=scout", limit=1_000)) == 1 + 10
    assert set(refused) == {"max_schedules"}
    assert max(schedule.depth for schedule in bench.list(limit=1_000)) >= 2


def test_a_bomb_that_nobody_approves_never_goes_off(bench: Watched) -> None:
    """B7: and no more is planted than the quota."""
    bench.agent_rules.set(max_schedules=5)
    planting(bench)
    bench.add("root", when="*/5 * * * *", job="bomb", agent="scout")
    bench.run_until(at("10:01"))
    assert {run.schedule for schedule in bench.list() for run in bench.runs.list(schedule=schedule.name)} == {"root"}
    assert len(bench.list(limit=1_000)) == 1 + 5


def test_a_depth_of_none(bench: Watched) -> None:
    bench.agent_rules.set(max_depth=0)
    with pytest.raises(NotAllowed, match="has depth 1; the maximum for agents is 0"):
        bench.acting_as(SCOUT).add("s", **HOURLY)


# -- how often


@pytest.mark.parametrize(
    "when",
    [
        "* * * * *",
        "*/4 * * * *",
        "0,4 * * * *",
        "0,57 * * * *",  # 57 past to the full hour
        "0-4 0 1 1 *",
        "59 23 * * *|0 0 * * *",
        "*/30 * * * * *",
        "every 4m",
        "every 299s",
        "every 1s",
        "RRULE:FREQ=MINUTELY;INTERVAL=4",
        "every day at 09:00 and 09:04",
    ],
)
def test_the_smallest_gap_of_the_whole_cycle_counts(bench: Watched, when: str) -> None:
    """B7 V1: a pattern that is rare but fires twice within minutes is too often."""
    if "|" in when:
        when = "0,59 0,23 * * *"  # 23:59 and 00:00 of the next day
    before = everything(bench)
    with pytest.raises(NotAllowed, match="the minimum is 5m") as caught:
        bench.acting_as(SCOUT).add("s", when=when, job="work")
    assert (caught.value.field, bool(caught.value.hint)) == ("when", True)
    assert everything(bench) == before


@pytest.mark.parametrize("when", ["*/5 * * * *", "0,55 * * * *", "every 5m", "every 300s", "in 1s", "@daily"])
def test_what_is_rare_enough(bench: Watched, when: str) -> None:
    assert bench.acting_as(SCOUT).add("s", when=when, job="work").state == "pending"


def test_an_edit_does_not_make_it_more_often(bench: Watched) -> None:
    """B7: the floor holds for edits, and for words that do not mention when."""
    agent = propose(bench)
    before = everything(bench)
    with pytest.raises(NotAllowed, match="the minimum is 5m"):
        agent.edit("s", when="* * * * *")
    assert everything(bench) == before
    bench.agent_rules.set(min_interval="2h")
    with pytest.raises(NotAllowed, match="the minimum is 2h"):
        agent.edit("s", payload="x")


def test_people_have_no_floor(bench: Watched) -> None:
    assert bench.add("s", when="every 1s", job="work").state == "active"
    assert bench.edit("s", when="every 2s").state == "active"


# -- how long


def ends(bench: Watched, name: str = "s") -> str | None:
    return iso(bench.get(name).ends_at)


def test_it_ends_by_itself(bench: Watched) -> None:
    """B7: a default, a cap on what is asked for, and nothing on what is shorter."""
    agent = bench.acting_as(SCOUT)
    agent.add("s", **HOURLY)
    agent.add("long", **HOURLY, ends_at="2099-01-01T00:00")
    agent.add("short", **HOURLY, ends_at="2026-03-28T00:00")
    assert (ends(bench), ends(bench, "long"), ends(bench, "short")) == (
        "2026-04-26T08:00:00Z", "2026-04-26T08:00:00Z", "2026-03-28T00:00:00Z",
    )  # fmt: skip
    assert bench.asked("long").request["ends_at"] == "2026-04-26T08:00:00Z"


@pytest.mark.parametrize("later", ["2099-01-01T00:00", None], ids=str)
def test_an_edit_does_not_make_it_last(bench: Watched, later: Any) -> None:
    """B7: at the most what a new one would get, and asked about again."""
    agent = propose(bench)
    bench.run_until("2026-03-28T08:00:00Z")
    agent.edit("s", ends_at=later)
    assert ends(bench) == "2026-04-27T08:00:00Z"
    assert bench.get("s").state == "pending"


def test_other_edits_do_not_prolong_it(bench: Watched) -> None:
    agent = propose(bench)
    bench.run_until("2026-03-28T08:00:00Z")
    agent.edit("s", payload="x")
    assert ends(bench) == "2026-04-26T08:00:00Z"


def test_the_owner_may_let_it_last(bench: Watched) -> None:
    propose(bench)
    bench.edit("s", ends_at=None)
    assert ends(bench) is None


def test_when_its_time_is_over_nothing_fires(bench: Watched) -> None:
    bench.agent_rules.set(max_lifetime="2h")
    propose(bench)
    bench.run_until(at("12:00"))
    assert len(bench.ran) == 2
    assert bench.get("s").state == "expired"


# -- what the owner lets through


def open_door(bench: Watched, **rules: Any) -> None:
    bench.agent_rules.set(**{"auto_approve_one_shots": True, "auto_approve_jobs": ["work"], **rules})


def test_plain_one_shots_for_itself_go_through(bench: Watched) -> None:
    """B7: by the owner's rule, and with provenance all the same."""
    assert bench.acting_as(SCOUT).add("asked", when="in 10m", job="work").state == "pending"
    open_door(bench)
    made = bench.acting_as(SCOUT).add("s", when="in 10m", job="work", payload="remember")
    assert (made.state, made.creator_role, made.depth) == ("active", "agent", 1)
    bench.run_until(at("08:11"))
    assert bench.ran == [("s", "remember")]


@pytest.mark.parametrize(
    "words",
    [
        {"when": "every 1h"},
        {"when": "0 9 * * *"},
        {"when": "RRULE:FREQ=DAILY;COUNT=2"},
        {"job": "deploy"},
        {"pre_check": "true"},
        {"before_run": "true"},
        {"after_run": "true"},
        {"max_cost": "$50"},
        {"max_tokens": 1_000_000},
        {"provider": "anthropic"},
        {"approval": "owner_approve"},
        {"approvers": ["ada"]},
        {"approval_default": "approve"},
        {"target": {"kind": "channel", "channel": "C07"}},
        {"target": {"kind": "thread", "thread": 7}},
        {"work_source": "inbox"},
    ],
    ids=str,
)
def test_anything_more_is_asked_about(memory: Watched, words: dict[str, Any]) -> None:
    """B7: another job, another rhythm, another place, or an unusual word."""
    memory.work_sources.set("inbox", kind="tasks", path="TASKS.yaml")
    open_door(memory)
    made = memory.acting_as(SCOUT).add("s", **{"when": "in 10m", "job": "work", **words})
    assert made.state == "pending"
    memory.run_until(at("10:00"))
    assert memory.ran == []


def test_the_open_door_leads_to_nobody_else(memory: Watched) -> None:
    open_door(memory)
    with pytest.raises(NotAllowed):
        memory.acting_as(SCOUT).add("s", when="in 10m", job="work", agent="rover")


def test_the_open_door_has_a_quota_too(memory: Watched) -> None:
    open_door(memory, max_schedules=2)
    for name in "ab":
        memory.acting_as(SCOUT).add(name, when="in 10m", job="work")
    with pytest.raises(NotAllowed):
        memory.acting_as(SCOUT).add("c", when="in 10m", job="work")


def test_a_one_shot_does_not_wind_itself_up_again(bench: Watched) -> None:
    """B7: let through unasked, it edits its own time, or makes another; neither goes through, so the chain ends."""
    refused: list[str] = []

    @bench.job("rewinds")
    def rewinds(run: JobContext) -> None:
        acting = bench.acting_as(Principal("agent", "scout", run.id))
        acting.edit("s", when="in 1s")
        try:
            acting.add("next", when="in 1s", job="rewinds")
        except NotAllowed as error:
            refused.append(str(error.field))

    open_door(bench, auto_approve_jobs=["rewinds"])
    bench.acting_as(SCOUT).add("s", when="in 1s", job="rewinds")
    bench.run_until(at("08:10"))
    assert len(bench.runs.list(schedule="s")) == 1
    assert (bench.get("s").state, refused) == ("pending", ["max_depth"])


@pytest.mark.parametrize(
    "rules",
    [{"max_schedules": -1}, {"max_schedules": True}, {"max_depth": 1.5}, {"min_interval": "often"}, {"max_lifetime": 5},
     {"auto_approve_one_shots": 1},
     {"auto_approve_jobs": "work"}, {"no such rule": 1}, {"max_schedules": 10**9}],
    ids=str,
)  # fmt: skip
def test_rules_that_cannot_be_used(memory: Watched, rules: dict[str, Any]) -> None:
    before = everything(memory)
    with pytest.raises(InvalidInput):
        memory.agent_rules.set(**rules)
    assert everything(memory) == before
