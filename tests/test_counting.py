"""Numbers of things."""

from __future__ import annotations

import pytest

from matins.model.words import counted, runs_per_period


@pytest.mark.parametrize(("number", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1440, "1,440 runs")])
def test_one_run_and_many_runs(number: int, text: str) -> None:
    assert counted(number, "run") == text
    assert counted(number, "run is", "runs are").endswith("is" if number == 1 else "are")


@pytest.mark.parametrize(
    ("per_day", "text"),
    [(5 / 7, "5 runs a week"), (1, "1 run a day"), (1440, "1,440 runs a day"), (1 / 30, "1 run a month"), (0, "no run"),
     (2 / 365, "2 runs a year")],
)  # fmt: skip
def test_runs_in_the_period_in_which_they_are_a_whole_number(per_day: float, text: str) -> None:
    assert runs_per_period(per_day) == text
