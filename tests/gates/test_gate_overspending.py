"""Money that was spent beyond a budget, and budgets that change, on every store. Rows B5, C16, C10, B1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from gate_records import at, last, lines, purse, told

from matins.delivery.decisions import decide, look_again
from matins.errors import InvalidInput
from matins.executors.job_context import JobContext
from matins.model.event import StoredEvent
from matins.testing import Sandbox

HOURLY = "0 * * * *"


# -- overspent


@pytest.fixture
def overspent(bench: Sandbox, shop: list[Any]) -> Sandbox:
    """At 09:00 a run was taken to need $0.50 of the day's $1, and spent $1.30; it is 09:30."""
    shop[:] = ["$1.30", "$0.10"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=HOURLY, job="buy")
    bench.run_until(at("09:30"))
    return bench


def test_b5_a_breach_pauses_and_asks(overspent: Sandbox) -> None:
    """B5"""
    assert lines(overspent) == ["09:00 succeeded"]
    shown = overspent.get("s")
    assert (shown.state, shown.paused_by) == ("paused", "budget")
    assert 'budget "day" is overspent for 2026-03-27' in str(shown.note)
    (question,) = overspent.approvals.list()
    place = {"budget": "day", "whose": "all", "period": "2026-03-27"}
    assert (question.kind, {key: question.request[key] for key in place}) == ("budget", place)
    assert [event["budget"] for event in told(overspent, "budget.exceeded")] == ["day"]


def test_b5_yes_grants_as_much_again(overspent: Sandbox) -> None:
    """B5: for that period, and goes on"""
    overspent.edit("s", max_cost="$0.20")
    overspent.approvals.approve(overspent.approvals.list()[0].id)
    assert (overspent.get("s").state, purse(overspent).money) == ("active", "$0.30")
    overspent.run_until(at("16:00"))
    assert [line.split()[1] for line in lines(overspent)[1:]] == [*["succeeded"] * 6, "over_budget"]
    overspent.run_until(at("00:00", day=28))
    assert lines(overspent)[-1] == "00:00 succeeded"


def test_b5_no_leaves_it_paused(overspent: Sandbox) -> None:
    """B5: until somebody resumes it"""
    overspent.approvals.deny(overspent.approvals.list()[0].id)
    overspent.run_until(at("12:00", day=28))
    assert (overspent.get("s").state, lines(overspent)) == ("paused", ["09:00 succeeded"])
    overspent.edit("s", max_cost="$0.20")
    overspent.resume("s")
    overspent.run_until(at("13:00", day=28))
    assert lines(overspent)[1:] == ["13:00 succeeded"]


def test_b5_nobody_answers(overspent: Sandbox) -> None:
    """B5: it stays paused"""
    overspent.run_until("2026-04-10T00:00:00Z")
    assert (overspent.approvals.list(), overspent.get("s").state) == ([], "paused")


def test_b5_the_question_and_the_pause_survive_a_restart(restart: Callable[..., Sandbox]) -> None:
    """B5"""
    first = restart()
    first.job("buy")(lambda run: run.spend("$3"))
    first.budgets.set("day", period="day", max_cost="$1")
    first.add("s", when=HOURLY, job="buy")
    first.run_until(at("09:30"))
    second = restart()
    second.run_until(at("10:30"))
    assert (second.get("s").state, len(second.approvals.list())) == ("paused", 1)
    second.approvals.approve(second.approvals.list()[0].id)
    assert second.get("s").state == "active"


def test_b5_other_schedules_are_refused_not_paused(overspent: Sandbox) -> None:
    """B5: they have spent nothing"""
    overspent.add("t", when=HOURLY, job="work")
    overspent.run_until(at("10:00"))
    assert (lines(overspent, "t"), overspent.get("t").state) == (["10:00 over_budget"], "active")
    assert len(overspent.approvals.list()) == 1


def test_c16_a_yes_about_money_does_not_lift_a_persons_pause(overspent: Sandbox) -> None:
    """C16 C10 B5"""
    overspent.pause("s", note="mine")
    overspent.approvals.approve(overspent.approvals.list()[0].id)
    assert (overspent.get("s").state, overspent.get("s").note) == ("paused", "mine")


def test_c16_a_breach_does_not_take_over_a_persons_pause(bench: Sandbox) -> None:
    """C16 C10 B5: it is asked all the same"""

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        bench.pause("s", note="mine")
        run.spend("$3")

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=HOURLY, job="buy")
    bench.run_until(at("09:30"))
    assert (bench.get("s").paused_by, bench.get("s").note) == ("owner", "mine")
    bench.approvals.approve(bench.approvals.list()[0].id)
    assert bench.get("s").state == "paused"


def test_b5_several_at_once_ask_once(bench: Sandbox, shop: list[Any]) -> None:
    """B5: a person is not asked the same twice, and grants it once"""
    shop[:] = ["$1.10"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 12 * * *", job="buy", overlap="allow")
    for _ in range(2):
        bench.run("s")
    bench.settle()
    assert [run.state for run in bench.runs.list(schedule="s")] == ["succeeded", "succeeded"]
    assert (bench.get("s").paused_by, len(bench.approvals.list())) == ("budget", 1)


def test_b5_the_question_outlives_the_run_that_led_to_it(bench: Sandbox) -> None:
    """B5 V6: the schedule is paused until somebody answers"""

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        run.spend("$3")
        raise ValueError

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=HOURLY, job="buy", retries=3, approval="owner_approve")
    bench.run_until(at("09:00"))
    bench.approvals.approve(bench.approvals.list()[0].id)
    bench.settle()
    assert bench.get("s").paused_by == "budget"
    bench.runs.cancel(bench.runs.list(schedule="s")[0].id)
    bench.approvals.approve(bench.approvals.list()[0].id)
    assert bench.get("s").state == "active"


def overspend_together(bench: Sandbox, shop: list[Any]) -> None:
    """Two schedules draw on one budget, and both find that it is overspent."""
    shop[:] = ["$1.10"]
    bench.budgets.set("day", period="day", max_cost="$1")
    for name in ("s", "t"):
        bench.add(name, when="0 12 * * *", job="buy")
        bench.run(name)
    bench.settle()
    assert [bench.get(name).paused_by for name in ("s", "t")] == ["budget", "budget"]


def test_b5_a_budget_that_several_share_is_asked_about_once(bench: Sandbox, shop: list[Any]) -> None:
    """B5: one yes, granted once, lets all of them go on"""
    overspend_together(bench, shop)
    (asked,) = bench.approvals.list()
    assert purse(bench).money == "$2.20"
    bench.approvals.approve(asked.id)
    assert [bench.get(name).state for name in ("s", "t")] == ["active", "active"]
    assert purse(bench).money == "$1.20"


def test_b5_the_budget_of_an_agent_that_only_does_a_step(bench: Sandbox, shop: list[Any]) -> None:
    """B5 P6: a schedule waits for the budget of each agent of its steps"""
    shop[:] = ["$1.10"]
    bench.budgets.set("coder", period="day", max_cost="$1", scope="agent", of="coder")
    for name in ("s", "t"):
        bench.add(name, when="0 12 * * *", steps=[{"title": "Build", "job": "buy", "agent": "coder"}])
        bench.run(name)
    bench.settle()
    assert [bench.get(name).paused_by for name in ("s", "t")] == ["budget", "budget"]
    (asked,) = bench.approvals.list()
    bench.approvals.approve(asked.id)
    assert [bench.get(name).state for name in ("s", "t")] == ["active", "active"]


def test_b5_no_yes_for_what_another_budget_or_a_person_stopped(bench: Sandbox, shop: list[Any]) -> None:
    """B5 C16"""
    overspend_together(bench, shop)
    bench.pause("t", note="holidays")
    bench.add("own", when="0 12 * * *", job="buy", max_cost="$0.50")
    bench.budgets.set("day", period="day", max_cost="$100")
    bench.run("own")
    bench.settle()
    assert bench.get("own").paused_by == "budget"
    shared, own = sorted(bench.approvals.list(), key=lambda asked: asked.schedule == "own")
    bench.approvals.approve(shared.id)
    assert [bench.get(name).state for name in ("s", "t", "own")] == ["active", "paused", "paused"]
    bench.approvals.approve(own.id)
    assert bench.get("own").state == "active"


def test_b5_the_others_are_asked_about_when_one_goes_on_by_hand(bench: Sandbox, shop: list[Any]) -> None:
    """B5: nobody is left waiting for an answer to a question that is void"""
    overspend_together(bench, shop)
    (asked,) = bench.approvals.list()
    other = "t" if asked.schedule == "s" else "s"
    bench.resume(asked.schedule)
    (again,) = bench.approvals.list()
    assert (again.schedule, again.request["budget"]) == (other, "day")
    bench.approvals.approve(again.id)
    assert bench.get(other).state == "active"


# -- a budget that changes


def test_a_new_budget_knows_what_was_spent_before(bench: Sandbox, shop: list[Any]) -> None:
    """B5: in this period"""
    shop[:] = ["$0.80"]
    bench.add("s", when=HOURLY, job="buy", max_cost="$0.80")
    bench.run_until(at("09:30"))
    bench.budgets.set("day", period="day", max_cost="$1")
    assert purse(bench).money == "$0.80"
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 over_budget"]


def test_a_budget_that_is_changed_knows_what_runs_hold(bench: Sandbox) -> None:
    """B5: what is promised to them stays promised, and what was granted stays granted"""
    seen: list[tuple[str, str]] = []

    @bench.job("change")
    def change(run: JobContext) -> None:
        bench.budgets.set("day", period="day", max_cost="$1.10")
        seen.append((purse(bench).money, purse(bench).money_reserved))
        bench.run("other")
        bench.engine.turn()

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="change", max_cost="$0.60")
    bench.add("other", when="0 12 * * *", job="work", max_cost="$0.60")
    bench.run_until(at("09:30"))
    assert seen == [("$0.00", "$0.60")]
    assert lines(bench, "other") == ["manual over_budget"]
    assert purse(bench).money_reserved == "$0.00"


def test_a_budget_that_is_dropped_holds_nobody(bench: Sandbox, shop: list[Any]) -> None:
    """B5"""
    shop[:] = ["$0.90"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=HOURLY, job="buy", max_cost="$0.90")
    bench.run_until(at("10:00"))
    assert bench.budgets.delete("day") is True
    assert bench.budgets.delete("day") is False
    bench.run_until(at("11:00"))
    assert [line.split()[1] for line in lines(bench)] == ["succeeded", "over_budget", "succeeded"]


def test_a_budget_dropped_while_a_run_holds_of_it(bench: Sandbox) -> None:
    """B5"""

    @bench.job("drop")
    def drop(run: JobContext) -> None:
        run.spend("$3")
        bench.budgets.delete("day")

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="drop")
    bench.run_until(at("09:30"))
    assert (lines(bench), bench.get("s").state, bench.budgets.list()) == (["09:00 succeeded"], "active", [])


# -- with other gates


def test_a_run_turned_down_by_a_check_reserves_nothing(bench: Sandbox) -> None:
    """B5 C6: money is set aside last of all"""
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=HOURLY, job="work", pre_check="false", max_cost="$0.80")
    bench.add("t", when=HOURLY, job="work", approval="owner_approve", max_cost="$0.80")
    bench.run_until(at("09:00"))
    (budget,) = bench.budgets.list()
    assert {used.money_reserved for used in budget.usage} <= {"$0.00"}


def test_money_that_is_gone_when_a_person_says_yes(bench: Sandbox, shop: list[Any]) -> None:
    """B5 V6: the run is over, with the reason"""
    shop[:] = ["$0.80"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="work", approval="owner_approve", max_cost="$0.50")
    bench.add("t", when="10 9 * * *", job="buy", max_cost="$0.80")
    bench.run_until(at("09:30"))
    bench.approvals.approve(bench.approvals.list()[0].id)
    bench.settle()
    assert lines(bench) == ["09:00 over_budget"]


def test_a_retry_needs_money_too(bench: Sandbox) -> None:
    """B5 B8"""

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        run.spend("$0.60")
        raise ValueError

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="buy", retries=3, retry_delay="1m")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 over_budget"]
    assert (last(bench).attempt, purse(bench).money, purse(bench).money_reserved) == (1, "$0.60", "$0.00")


# -- what a job tells


@pytest.mark.parametrize(
    "words", [{"money": "2"}, {"money": "-$1"}, {"money": "5 XYZ"}, {"tokens": 1.5}, {"tokens": -5}, {"tokens": 10**30},
              {"model": "m", "input": -1}, {"model": "m", "output": 0.5}]
)  # fmt: skip
def test_what_nobody_can_spend_is_the_jobs_failure(bench: Sandbox, words: dict[str, Any]) -> None:
    """B5 H2: and stops nobody else"""
    bench.job("tell")(lambda run: run.spend(**words))
    bench.add("s", when=HOURLY, job="tell")
    bench.add("t", when=HOURLY, job="work")
    bench.clock.advance_to(at("09:00"))
    for _ in range(6):
        bench.engine.run_once()
    assert (lines(bench), lines(bench, "t")) == (["09:00 failed"], ["09:00 succeeded"])


def test_money_is_reckoned_by_the_models_price(bench: Sandbox) -> None:
    """B5: a table that people can edit"""
    bench.prices.set("m-1", input="$2", output="$10")
    bench.budgets.set("day", period="day", max_cost="$10")
    bench.job("talk")(lambda run: run.spend(model="m-1", input=100_000, output=10_000))
    bench.add("s", when="0 9 * * *", job="talk")
    bench.run_until(at("09:00"))
    assert (purse(bench).money, purse(bench).tokens) == ("$0.30", 110_000)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"period": "day"}, "max_cost"),
        ({"period": "day", "max_cost": "5 XYZ"}, "max_cost"),
        ({"period": "day", "max_cost": "$0"}, "max_cost"),
        ({"period": "week", "max_cost": "$1"}, "period"),
        ({"period": "day", "max_cost": "$1", "scope": "galaxy"}, "scope"),
        ({"period": "day", "max_cost": "$1", "of": "scout"}, "of"),
    ],
)
def test_a_bad_budget_is_refused(bench: Sandbox, words: dict[str, Any], field: str) -> None:
    """B5: nothing is written"""
    with pytest.raises(InvalidInput) as caught:
        bench.budgets.set("day", **words)
    assert (caught.value.field, bool(caught.value.hint)) == (field, True)
    assert bench.budgets.list() == []


def test_b5_a_budget_warns_once_before_it_is_spent(bench: Sandbox, shop: list[Any]) -> None:
    """B5: at its share, 80 percent by default, and again in the next period"""
    shop[:] = ["$0.30"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.budgets.set("half", period="day", max_cost="$1", warn_at=50)
    bench.budgets.set("quiet", period="day", max_cost="$1", warn_at=0)
    bench.add("s", when=HOURLY, job="buy")
    bench.run_until(at("10:30"))
    assert [event["budget"] for event in told(bench, "budget.warning")] == ["half"]
    bench.run_until(at("11:30"))
    warned = told(bench, "budget.warning")
    assert [(event["budget"], event["spent"]) for event in warned] == [
        ("half", "$0.60 of $1.00"), ("day", "$0.90 of $1.00")
    ]  # fmt: skip
    event = bench.events.list(types=["budget.warning"])[-1]
    stored = StoredEvent(1, 1, 1, 0, "budget.warning", 1, 1, orjson.dumps(event.data).decode(), b"")
    (step,) = decide(stored, event.data, [], lambda trouble: 0, 5)
    assert step.tell
    assert step.incident.summary == 'Budget "day" has reached 80 % in 2026-03-27: $0.90 of $1.00.'
    assert [one.action for one in look_again(step.incident, 90_000)] == ["resolved"]
    bench.run_until(at("11:00", day=28))
    assert [event["period"] for event in told(bench, "budget.warning")][2:] == ["2026-03-28", "2026-03-28"]
