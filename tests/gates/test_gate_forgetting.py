"""What gates keep is forgotten with the history, and nothing of it that can still have an effect. Rows S7, B5, V6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate_records import START, at

from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.testing import Sandbox, instant

DAY = 86_400_000
SCOUT = Principal("agent", "scout")
States = ("pending", "approved", "used", "denied", "expired", "void")


@pytest.fixture
def bench(url: str, open_bench: Callable[..., Sandbox]) -> Sandbox:
    return open_bench(url, history_days=10)


def questions(bench: Sandbox) -> list[str]:
    return sorted(f"{asked.schedule} {asked.state}" for state in States for asked in bench.approvals.list(state=state))


def prune(bench: Sandbox, days: int) -> None:
    bench.engine.maintenance.prune(instant(START) + days * DAY)


def test_questions_about_schedules_are_forgotten_when_they_are_decided(bench: Sandbox) -> None:
    """V6 S7: the newest of all stays, so that no other question bears its number; and the approval that is in force"""
    agent = bench.acting_as(SCOUT)
    for name in ("yes", "no", "open", "last"):
        agent.add(name, when="0 12 * * *", job="work")
    asked = {approval.schedule: approval.id for approval in bench.approvals.list()}
    bench.approvals.approve(asked["yes"])
    bench.approvals.deny(asked["no"])
    bench.approvals.deny(asked["last"])
    prune(bench, 9)
    assert questions(bench) == ["last denied", "no denied", "open pending", "yes used"]
    prune(bench, 11)
    assert questions(bench) == ["last denied", "open pending", "yes used"]
    assert bench.get("yes").state == "active"
    bench.approvals.approve(asked["open"])


@pytest.mark.parametrize("settings", [{"history_days": 10}, {"history_days": None, "history_runs": 0}], ids=str)
def test_a_number_is_given_once(url: str, open_bench: Callable[..., Sandbox], settings: dict[str, Any]) -> None:
    """V6 S7: who looked at one and answers late does not answer another"""
    bench = open_bench(url, **settings)
    bench.add("s", when="0 9 * * *", job="work", approval="owner_approve", approval_timeout="1h")
    bench.run_until(at("09:30"))
    (looked_at,) = bench.approvals.list()
    bench.approvals.deny(looked_at.id)
    bench.engine.maintenance.prune(instant(START) + 30 * DAY)
    assert bench.runs.list(schedule="s") == []
    bench.run_until(at("09:30", 28))
    (other,) = bench.approvals.list()
    assert other.id != looked_at.id
    with pytest.raises(InvalidInput):
        bench.approvals.approve(looked_at.id)


def test_a_question_about_money_outlives_its_run(url: str, open_bench: Callable[..., Sandbox]) -> None:
    """B5 S7: the schedule is paused until it is answered"""
    bench = open_bench(url, history_days=None, history_runs=0)
    bench.job("buy")(lambda run: run.spend("$3"))
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.add("s", when="0 9 * * *", job="buy")
    bench.run_until(at("09:30"))
    (asked,) = bench.approvals.list()
    bench.acting_as(SCOUT).add("later", when="0 12 * * *", job="work")
    prune(bench, 30)
    assert bench.runs.list(schedule="s") == []
    bench.approvals.approve(asked.id)
    assert bench.get("s").state == "active"


def test_purses_of_periods_that_are_over_are_forgotten(bench: Sandbox) -> None:
    """B5 S7: not before they are older than what is kept, and never that of a period that lasts"""
    bench.job("buy")(lambda run: run.spend("$0.10"))
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.budgets.set("month", period="month", max_cost="$9")
    bench.add("s", when="0 9 * * *", job="buy")
    bench.run_until(at("10:00", 31))
    assert periods(bench) == [f"2026-03-{day}" for day in range(27, 32)] + ["2026-03"]
    prune(bench, 14)  # what is kept begins on the 31st; days end at other times elsewhere
    assert periods(bench) == ["2026-03-29", "2026-03-30", "2026-03-31", "2026-03"]
    prune(bench, 26)
    assert periods(bench) == []


def periods(bench: Sandbox) -> list[str]:
    with bench._store.reading() as transaction:
        return [purse.period for purse in transaction.budget_usages("")]


def test_workers_that_stopped_are_forgotten(url: str, open_bench: Callable[..., Sandbox]) -> None:
    """S7: and the next one has a number of its own"""
    bench = open_bench(url, history_days=10)
    with bench._store.transaction(0) as transaction:
        numbers = [transaction.insert_worker(name, instant(START)) for name in ("gone", "last")]
        for number in numbers:
            assert transaction.stop_worker(number, instant(START))
    prune(bench, 11)
    with bench._store.transaction(0) as transaction:
        assert not transaction.stop_worker(numbers[0], 0)
        assert transaction.insert_worker("next", 0) > numbers[1]
        assert bench.engine.worker in {worker.id for worker in transaction.workers()}
        transaction.stop_worker(numbers[1] + 1, 0)
