"""Budgets: how much money and how many tokens may go in a day or a month, and whether a run fits into what is left."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Literal, NamedTuple, get_args

from matins.engine.given import check_choice, check_name, check_words
from matins.engine.money import parse_money, parse_tokens
from matins.engine.when.days import date_of, first_of_month
from matins.engine.when.zones import load_zone
from matins.errors import InvalidInput

Scope = Literal["schedule", "agent", "all"]
Period = Literal["day", "month"]
WORDS = ("scope", "of", "per", "money", "tokens", "timezone")
MOST_PAST = 100
_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Budget:
    name: str
    scope: Scope
    of: str | None
    """The schedule as `agent/name`, or the agent; None for all, or for each schedule or agent by itself."""
    period: Period
    money: int | None
    """Micro-dollars."""
    tokens: int | None
    timezone: str
    """Where its days begin and end."""


class Spent(NamedTuple):
    money: int
    """Micro-dollars."""
    tokens: int


class Lack(NamedTuple):
    """Why a run does not fit: `used` is what is spent and promised to others already."""

    what: Literal["money", "tokens"]
    limit: int
    used: int
    wanted: int


def define_budget(name: str, words: Mapping[str, Any], rates: Mapping[str, float], zone: str) -> Budget:
    """The budget that these words make, in `zone` where they say no other; an error names the word to mend."""
    check_name("name", name, "daily")
    check_words("A budget", words, WORDS)
    given = {word: value for word, value in words.items() if value is not None}
    scope: Scope = check_choice("scope", given.get("scope", "all"), get_args(Scope))
    period: Period = check_choice("per", given.get("per"), get_args(Period))
    money = _limit("money", parse_money(given["money"], rates, "money")) if "money" in given else None
    tokens = _limit("tokens", parse_tokens(given["tokens"], "tokens")) if "tokens" in given else None
    if money is None and tokens is None:
        message = 'A budget needs "money", "tokens" or both: what may be spent'
        raise InvalidInput(message, field="money", hint='money="$5", or tokens="2M"')
    timezone = check_name("timezone", given.get("timezone", zone), "Europe/London")
    return Budget(name, scope, _of(scope, given.get("of")), period, money, tokens, load_zone(timezone).name)


def _limit(word: str, value: int) -> int:
    if value:
        return value
    message = f'"{word}" must be more than nothing: a budget of zero would let nothing run'
    raise InvalidInput(message, value=value, field=word, hint="to stop runs, pause the schedule")


def _of(scope: Scope, of: object) -> str | None:
    if of is None:
        return None
    if scope == "all":
        hint = 'leave it out, or say scope="schedule" or scope="agent"'
        raise InvalidInput('"of" has no meaning for a budget over all', value=of, field="of", hint=hint)
    name = check_name("of", of, "herald/nightly" if scope == "schedule" else "herald")
    if scope == "schedule" and not name.partition("/")[2]:
        hint = f'of="herald/{name}", or of="/{name}" where it has no agent'
        raise InvalidInput(f'"of" must name a schedule as agent/name, got {name!r}', value=of, field="of", hint=hint)
    return name


def to_dict(budget: Budget) -> dict[str, Any]:
    return asdict(budget)


def from_dict(data: Mapping[str, Any]) -> Budget:
    return Budget(**data)


def period_of(budget: Budget, at_ms: int) -> str:
    """The day or month that the clocks of the budget's zone show: `2026-11-15` or `2026-11`."""
    return _name_of(budget, _date(load_zone(budget.timezone).wall_of(at_ms)))


def period_end(budget: Budget, at_ms: int) -> int:
    """The first instant after this one at which the period is another."""
    zone = load_zone(budget.timezone)
    now = _date(zone.wall_of(at_ms))
    end_wall = _next_wall(budget, now)
    at = at_ms
    # A change of the clocks may leap into another period, forwards or back: each stretch is looked at from its start.
    while _name_of(budget, _date(zone.wall_of(at))) == _name_of(budget, now):
        stretch = zone.stretch_at(at)
        at = min(end_wall - stretch.offset, stretch.end)
    return at


def _date(wall: int) -> date:
    return date_of(wall // _DAY)


def _name_of(budget: Budget, day: date) -> str:
    return day.isoformat() if budget.period == "day" else day.isoformat()[:7]


def _next_wall(budget: Budget, day: date) -> int:
    if budget.period == "day":
        return (first_of_month(day.year, day.month) + day.day) * _DAY
    return first_of_month(day.year + day.month // 12, day.month % 12 + 1) * _DAY


def room(budget: Budget, settled: Spent, reserved: Spent, wanted: Spent) -> Lack | None:
    """What the budget lacks for a run that may cost `wanted`; None when it fits."""
    money, tokens = settled.money + reserved.money, settled.tokens + reserved.tokens
    if budget.money is not None and money + wanted.money > budget.money:
        return Lack("money", budget.money, money, wanted.money)
    if budget.tokens is not None and tokens + wanted.tokens > budget.tokens:
        return Lack("tokens", budget.tokens, tokens, wanted.tokens)
    return None


def reservation(cap: Spent | None, past: Sequence[Spent], usual: Spent) -> Spent:
    """What to set aside for a run, unit by unit: its cap, else what 95 of 100 past runs kept to, else what is usual.

    A cap of 0 is none; `past` has the newest first.
    """
    recent = past[:MOST_PAST]
    caps = cap or Spent(0, 0)
    return Spent(
        caps.money or _likely([run.money for run in recent], usual.money),
        caps.tokens or _likely([run.tokens for run in recent], usual.tokens),
    )


def _likely(past: Sequence[int], usual: int) -> int:
    return percentile(past, 95) if past else usual


def percentile(values: Sequence[int], percent: int) -> int:
    """By nearest rank: the smallest of the values (at least one) that this share of them does not exceed."""
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(rank, 1) - 1]


def projected_per_day(past: Sequence[Spent], fires_per_day: float) -> Spent:
    """The median cost of past runs, as often as a day has fires; nothing is known where nothing ran."""
    if not past:
        return Spent(0, 0)
    return Spent(
        math.ceil(statistics.median(run.money for run in past) * fires_per_day),
        math.ceil(statistics.median(run.tokens for run in past) * fires_per_day),
    )
