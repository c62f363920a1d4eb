"""Money that was spent beyond a budget, and budgets that change, on every store. Rows B5, C16, C10, B1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate_records import at, last, lines, purse, told

from matins.errors import InvalidInput
from matins.executors.python import JobRun
from matins.testing import Bench

HOURLY = "0 * * * *"


# -- overspent


@pytest.fixture
def overspent(bench: Bench, shop: list[Any]) -> Bench:
    """At 09:00 a run was taken to need $0.50 of the day's $1, and spent $1.30; it is 09:30."""
    shop[:] = ["$1.30", "$0.10"]
    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when=HOURLY, do="buy")
    bench.run_until(at("09:30"))
    return bench


def test_b5_a_breach_pauses_and_asks(overspent: Bench) -> None:
    """B5"""
    assert lines(overspent) == ["09:00 succeeded"]
    shown = overspent.get("s")
    assert (shown.state, shown.paused_by) == ("paused", "budget")
    assert 'budget "day" is overspent for 2026-03-27' in str(shown.note)
    (question,) = overspent.approvals()
    place = {"budget": "day", "whose": "all", "period": "2026-03-27"}
    assert (question.kind, {key: question.request[key] for key in place}) == ("budget", place)
    assert [event["budget"] for event in told(overspent, "budget.exceeded")] == ["day"]


def test_b5_yes_grants_as_much_again(overspent: Bench) -> None:
    """B5: for that period, and goes on"""
    overspent.edit("s", max_cost="$0.20")
    overspent.approve(overspent.approvals()[0].id)
    assert (overspent.get("s").state, purse(overspent).money) == ("active", 300_000)
    overspent.run_until(at("16:00"))
    assert [line.split()[1] for line in lines(overspent)[1:]] == [*["succeeded"] * 6, "over_budget"]
    overspent.run_until(at("00:00", day=28))
    assert lines(overspent)[-1] == "00:00 succeeded"


def test_b5_no_leaves_it_paused(overspent: Bench) -> None:
    """B5: until somebody resumes it"""
    overspent.deny(overspent.approvals()[0].id)
    overspent.run_until(at("12:00", day=28))
    assert (overspent.get("s").state, lines(overspent)) == ("paused", ["09:00 succeeded"])
    overspent.edit("s", max_cost="$0.20")
    overspent.resume("s")
    overspent.run_until(at("13:00", day=28))
    assert lines(overspent)[1:] == ["13:00 succeeded"]


def test_b5_nobody_answers(overspent: Bench) -> None:
    """B5: it stays paused"""
    overspent.run_until("2026-04-10T00:00:00Z")
    assert (overspent.approvals(), overspent.get("s").state) == ([], "paused")


def test_b5_the_question_and_the_pause_survive_a_restart(restart: Callable[..., Bench]) -> None:
    """B5"""
    first = restart()
    first.job("buy")(lambda run: run.spend("$3"))
    first.set_budget("day", per="day", money="$1")
    first.add("s", when=HOURLY, do="buy")
    first.run_until(at("09:30"))
    second = restart()
    second.run_until(at("10:30"))
    assert (second.get("s").state, len(second.approvals())) == ("paused", 1)
    second.approve(second.approvals()[0].id)
    assert second.get("s").state == "active"


def test_b5_other_schedules_are_refused_not_paused(overspent: Bench) -> None:
    """B5: they have spent nothing"""
    overspent.add("t", when=HOURLY, do="work")
    overspent.run_until(at("10:00"))
    assert (lines(overspent, "t"), overspent.get("t").state) == (["10:00 over_budget"], "active")
    assert len(overspent.approvals()) == 1


def test_c16_a_yes_about_money_does_not_lift_a_persons_pause(overspent: Bench) -> None:
    """C16 C10 B5"""
    overspent.pause("s", note="mine")
    overspent.approve(overspent.approvals()[0].id)
    assert (overspent.get("s").state, overspent.get("s").note) == ("paused", "mine")


def test_c16_a_breach_does_not_take_over_a_persons_pause(bench: Bench) -> None:
    """C16 C10 B5: it is asked all the same"""

    @bench.job("buy")
    def buy(run: JobRun) -> None:
        bench.pause("s", note="mine")
        run.spend("$3")

    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when=HOURLY, do="buy")
    bench.run_until(at("09:30"))
    assert (bench.get("s").paused_by, bench.get("s").note) == ("owner", "mine")
    bench.approve(bench.approvals()[0].id)
    assert bench.get("s").state == "paused"


def test_b5_several_at_once_ask_once(bench: Bench, shop: list[Any]) -> None:
    """B5: a person is not asked the same twice, and grants it once"""
    shop[:] = ["$1.10"]
    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when="0 12 * * *", do="buy", overlap="allow")
    for _ in range(2):
        bench.run("s")
    bench.settle()
    assert [run.state.word for run in bench.runs("s")] == ["succeeded", "succeeded"]
    assert (bench.get("s").paused_by, len(bench.approvals())) == ("budget", 1)


def test_b5_the_question_outlives_the_run_that_led_to_it(bench: Bench) -> None:
    """B5 V6: the schedule is paused until somebody answers"""

    @bench.job("buy")
    def buy(run: JobRun) -> None:
        run.spend("$3")
        raise ValueError

    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when=HOURLY, do="buy", retries=3, approval="owner_approve")
    bench.run_until(at("09:00"))
    bench.approve(bench.approvals()[0].id)
    bench.settle()
    assert bench.get("s").paused_by == "budget"
    bench.cancel(bench.runs("s")[0].id)
    bench.approve(bench.approvals()[0].id)
    assert bench.get("s").state == "active"


def overspend_together(bench: Bench, shop: list[Any]) -> None:
    """Two schedules draw on one budget, and both find that it is overspent."""
    shop[:] = ["$1.10"]
    bench.set_budget("day", per="day", money="$1")
    for name in ("s", "t"):
        bench.add(name, when="0 12 * * *", do="buy")
        bench.run(name)
    bench.settle()
    assert [bench.get(name).paused_by for name in ("s", "t")] == ["budget", "budget"]


def test_b5_a_budget_that_several_share_is_asked_about_once(bench: Bench, shop: list[Any]) -> None:
    """B5: one yes, granted once, lets all of them go on"""
    overspend_together(bench, shop)
    (asked,) = bench.approvals()
    before = purse(bench).money
    bench.approve(asked.id)
    assert [bench.get(name).state for name in ("s", "t")] == ["active", "active"]
    assert purse(bench).money == before - 1_000_000


def test_b5_no_yes_for_what_another_budget_or_a_person_stopped(bench: Bench, shop: list[Any]) -> None:
    """B5 C16"""
    overspend_together(bench, shop)
    bench.pause("t", note="holidays")
    bench.add("own", when="0 12 * * *", do="buy", max_cost="$0.50")
    bench.set_budget("day", per="day", money="$100")
    bench.run("own")
    bench.settle()
    assert bench.get("own").paused_by == "budget"
    shared, own = sorted(bench.approvals(), key=lambda asked: asked.schedule == "own")
    bench.approve(shared.id)
    assert [bench.get(name).state for name in ("s", "t", "own")] == ["active", "paused", "paused"]
    bench.approve(own.id)
    assert bench.get("own").state == "active"


def test_b5_the_others_are_asked_about_when_one_goes_on_by_hand(bench: Bench, shop: list[Any]) -> None:
    """B5: nobody is left waiting for an answer to a question that is void"""
    overspend_together(bench, shop)
    (asked,) = bench.approvals()
    other = "t" if asked.schedule == "s" else "s"
    bench.resume(asked.schedule)
    (again,) = bench.approvals()
    assert (again.schedule, again.request["budget"]) == (other, "day")
    bench.approve(again.id)
    assert bench.get(other).state == "active"


# -- a budget that changes


def test_a_new_budget_knows_what_was_spent_before(bench: Bench, shop: list[Any]) -> None:
    """B5: in this period"""
    shop[:] = ["$0.80"]
    bench.add("s", when=HOURLY, do="buy", max_cost="$0.80")
    bench.run_until(at("09:30"))
    bench.set_budget("day", per="day", money="$1")
    assert purse(bench).money == 800_000
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 over_budget"]


def test_a_budget_that_is_changed_knows_what_runs_hold(bench: Bench) -> None:
    """B5: what is promised to them stays promised, and what was granted stays granted"""
    seen: list[tuple[int, int]] = []

    @bench.job("change")
    def change(run: JobRun) -> None:
        bench.set_budget("day", per="day", money="$1.10")
        seen.append((purse(bench).money, purse(bench).money_reserved))
        bench.run("other")
        bench.engine.turn()

    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when="0 9 * * *", do="change", max_cost="$0.60")
    bench.add("other", when="0 12 * * *", do="work", max_cost="$0.60")
    bench.run_until(at("09:30"))
    assert seen == [(0, 600_000)]
    assert lines(bench, "other") == ["manual over_budget"]
    assert purse(bench).money_reserved == 0


def test_a_budget_that_is_dropped_holds_nobody(bench: Bench, shop: list[Any]) -> None:
    """B5"""
    shop[:] = ["$0.90"]
    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when=HOURLY, do="buy", max_cost="$0.90")
    bench.run_until(at("10:00"))
    assert bench.drop_budget("day") is True
    assert bench.drop_budget("day") is False
    bench.run_until(at("11:00"))
    assert [line.split()[1] for line in lines(bench)] == ["succeeded", "over_budget", "succeeded"]


def test_a_budget_dropped_while_a_run_holds_of_it(bench: Bench) -> None:
    """B5"""

    @bench.job("drop")
    def drop(run: JobRun) -> None:
        run.spend("$3")
        bench.drop_budget("day")

    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when="0 9 * * *", do="drop")
    bench.run_until(at("09:30"))
    assert (lines(bench), bench.get("s").state, bench.budgets()) == (["09:00 succeeded"], "active", [])


# -- with other gates


def test_a_run_turned_down_by_a_check_reserves_nothing(bench: Bench) -> None:
    """B5 C6: money is set aside last of all"""
    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when=HOURLY, do="work", pre_check="false", max_cost="$0.80")
    bench.add("t", when=HOURLY, do="work", approval="owner_approve", max_cost="$0.80")
    bench.run_until(at("09:00"))
    ((_, purses),) = bench.budgets()
    assert sum(p.money_reserved for p in purses) == 0


def test_money_that_is_gone_when_a_person_says_yes(bench: Bench, shop: list[Any]) -> None:
    """B5 V6: the run is over, with the reason"""
    shop[:] = ["$0.80"]
    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when="0 9 * * *", do="work", approval="owner_approve", max_cost="$0.50")
    bench.add("t", when="10 9 * * *", do="buy", max_cost="$0.80")
    bench.run_until(at("09:30"))
    bench.approve(bench.approvals()[0].id)
    bench.settle()
    assert lines(bench) == ["09:00 over_budget"]


def test_a_retry_needs_money_too(bench: Bench) -> None:
    """B5 B8"""

    @bench.job("buy")
    def buy(run: JobRun) -> None:
        run.spend("$0.60")
        raise ValueError

    bench.set_budget("day", per="day", money="$1")
    bench.add("s", when="0 9 * * *", do="buy", retries=3, retry="1m")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 over_budget"]
    assert (last(bench).attempt, purse(bench).money, purse(bench).money_reserved) == (1, 600_000, 0)


# -- what a job tells


@pytest.mark.parametrize(
    "words", [{"money": "2"}, {"money": "-$1"}, {"money": "5 XYZ"}, {"tokens": 1.5}, {"tokens": -5}, {"tokens": 10**30},
              {"model": "m", "input": -1}, {"model": "m", "output": 0.5}]
)  # fmt: skip
def test_what_nobody_can_spend_is_the_jobs_failure(bench: Bench, words: dict[str, Any]) -> None:
    """B5 H2: and stops nobody else"""
    bench.job("tell")(lambda run: run.spend(**words))
    bench.add("s", when=HOURLY, do="tell")
    bench.add("t", when=HOURLY, do="work")
    bench.clock.advance_to(at("09:00"))
    for _ in range(6):
        bench.engine.run_once()
    assert (lines(bench), lines(bench, "t")) == (["09:00 failed"], ["09:00 succeeded"])


def test_money_is_reckoned_by_the_models_price(bench: Bench) -> None:
    """B5: a table that people can edit"""
    bench.set_price("m-1", input="$2", output="$10")
    bench.set_budget("day", per="day", money="$10")
    bench.job("talk")(lambda run: run.spend(model="m-1", input=100_000, output=10_000))
    bench.add("s", when="0 9 * * *", do="talk")
    bench.run_until(at("09:00"))
    assert (purse(bench).money, purse(bench).tokens) == (300_000, 110_000)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"per": "day"}, "money"),
        ({"per": "day", "money": "5 XYZ"}, "money"),
        ({"per": "day", "money": "$0"}, "money"),
        ({"per": "week", "money": "$1"}, "per"),
        ({"per": "day", "money": "$1", "scope": "galaxy"}, "scope"),
        ({"per": "day", "money": "$1", "of": "scout"}, "of"),
    ],
)
def test_a_bad_budget_is_refused(bench: Bench, words: dict[str, Any], field: str) -> None:
    """B5: nothing is written"""
    with pytest.raises(InvalidInput) as caught:
        bench.set_budget("day", **words)
    assert (caught.value.field, bool(caught.value.hint)) == (field, True)
    assert bench.budgets() == []
