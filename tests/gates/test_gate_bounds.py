"""What a run may still spend while it runs, on every store. Row B5."""

from __future__ import annotations

from typing import Any

import pytest
from gate_records import at, lines

from matins.executors.job_context import JobContext
from matins.runtime.spending import SpendingLimit
from matins.testing import Sandbox

OWN, OF_DAY = "allowed for one run", 'left in budget "day"'


@pytest.fixture
def seen(bench: Sandbox) -> list[list[SpendingLimit]]:
    """What bounds a run, as it stands at its beginning; its first attempt spends ten cents and fails."""
    found: list[list[SpendingLimit]] = []

    @bench.job("look")
    def look(run: JobContext) -> None:
        found.append(bench._loader.spending_limits(run._attempt))
        if run.attempt == 1:
            run.spend("$0.10", tokens=1_000)
            raise ValueError("no luck")

    return found


def add(bench: Sandbox, **words: Any) -> None:
    bench.add("s", when="0 9 * * *", job="look", retries=1, **words)
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 succeeded"]


def test_b5_what_other_attempts_have_spent_counts(bench: Sandbox, seen: list[list[SpendingLimit]]) -> None:
    """B5"""
    add(bench, max_cost="$0.60", max_tokens="50k")
    assert seen == [[SpendingLimit(600_000, 50_000, OWN)], [SpendingLimit(500_000, 49_000, OWN)]]


def test_b5_its_own_reservation_is_there_for_it(bench: Sandbox, seen: list[list[SpendingLimit]]) -> None:
    """B5: and what nobody has set aside; what is spent is not"""
    bench.budgets.set("day", period="day", max_cost="$1")
    add(bench)
    assert seen == [[SpendingLimit(1_000_000, None, OF_DAY)], [SpendingLimit(900_000, None, OF_DAY)]]


def test_b5_who_has_no_limit_has_no_bounds(bench: Sandbox, seen: list[list[SpendingLimit]]) -> None:
    """B5: a budget of others is none for it"""
    bench.budgets.set("day", scope="agent", of="herald", period="day", max_cost="$1")
    add(bench)
    assert seen == [[], []]
