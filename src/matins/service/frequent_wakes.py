"""Schedules that wake a paid agent more than once a minute. Often a field of cron too many is the reason."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from matins.engine.jobs import wakes_agent
from matins.engine.planning import Timetable
from matins.engine.steps import parts_of
from matins.engine.when.durations import DAY_MS
from matins.executors.agent_tools import is_paid
from matins.executors.registry import runners
from matins.model.agent import Agent
from matins.model.trigger import Cron, Interval
from matins.service.forecasts import cost_of_day
from matins.store.transaction import Transaction

_OFTEN = 24 * 60
_FIELDS_WITH_SECONDS = 6


class FrequentWakes(NamedTuple):
    sentence: str
    when: str
    """A time that is probably meant, or at least not as often."""

    @property
    def note(self) -> str:
        return f"{self.sentence} Less often: --when {shlex.quote(self.when)}"


def frequent_wakes(
    transaction: Transaction, schedule_id: int, agent: str, timetable: Timetable, agents: Mapping[str, Agent], now: int
) -> FrequentWakes | None:
    """What a schedule costs a day, if it wakes a paid agent more than once a minute. 0 for a schedule without an id."""
    definition = timetable.definition
    names = [name for part, name in parts_of(definition, agent) if wakes_agent(part)]
    paid = [name for name in names if name in agents and is_paid(runners().get(agents[name].runner))]
    when = definition.trigger.when
    if not paid:
        return None
    count = DAY_MS // when.every_ms if isinstance(when, Interval) else timetable.trigger.count(now, now + DAY_MS)
    if count <= _OFTEN:
        return None
    cost = cost_of_day(transaction, schedule_id, definition, count)
    costs = 'at an unknown cost, which "max_cost" limits' if cost is None else f"for {cost}"
    sentence = f"It wakes {paid[0]} up to {count:,} times a day, {costs}"
    fields = when.expression.split() if isinstance(when, Cron) else []
    if len(fields) < _FIELDS_WITH_SECONDS:
        return FrequentWakes(f"{sentence}.", "every 5 minutes")
    return FrequentWakes(f"{sentence}: the first of six fields is the seconds.", " ".join(fields[:-1]))
