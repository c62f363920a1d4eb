"""Selectors; filters of lists.

A selector: which schedules a list, an action, a budget or a rule is about.

Terms are joined by AND, the values of one term by OR. `engine.selectors` has the texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from matins.model.overview import ScheduleTab

LABEL = "label."
"""What the name of a label follows in the key of a term."""
ANY = "*"
KEYS = ("name", "agent", "state", "label.KEY", "text", "pause")
PLAIN_KEYS = ("name", "agent", "state", "text", "pause")


class Value(NamedTuple):
    text: str
    """With `*` for any text in a pattern."""
    exact: bool = True
    """False for a pattern."""


class Term(NamedTuple):
    key: str
    """One of `KEYS`. The name of a label is written out: `label.team`."""
    values: tuple[Value, ...]
    negated: bool = False


class Selector(NamedTuple):
    terms: tuple[Term, ...] = ()
    """None of them for all schedules."""


ALL = Selector()


class ScheduleFilter(NamedTuple):
    selector: Selector = ALL
    tab: ScheduleTab = "all"
    reader: str | None = None
    """The agent that asks, if it may look into the settings of its own schedules only."""
    deleted: bool = False


class SearchWords(NamedTuple):
    """A run is found by all of these: words by their beginnings, phrases as they are written."""

    words: tuple[str, ...]
    phrases: tuple[str, ...] = ()
    """Phrases, in lower case."""


class RunQuery(NamedTuple):
    """Which runs a list, or an action on many of them, is about, as people ask for them."""

    schedule: str | None = None
    agent: str | None = None
    select: Selector | None = None
    state: tuple[str, ...] | None = None
    reason: str | None = None
    text: str | None = None
    min_cost: str | None = None
    min_duration: str | None = None
    since: int | None = None
    until: int | None = None


class RunFilter(NamedTuple):
    schedule_id: int | None = None
    agent: str | None = None
    states: int | None = None
    """A bit for each state; None for all of them."""
    reason: str | None = None
    search: SearchWords | None = None
    """What they said."""
    min_cost: int | None = None
    """Lowest cost, in micro-dollars, with that of the steps."""
    started_before: int | None = None
    """`min_duration` ago, for those that still run."""
    min_duration: int | None = None
    low: int = 0
    """The lowest id."""
    selector: Selector = ALL
    """Selects the schedules of the runs."""
    reader: str | None = None
    """The agent that asks, if it may look into its own runs only."""


class Selectable(NamedTuple):
    """What a selector asks of a schedule."""

    name: str
    agent: str
    state: str
    labels: Mapping[str, str]
    pause: str | None = None
    text: str = ""
    """Name, agent, settings and note, in lower case."""
