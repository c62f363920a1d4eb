"""Budgets, on every store, with a clock that the test moves. Rows B5, B1."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from gate_records import at, evidence, last, lines, purse, told

from matins.api.results import BudgetUsage
from matins.errors import InvalidInput, OverBudget, RateLimited
from matins.executors.job_context import JobContext
from matins.testing import ManualClock, Sandbox, instant, iso

HOURLY = "0 * * * *"


# -- reserved before


def test_b5_the_cap_is_reserved_before_and_given_back_after(bench: Sandbox) -> None:
    """B5"""
    seen: list[BudgetUsage] = []

    @bench.job("look")
    def look(run: JobContext) -> None:
        run.spend("$0.40", tokens=1_000)
        seen.append(purse(bench))

    bench.budgets.set("day", period="day", max_cost="$1", max_tokens="1M")
    bench.add("s", when="0 9 * * *", job="look", max_cost="$0.60", max_tokens="50k")
    bench.run_until(at("09:30"))
    assert [(p.money, p.tokens, p.money_reserved, p.tokens_reserved) for p in seen] == [("$0.00", 0, "$0.60", 50_000)]
    after = purse(bench)
    assert (after.money, after.tokens, after.money_reserved, after.tokens_reserved) == ("$0.40", 1_000, "$0.00", 0)
    assert (after.of, after.period) == ("all", "2026-03-27")


def test_b5_without_a_cap_half_a_dollar_and_then_what_past_runs_kept_to(bench: Sandbox) -> None:
    """B5: 95 of 100"""
    reserved: list[str] = []
    spent = ["$0.10"] * 19 + ["$0.90"]

    @bench.job("look")
    def look(run: JobContext) -> None:
        reserved.append(purse(bench).money_reserved)
        run.spend(spent.pop(0) if spent else "$0.10")

    bench.budgets.set("day", period="day", max_cost="$100")
    bench.add("s", when="* * * * *", job="look")
    bench.run_until(at("08:21"))
    assert reserved == ["$0.50", *["$0.10"] * 20]
    bench.run_until(at("08:22"))
    assert len(reserved) == 22
    assert reserved[-1] == "$0.10"


def test_b5_what_does_not_fit_does_not_start(bench: Sandbox, shop: list[Any]) -> None:
    """B5 B1: with the budget that had no room"""
    shop[:] = ["$0.45"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=HOURLY, job="buy", max_cost="$0.50")
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 succeeded", "11:00 over_budget", "12:00 over_budget"]
    assert evidence(bench) == {
        "budget": "day", "whose": "all", "period": "day", "limit": "$1.00", "used": "$0.90", "wanted": "$0.50",
        "resets_at": instant(at("00:00", day=28)),
    }  # fmt: skip
    assert (purse(bench).money_reserved, bench.get("s").state) == ("$0.00", "active")
    assert [data["reason"] for data in told(bench, "run.over_budget")] == ["over_budget"] * 2


def test_b5_in_tokens_too(bench: Sandbox, shop: list[Any]) -> None:
    """B5"""
    shop[:] = [40_000]
    bench.budgets.set("day", period="day", max_tokens="100k")
    bench.add("s", when=HOURLY, job="buy", max_tokens="50k")
    bench.run_until(at("11:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 succeeded", "11:00 over_budget"]
    assert (evidence(bench)["used"], evidence(bench)["wanted"]) == ("80k", "50k")


def test_b5_runs_that_are_under_way_count(bench: Sandbox) -> None:
    """B5: what is promised to one is not there for another"""
    found: list[str] = []

    @bench.job("hold")
    def hold(run: JobContext) -> None:
        bench.run("other")
        bench.engine.turn()
        found.extend(lines(bench, "other"))

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="hold", max_cost="$0.60")
    bench.add("other", when="0 12 * * *", job="work", max_cost="$0.60")
    bench.run_until(at("09:30"))
    assert found == ["manual over_budget"]


def test_what_is_given_back_can_be_spent(bench: Sandbox, shop: list[Any]) -> None:
    """B5"""
    shop[:] = ["$0.10"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="*/10 * * * *", job="buy", max_cost="$0.90")
    bench.run_until(at("08:30"))
    assert [line.split()[1] for line in lines(bench)] == ["succeeded", "succeeded", "over_budget"]


@pytest.mark.parametrize("end", ["fail", "cancel", "limit"])
def test_nothing_stays_reserved_however_a_run_ends(bench: Sandbox, end: str) -> None:
    """B5 B6"""

    @bench.job("end")
    def ends(run: JobContext) -> None:
        run.spend("$0.10")
        if end == "limit" and run.attempt == 1 and bench.clock.now_ms() < instant(at("09:01")):
            raise RateLimited("anthropic")
        if end == "cancel":
            bench.runs.cancel(run.id)
        raise ValueError

    bench.budgets.set("day", period="day", max_cost="$10")
    bench.add("s", when="0 9 * * *", job="end", retries=1, retry_delay="1m")
    bench.run_until(at("10:00"))
    assert not last(bench).live
    tries = 1 if end == "cancel" else 3 if end == "limit" else 2
    assert (purse(bench).money, purse(bench).money_reserved) == (f"$0.{tries}0", "$0.00")


def test_a_run_that_was_lost_gives_back_what_it_held(restart: Callable[..., Sandbox]) -> None:
    """B5 B9: its worker died"""
    first = restart(lease_ms=1_000)
    first.budgets.set("day", period="day", max_cost="$1")
    first.add("s", when="0 9 * * *", job="work", max_cost="$0.80", on_unknown="hold")
    first.executor.submit = lambda batch: None  # type: ignore[method-assign]
    first.clock.advance_to(at("09:00"))
    first.engine.turn()
    assert (lines(first), purse(first).money_reserved) == (["09:00 held worker_lost"], "$0.80")
    second = restart(lease_ms=1_000)
    for _ in range(4):
        second.clock.advance(5_000)
        second.engine.turn()
    assert lines(second) == ["09:00 held worker_lost"]
    assert purse(second).money_reserved == "$0.80", "nobody knows yet what it spends"
    second.runs.resolve(last(second).id, "unknown")
    assert purse(second).money_reserved == "$0.00"


# -- whose and until when


@pytest.mark.parametrize(
    ("words", "poor"),
    [
        ({}, {"scout/s", "scout/t", "herald/s"}),
        ({"scope": "agent"}, {"scout/t"}),
        ({"scope": "agent", "of": "scout"}, {"scout/t"}),
        ({"scope": "agent", "of": "herald"}, set()),
        ({"scope": "schedule"}, set()),
        ({"scope": "schedule", "of": "scout/s"}, set()),
    ],
)
def test_b5_per_agent_per_schedule_and_all(bench: Sandbox, shop: list[Any], words: Any, poor: set[str]) -> None:
    """B5: scout/s has spent nearly all of it by 09:00"""
    shop[:] = ["$0.80"]
    bench.budgets.set("day", period="day", max_cost="$1", **words)
    bench.add("s", when="0 9,11 * * *", job="buy", agent="scout", max_cost="$0.80")
    bench.add("t", when="0 10 * * *", job="work", agent="scout", max_cost="$0.50")
    bench.add("s", when="0 10 * * *", job="work", agent="herald", max_cost="$0.50")
    bench.run_until(at("11:30"))
    found = {f"{s.agent}/{s.name}" for s in bench.list() if last(bench, f"{s.agent}/{s.name}").status == "over_budget"}
    holds_itself = {"scout/s"} if words.get("of") in (None, "scout", "scout/s") else set()
    assert found == poor | holds_itself


def test_b5_a_new_day_in_the_owners_zone(url: str, open_bench: Callable[..., Sandbox]) -> None:
    """B5: midnight in Tokyo is 15:00 UTC"""
    bench = open_bench(url, clock=ManualClock(at("08:00"), zone="Asia/Tokyo"))
    bench.job("buy")(lambda run: run.spend("$0.90"))
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=HOURLY, job="buy", max_cost="$0.90")
    bench.run_until(at("15:00"))
    assert lines(bench) == ["09:00 succeeded", *[f"{hour}:00 over_budget" for hour in range(10, 15)], "15:00 succeeded"]
    assert bench.runs.list(schedule="s")[1].evidence["resets_at"] == instant(at("15:00"))  # type: ignore[index]
    assert purse(bench).period == "2026-03-28"


def test_b5_a_month(url: str, open_bench: Callable[..., Sandbox]) -> None:
    """B5"""
    bench = open_bench(url, clock=ManualClock("2026-03-30T08:00:00Z"))
    bench.job("buy")(lambda run: run.spend("$0.90"))
    bench.budgets.set("month", period="month", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="buy", max_cost="$0.90")
    bench.run_until("2026-04-02T10:00:00Z")
    assert [line.split()[1] for line in lines(bench)] == ["succeeded", "over_budget", "succeeded", "over_budget"]
    assert purse(bench, "month").period == "2026-04"


def test_b5_a_run_over_midnight_is_spent_once(url: str, open_bench: Callable[..., Sandbox]) -> None:
    """B5: on the day on which it was set aside"""
    bench = open_bench(url, clock=ManualClock(at("23:00")))

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        bench.clock.advance_to(at("00:30", day=28))
        run.spend("$0.40")

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="50 23 * * *", job="buy", max_cost="$0.50")
    bench.run_until(at("00:40", day=28))
    with bench._store.reading() as transaction:
        found = {p.period: (p.money, p.money_reserved) for p in transaction.budget_usages("2026-03-27")}
    assert found.pop("2026-03-27") == (400_000, 0)
    assert sum(money + reserved for money, reserved in found.values()) == 0


def test_b5_an_overspent_night_is_told_in_the_morning(url: str, open_bench: Callable[..., Sandbox]) -> None:
    """B5: whatever day it is by then"""
    bench = open_bench(url, clock=ManualClock(at("23:00")))

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        bench.clock.advance_to(at("00:30", day=28))
        run.spend("$4")

    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="50 23 * * *", job="buy")
    bench.run_until(at("00:40", day=28))
    assert (bench.get("s").state, bench.get("s").paused_by) == ("paused", "budget")
    (question,) = bench.approvals.list()
    assert question.request["period"] == "2026-03-27"


def test_two_budgets_hold_at_once(bench: Sandbox, shop: list[Any]) -> None:
    """B5: all of them or none"""
    shop[:] = ["$0.40"]
    bench.budgets.set("a-day", period="day", max_cost="$1")
    bench.budgets.set("b-own", period="day", max_cost="$0.50", scope="schedule")
    bench.add("s", when=HOURLY, job="buy", max_cost="$0.40")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 over_budget"]
    assert evidence(bench)["budget"] == "b-own"
    assert purse(bench, "a-day").money_reserved == "$0.00"


# -- a run's own cap


def test_b5_a_run_is_ended_at_its_cap(bench: Sandbox) -> None:
    """B5: it pauses its schedule, and people are asked"""
    reached: list[str] = []

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        for n in range(10):
            reached.append(f"call {n}")
            run.spend("$0.20")

    bench.add("s", when=HOURLY, job="buy", max_cost="$0.50", retries=3)
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 over_budget"]
    assert reached == ["call 0", "call 1", "call 2"]
    shown = bench.get("s")
    assert (shown.state, shown.paused_by, shown.failures) == ("paused", "budget", 0)
    assert "$0.60" in str(shown.note)
    (question,) = bench.approvals.list()
    assert (question.kind, question.run_id, question.requested_by) == ("budget", last(bench).id, "matins")
    (event,) = told(bench, "budget.exceeded")
    assert event["spent"] == "$0.60"


def test_b5_exactly_the_cap_is_fine(bench: Sandbox, shop: list[Any]) -> None:
    """B5"""
    shop[:] = ["$0.50"]
    bench.add("s", when=HOURLY, job="buy", max_cost="$0.50")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 succeeded"]


def test_b5_a_job_that_swallows_the_end_is_found_out(bench: Sandbox) -> None:
    """B5"""

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        with suppress(OverBudget):
            run.spend("$2")

    bench.add("s", when=HOURLY, job="buy", max_cost="$0.50")
    bench.run_until(at("11:00"))
    assert lines(bench) == ["09:00 succeeded"]
    assert (bench.get("s").paused_by, len(bench.approvals.list())) == ("budget", 1)


def test_b5_the_cap_is_for_the_run_not_for_each_attempt(bench: Sandbox) -> None:
    """B5 B8"""
    attempts: list[int] = []

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        attempts.append(run.attempt)
        run.spend("$0.20")
        raise ValueError

    bench.add("s", when="0 9 * * *", job="buy", max_cost="$0.50", retries=9, retry_delay="1s")
    bench.run_until(at("12:00"))
    assert (lines(bench), attempts) == (["09:00 over_budget"], [1, 2, 3])
    assert bench.get("s").paused_by == "budget"


def test_a_capped_interval_goes_on_when_it_is_let(bench: Sandbox, shop: list[Any]) -> None:
    """B5 H3: none can wedge it"""
    shop[:] = ["$2", "$0.10"]
    bench.add("s", when="1h", job="buy", max_cost="$0.50")
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 over_budget"]
    bench.approvals.approve(bench.approvals.list()[0].id)
    assert (bench.get("s").state, iso(bench.get("s").due_at)) == ("active", at("13:00"))
    bench.run_until(at("13:00"))
    assert lines(bench)[1:] == ["13:00 succeeded"]


# -- what has no next slot


def test_b5_a_one_shot_waits_for_the_next_period(bench: Sandbox, shop: list[Any]) -> None:
    """B5 H3: it would never come again; the evidence says what it waits for"""
    shop[:] = ["$0.90"]
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="buy", max_cost="$0.90")
    bench.add("once", when=at("10:00"), job="buy", max_cost="$0.90")
    bench.run_until(at("23:59"))
    assert lines(bench, "once") == ["10:00 over_budget"]
    assert evidence(bench, "once")["resets_at"] == instant(at("00:00", 28))
    bench.run_until(at("00:00", 28))
    assert lines(bench, "once") == ["10:00 succeeded"]


def test_b5_a_one_shot_does_not_wait_beyond_its_grace(bench: Sandbox, shop: list[Any]) -> None:
    """B5"""
    bench.budgets.set("month", period="month", max_cost="$1", scope="agent")
    bench.budgets.set("day", period="day", max_cost="$1", scope="schedule", of="/day")
    bench.add("month", when=at("10:00"), job="buy", max_cost="$2", agent="x")
    bench.add("day", when=at("10:00"), job="buy", max_cost="$2", grace="1h")
    bench.run_until(at("11:00"))
    for name in ("month", "day"):
        assert last(bench, name).state == "over_budget"


def test_b5_a_one_shot_finds_its_money_gone_when_it_would_start(bench: Sandbox, shop: list[Any]) -> None:
    """B5: two in one turn, and money for one of them"""
    bench.budgets.set("day", period="day", max_cost="$1")
    for name in ("a", "b"):
        bench.add(name, when=at("10:00"), job="buy", max_cost="$0.95")
    bench.run_until(at("10:00"))
    assert sorted(lines(bench, "a") + lines(bench, "b")) == ["10:00 over_budget", "10:00 succeeded"]
    bench.run_until(at("00:00", 28))
    assert lines(bench, "a") + lines(bench, "b") == ["10:00 succeeded"] * 2


@pytest.mark.parametrize("how", ["more", "none"])
def test_b5_a_one_shot_goes_on_when_there_is_money_again(bench: Sandbox, shop: list[Any], how: str) -> None:
    """B5: at once"""
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when=at("10:00"), job="buy", max_cost="$2")
    bench.run_until(at("10:30"))
    assert lines(bench) == ["10:00 over_budget"]
    bench.budgets.set("day", period="day", max_cost="$5") if how == "more" else bench.budgets.delete("day")
    bench.settle()
    assert lines(bench) == ["10:00 succeeded"]


def test_b5_a_rate_that_is_no_rate_is_not_set(bench: Sandbox) -> None:
    """B5: nor is another worth of the dollar itself"""
    for currency, usd in (("USD", 2), ("EUR", 0), ("eur", 1.1)):
        with pytest.raises(InvalidInput):
            bench.rates.set(currency, usd=usd)
    bench.rates.set("EUR", usd=1.1)
    assert [(rate.currency, rate.usd) for rate in bench.rates.list()] == [("EUR", 1.1), ("USD", 1.0)]


def test_b5_a_budget_of_a_label(bench: Sandbox) -> None:
    """B5 V3: schedules with the label share it, others do not; what was spent before it counts"""
    bench.job("pays")(lambda run: run.spend("$0.10"))
    for name, labels in (("a", {"team": "ops"}), ("b", {"team": "ops", "env": "prod"}), ("c", {"team": "dev"})):
        bench.add(name, when="0 9 * * *", job="pays", max_cost="$0.10", labels=labels)
    bench.run("a")
    bench.settle()
    bench.budgets.set("ops", scope="label", of="team=ops", period="day", max_cost="$0.25")
    assert [(one.of, one.money) for one in bench.budgets.get("ops").usage] == [("label:team=ops", "$0.10")]
    states: dict[str, str] = {}
    for name in ("b", "b", "c"):
        run = bench.run(name)
        bench.settle()
        states[name] = bench.runs.get(run.id).status
    assert states == {"b": "over_budget", "c": "succeeded"}
    bench.edit("b", labels={"team": "dev"})
    bench.run("b")
    bench.settle()
    assert bench.budgets.get("ops").usage[0].money == "$0.20"
    for of, message in (
        (None, '"of" is missing'),
        ("ops", "must name a label as key=value"),
        ("team=", "as key=value"),
    ):
        with pytest.raises(InvalidInput, match=message):
            bench.budgets.set("x", scope="label", of=of, period="day", max_cost="$1")
