"""Every legal change of a run, by name."""

from __future__ import annotations

import re

import pytest

from matins.engine.transitions import ALL, INITIAL_STATES, SUSPEND, Transition
from matins.model.run import RunState


@pytest.mark.parametrize("transition", ALL, ids=lambda t: t.event)
def test_nothing_leaves_an_end(transition: Transition) -> None:
    """B1: terminal states never change"""
    assert transition.low <= transition.high < RunState.SUCCEEDED


@pytest.mark.parametrize("transition", ALL, ids=lambda t: t.event)
def test_a_change_changes_something(transition: Transition) -> None:
    """B1"""
    assert transition is SUSPEND or not transition.low == transition.high == transition.target
    assert re.fullmatch(r"run\.[a-z_]+", transition.event)


def test_every_live_state_can_be_reached_and_left() -> None:
    """B1: after faults stop, every run becomes terminal"""
    reached = {transition.target for transition in ALL} | set(INITIAL_STATES)
    live = {state for state in RunState if state.live}
    assert live <= reached
    over = set()
    grown: set[RunState] = {state for state in RunState if not state.live}
    while grown != over:
        over = set(grown)
        grown |= {state for t in ALL for state in live if t.low <= state <= t.high and t.target in over}
    assert live <= over


def test_an_attempt_begins_in_one_way_only() -> None:
    """B1: one dispatch for one claim"""
    assert [t.name for t in ALL if t.target is RunState.STARTING] == ["started"]


def test_runs_are_born_with_an_event() -> None:
    """B1"""
    assert set(INITIAL_STATES) == {
        RunState.WAITING,
        RunState.OVER_BUDGET,
        RunState.READY,
        RunState.QUEUED,
        RunState.STARTING,
        RunState.SKIPPED,
        RunState.MISSED,
    }
    assert INITIAL_STATES[RunState.MISSED] == "schedule.missed"


def test_words_of_states() -> None:
    """B1"""
    assert RunState.OVER_BUDGET.label == "over_budget"
    assert RunState.HELD.live
    assert not RunState.SUCCEEDED.live
