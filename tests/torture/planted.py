"""Faults of Matins itself, planted in each process: the reckoning must notice them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from matins.delivery import answers
from matins.model.schedule import ScheduleDefinition
from matins.runtime import catalog


def forget_epochs(traced: Any) -> None:
    """Outcomes are taken from workers that were taken for dead."""
    traced.forget_epochs()


def ignore_hold(traced: Any) -> None:
    """A step without a word of its own does not hear that its schedule holds what is unknown."""
    of_step = catalog.of_step

    def deaf(definition: ScheduleDefinition, number: int) -> ScheduleDefinition:
        return replace(of_step(definition, number), on_unknown=definition.steps[number - 1].on_unknown)

    catalog.of_step = deaf


def forget_copies(traced: Any) -> None:
    """A part of an answer that was being sent when its engine died is sent as a first copy, under another key."""
    rows_now, key, number = answers._as_they_are, answers.part_key, count()
    answers._as_they_are = lambda *given: [row._replace(sending=None, again=0) for row in rows_now(*given)]
    answers.part_key = lambda *given: f"{key(*given)}-{next(number)}"


FAULTS: dict[str, Callable[[Any], None]] = {
    "no-epochs": forget_epochs, "steps-ignore-hold": ignore_hold, "copies-forgotten": forget_copies,
}  # fmt: skip
FAULTS_SEEN_AS = {"no-epochs": "stale_accepted", "steps-ignore-hold": "duplicated", "copies-forgotten": "duplicated"}
"""What the reckoning calls their effects."""
