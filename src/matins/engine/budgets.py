"""Budgets: limits on money and tokens per day or month, and whether a run fits into the rest."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal, NamedTuple, get_args

from matins.engine.when.days import date_of, first_of_month
from matins.engine.when.durations import DAY_MS
from matins.engine.when.zones import load_zone
from matins.errors import Example, InvalidInput
from matins.model.settings import Choice, Money, Name, Setting, Tokens, Zone

Scope = Literal["schedule", "agent", "all"]
Period = Literal["day", "month"]
MAX_PAST_RUNS = 100


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on spending in a period. Annotations are settings, see `model.settings`."""

    name: str
    scope: Annotated[
        Scope,
        Setting(
            Choice(get_args(Scope)), "What the budget is for: each schedule, each agent, or all together.", "agent"
        ),
    ] = "all"
    of: Annotated[str | None, Setting(Name(), "One agent, or one schedule as agent/name.", "scout")] = None
    """None: all together, or each schedule or agent separately, by `scope`."""
    period: Annotated[Period, Setting(Choice(get_args(Period)), "Period of the budget.", "day", required=True)] = "day"
    max_cost: Annotated[int | None, Setting(Money(), "Amount that may be spent in a period.", "$5")] = None
    """Micro-dollars."""
    max_tokens: Annotated[int | None, Setting(Tokens(), "Tokens that may be used in a period.", "2M")] = None
    timezone: Annotated[
        str, Setting(Zone(), "IANA time zone of its days; default: the machine's.", "Europe/Berlin", short="-z")
    ] = ""


class Spent(NamedTuple):
    money: int
    """Micro-dollars."""
    tokens: int


class Shortfall(NamedTuple):
    """Why a run does not fit. `used` is spent, or reserved by other runs."""

    what: Literal["money", "tokens"]
    limit: int
    used: int
    wanted: int


def check_budget(budget: Budget) -> None:
    """Raise unless the budget has a limit above 0, and "of" names a subject of its scope."""
    if budget.max_cost is None and budget.max_tokens is None:
        message = 'A budget needs "max_cost", "max_tokens" or both.'
        raise InvalidInput(message, field="max_cost", hint=Example({"max_cost": "$5", "max_tokens": "2M"}))
    for name in ("max_cost", "max_tokens"):
        if getattr(budget, name) == 0:
            message = f'"{name}" must be more than 0: nothing could run.'
            raise InvalidInput(message, value=0, field=name, hint="To stop runs, pause the schedules.")
    if budget.of is not None and budget.scope == "all":
        hint = 'Omit it, or set "scope" to schedule or agent.'
        raise InvalidInput('"of" has no meaning for a budget of all.', value=budget.of, field="of", hint=hint)
    if budget.of is not None and budget.scope == "schedule" and not budget.of.partition("/")[2]:
        hint = Example({"of": f"herald/{budget.of}"})
        message = f'"of" must name a schedule as agent/name, not {budget.of!r}.'
        raise InvalidInput(message, value=budget.of, field="of", hint=hint)


def period_of(budget: Budget, at_ms: int) -> str:
    """The day or month on the clocks of the budget's zone: `2026-11-15` or `2026-11`."""
    return _name_of(budget, _date(load_zone(budget.timezone).wall_of(at_ms)))


def period_end(budget: Budget, at_ms: int) -> int:
    """The first later instant in another period."""
    zone = load_zone(budget.timezone)
    now = _date(zone.wall_of(at_ms))
    end_wall = _next_wall(budget, now)
    at = at_ms
    # A clock change may enter another period, forwards or back, so each offset period is checked from its start.
    while _name_of(budget, _date(zone.wall_of(at))) == _name_of(budget, now):
        period = zone.period_at(at)
        at = min(end_wall - period.offset, period.end)
    return at


def _date(wall: int) -> date:
    return date_of(wall // DAY_MS)


def _name_of(budget: Budget, day: date) -> str:
    return day.isoformat() if budget.period == "day" else day.isoformat()[:7]


def _next_wall(budget: Budget, day: date) -> int:
    if budget.period == "day":
        return (first_of_month(day.year, day.month) + day.day) * DAY_MS
    return first_of_month(day.year + day.month // 12, day.month % 12 + 1) * DAY_MS


def shortfall(budget: Budget, settled: Spent, reserved: Spent, wanted: Spent) -> Shortfall | None:
    """The shortfall of the budget for a run that may cost `wanted`; None when the run fits."""
    money, tokens = settled.money + reserved.money, settled.tokens + reserved.tokens
    if budget.max_cost is not None and money + wanted.money > budget.max_cost:
        return Shortfall("money", budget.max_cost, money, wanted.money)
    if budget.max_tokens is not None and tokens + wanted.tokens > budget.max_tokens:
        return Shortfall("tokens", budget.max_tokens, tokens, wanted.tokens)
    return None


def reservation(cap: Spent | None, past: Sequence[Spent], default: Spent) -> Spent:
    """The reservation of a run, for each unit: its cap, else the 95th percentile of past runs, else the default.

    A cap of 0 counts as no cap; `past` has the newest run first.
    """
    recent = past[:MAX_PAST_RUNS]
    caps = cap or Spent(0, 0)
    return Spent(
        caps.money or _likely([run.money for run in recent], default.money),
        caps.tokens or _likely([run.tokens for run in recent], default.tokens),
    )


def _likely(past: Sequence[int], default: int) -> int:
    return percentile(past, 95) if past else default


def percentile(values: Sequence[int], percent: int) -> int:
    """The percentile by nearest rank; `values` must not be empty."""
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(rank, 1) - 1]


def projected_per_day(past: Sequence[Spent], fires_per_day: float) -> Spent:
    """The median cost of past runs, times the fires per day; zero without past runs."""
    if not past:
        return Spent(0, 0)
    return Spent(
        math.ceil(statistics.median(run.money for run in past) * fires_per_day),
        math.ceil(statistics.median(run.tokens for run in past) * fires_per_day),
    )
