"""Money, prices, budgets, charges.

Money and tokens: parsed from text to integers, and formatted. Money is in micro-dollars.

Prices of models: list prices, prices that users set, and the cost of a run's tokens.

Budgets: limits on money and tokens per day or month, and whether a run fits into the rest.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, get_args

from matins.engine.validation import preview_of
from matins.engine.when.days import date_of, first_of_month
from matins.engine.when.durations import DAY_MS
from matins.engine.when.zones import load_zone
from matins.errors import Example, InvalidInput
from matins.model.policies import BudgetUsage
from matins.model.run import Usage
from matins.model.settings import Choice, Money, Name, Setting, Tokens, Zone
from matins.model.settings import Decimal as Percent

DOLLAR = 1_000_000
MAX_MONEY = 1_000_000_000 * DOLLAR
MAX_RATE = 1_000_000
MAX_TOKENS = 10**12
_MAX_AMOUNT_LENGTH = 60
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP"}
_TOKEN_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
_UNIT = r"[^0-9\s.,+−-]+"
_NUMBER = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_MONEY = re.compile(rf"([−-]?)\s*(?:({_UNIT})\s*)?([−-]?)({_NUMBER})\s*({_UNIT})?")
_TOKENS = re.compile(rf"({_NUMBER})\s*([kKmM]?)")
CURRENCY_CODE = re.compile("[A-Z]{3}")
_MONEY_HINT = 'For example: "$2" or "0.50 USD".'


def parse_money(value: str | int | float, rates: Mapping[str, float], field: str) -> int:
    """Micro-dollars of an amount such as `$2`, `0.50 USD` or `€3.50`. `rates` has each currency's value in dollars."""
    match = _MONEY.fullmatch(_readable(value))
    if match is None:
        raise _not_money(field, value)
    sign, before, inner_sign, number, after = match.groups()
    if bool(before) == bool(after):
        raise _not_money(field, value, None if before else number)
    if sign or inner_sign:
        raise InvalidInput(f'"{field}" must not be negative: {value!r}.', value=value, field=field, hint=_MONEY_HINT)
    micros = round(Fraction(number) * _rate(before or after, value, rates, field) * DOLLAR)
    if micros > MAX_MONEY:
        allowed = f"at most {format_money(MAX_MONEY)}"
        message = f'"{field}" must be {allowed}, not {value!r}.'
        raise InvalidInput(message, value=value, field=field, allowed=allowed, hint="Use a smaller amount.")
    return micros


def format_money(micros: int) -> str:
    """Dollars and cents. Amounts below ten cents have enough digits to show two that are significant."""
    size = abs(micros)
    decimals = min(6, max(2, 8 - len(str(size))))
    whole, fraction = f"{Decimal(size).scaleb(-6):.{decimals}f}".split(".")
    return f"{'-' if micros < 0 else ''}${whole}.{fraction.rstrip('0').ljust(2, '0')}"


def parse_tokens(value: int | str, field: str) -> int:
    """A number of tokens such as 500000, `500k` or `2M`."""
    if type(value) is int:
        return _token_count(Fraction(value), value, field)
    match = _TOKENS.fullmatch(_readable(value))
    if match is None:
        raise _not_tokens(field, value)
    number, unit = match.groups()
    return _token_count(Fraction(number) * _TOKEN_UNITS[unit.lower()], value, field)


def format_tokens(tokens: int) -> str:
    """The shortest exact text, in the largest unit that divides the number."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if tokens and tokens % size == 0:
            return f"{tokens // size}{unit}"
    return str(tokens)


def _readable(value: object) -> str:
    """The text of an amount; empty for anything that cannot be one."""
    if not isinstance(value, str) or len(value) > _MAX_AMOUNT_LENGTH or not value.isprintable():
        return ""
    return value.strip()


def _code(unit: str) -> str:
    # ASCII letters only: the upper case of "ſ" is S, which would be taken for a unit.
    return _SYMBOLS.get(unit, unit.upper() if unit.isascii() else unit)


def _rate(unit: str, value: str | float, rates: Mapping[str, float], field: str) -> Fraction:
    code = _code(unit)
    if code == "USD":
        return Fraction(1)
    if code in rates:
        return Fraction(str(rates[code]))
    known = ", ".join(sorted({"USD", *rates}))
    raise InvalidInput(
        f'There is no rate for the currency "{code if unit in _SYMBOLS else unit}".',
        value=value,
        field=field,
        allowed=known,
        hint=f"Known: {known}. Add one: matins rates set {code if CURRENCY_CODE.fullmatch(code) else 'XYZ'} 1.10",
    )


def _not_money(field: str, value: object, number: str | None = None) -> InvalidInput:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= MAX_MONEY // DOLLAR:
        number = f"{Decimal(str(value)):f}"
    hint = f'Write "${number}".' if number else _MONEY_HINT
    message = f'"{field}" must be an amount with its currency, not {preview_of(value)}.'
    return InvalidInput(message, value=value, field=field, allowed="an amount and a currency", hint=hint)


def _token_count(count: Fraction, value: object, field: str) -> int:
    if count.denominator != 1 or not 0 <= count <= MAX_TOKENS:
        raise _not_tokens(field, value)
    return int(count)


def _not_tokens(field: str, value: object) -> InvalidInput:
    allowed = f"a number of tokens from 0 to {format_tokens(MAX_TOKENS)}"
    message = f'"{field}" must be {allowed}, not {preview_of(value)}.'
    return InvalidInput(message, value=value, field=field, allowed=allowed, hint='For example: 500000, "500k" or "2M".')


_BOUNDARIES = "-:@"
_PER = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars per million tokens; `cached` is the price of input from the provider's cache."""

    model: str
    input: Annotated[int, Setting(Money(), "Price of a million input tokens.", "$2", required=True)]
    output: Annotated[int, Setting(Money(), "Price of a million output tokens.", "$10", required=True)]
    cached: Annotated[
        int | None, Setting(Money(), "Price of a million cached input tokens; default: that of input.", "$0.20")
    ] = None


# Dollars per million tokens (input, output, cached), as published by the providers in November 2026.
# Where a price varies: prompts up to 200,000 tokens, peak hours, no temporary offers. Too low would be worse.
_LIST = (
    ("claude-fable-5-1", 10, 50, 0.25),
    ("claude-fable-5", 10, 50, 1),
    ("claude-opus-5-5", 4, 20, 0.20),
    ("claude-opus-5", 5, 25, 0.50),
    ("claude-opus-4-8", 5, 25, 0.50),
    ("claude-opus-4-7", 5, 25, 0.50),
    ("claude-opus-4-6", 5, 25, 0.50),
    ("claude-opus-4-5", 5, 25, 0.50),
    ("claude-opus-4-1", 15, 75, 1.50),
    ("claude-opus-4", 15, 75, 1.50),
    ("claude-sonnet-5-5", 2, 10, 0.10),
    ("claude-sonnet-5", 2, 10, 0.20),
    ("claude-sonnet-4-6", 3, 15, 0.30),
    ("claude-sonnet-4-5", 3, 15, 0.30),
    ("claude-sonnet-4", 3, 15, 0.30),
    ("claude-haiku-5-5", 0.50, 2.50, 0.05),
    ("claude-haiku-4-5", 1, 5, 0.10),
    ("gpt-6.1-sol", 2, 10, 0.10),
    ("gpt-6.1-terra", 1, 5, 0.05),
    ("gpt-6-astra", 10, 50, 1),
    ("gpt-6-sol", 2, 10, 0.20),
    ("gpt-6-luna", 0.10, 0.50, 0.01),
    ("gpt-5.6-sol", 5, 30, 0.50),
    ("gpt-5.6-terra", 2, 12, 0.20),
    ("gpt-5.6-luna", 0.20, 1.20, 0.02),
    ("gpt-5.5", 5, 30, 0.50),
    ("gpt-5.5-pro", 30, 180, 30),
    ("gpt-5.4", 2.50, 15, 0.25),
    ("gpt-5.4-mini", 0.75, 4.50, 0.075),
    ("gpt-5.4-nano", 0.20, 1.25, 0.02),
    ("gpt-5.4-pro", 30, 180, 30),
    ("gpt-5.3-codex", 1.75, 14, 0.175),
    ("gpt-5.2", 1.75, 14, 0.175),
    ("gpt-5.2-pro", 21, 168, 21),
    ("gpt-5.1", 1.25, 10, 0.125),
    ("gpt-5", 1.25, 10, 0.125),
    ("gpt-5-mini", 0.25, 2, 0.025),
    ("gpt-5-nano", 0.05, 0.40, 0.005),
    ("gpt-5-pro", 15, 120, 15),
    ("gpt-4.1", 2, 8, 0.50),
    ("gpt-4.1-mini", 0.40, 1.60, 0.10),
    ("gpt-4.1-nano", 0.10, 0.40, 0.025),
    ("gemini-4-argon", 4, 20, 0.20),
    ("gemini-4-carbon", 4, 20, 0.20),
    ("gemini-3.8-flash", 1.50, 7.50, 0.15),
    ("gemini-3.7-flash", 1.50, 7.50, 0.15),
    ("gemini-3.6-flash", 1.50, 7.50, 0.15),
    ("gemini-3.5-flash", 1.50, 9, 0.15),
    ("gemini-3.5-flash-lite", 0.30, 2.50, 0.03),
    ("gemini-3.1-pro", 2, 12, 0.20),
    ("gemini-3.1-flash-lite", 0.25, 1.50, 0.025),
    ("gemini-3-flash", 0.50, 3, 0.05),
    ("gemini-2.5-pro", 1.25, 10, 0.125),
    ("gemini-2.5-flash", 0.30, 2.50, 0.03),
    ("gemini-2.5-flash-lite", 0.10, 0.40, 0.01),
    ("grok-4.7", 2, 6, 0.50),
    ("grok-4.6", 2, 6, 0.50),
    ("grok-4.5", 2, 6, 0.50),
    ("deepseek-flash", 0.30, 1.20, 0.006),
    ("deepseek-v4-flash", 0.30, 1.20, 0.006),
    ("deepseek-v4-pro", 1.32, 3.96, 0.044),
)

DEFAULT_PRICES: tuple[Price, ...] = tuple(
    Price(model, *(round(dollars * DOLLAR) for dollars in row)) for model, *row in _LIST
)


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of the longest name in the table that starts the model's name, for any provider."""
    return next((prices[name] for name in _names(model) if name in prices), None)


def _names(model: str) -> Iterator[str]:
    """The name and its prefixes at each boundary, then the same without the provider."""
    while True:
        yield model
        yield from (model[:end] for end in range(len(model) - 1, 0, -1) if model[end] in _BOUNDARIES)
        _, slash, model = model.partition("/")
        if not slash:
            return


def estimate(price: Price, input: int, output: int, cached: int) -> int:  # noqa: A002 - the field of the price
    """Micro-dollars, rounded up; `input` does not include cached tokens."""
    total = (
        input * price.input + output * price.output + cached * (price.input if price.cached is None else price.cached)
    )
    return -(-total // _PER)


Scope = Literal["schedule", "agent", "label", "person", "all"]
Period = Literal["day", "month"]
MAX_PAST_RUNS = 100


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on spending in a period. Annotations are settings, see `model.settings`."""

    name: str
    scope: Annotated[
        Scope,
        Setting(
            Choice(get_args(Scope)),
            "What the budget is for: each schedule, each agent, a label of schedules, each person, or all together.",
            "agent",
        ),
    ] = "all"
    of: Annotated[
        str | None,
        Setting(Name(), "One agent, one person, one schedule as agent/name, or a label as key=value.", "scout"),
    ] = None
    """None: all together, or each schedule or agent separately, by `scope`."""
    period: Annotated[Period, Setting(Choice(get_args(Period)), "Period of the budget.", "day", required=True)] = "day"
    max_cost: Annotated[int | None, Setting(Money(), "Amount that may be spent in a period.", "$5")] = None
    """Micro-dollars."""
    max_tokens: Annotated[int | None, Setting(Tokens(), "Tokens that may be used in a period.", "2M")] = None
    timezone: Annotated[
        str, Setting(Zone(), "IANA time zone of its days; default: the machine's.", "Europe/Berlin", short="-z")
    ] = ""
    warn_at: Annotated[
        float,
        Setting(Percent(0, 100, unit="percent"), "Share of it at which people get a message, once; 0: never.", 50),
    ] = 80


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
    if budget.scope == "label" and not all((budget.of or "").partition("=")):
        message = f'"of" must name a label as key=value, not {budget.of!r}.' if budget.of else '"of" is missing.'
        raise InvalidInput(message, value=budget.of, field="of", hint=Example({"scope": "label", "of": "team=ops"}))
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
    if budget.period == "day":
        end_wall = (first_of_month(now.year, now.month) + now.day) * DAY_MS
    else:
        end_wall = first_of_month(now.year + now.month // 12, now.month % 12 + 1) * DAY_MS
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


class Charge(NamedTuple):
    """A budget that a run draws on, and the subject of its usage."""

    budget: Budget
    subject: str
    period: str

    def shortfall(self, usage: BudgetUsage, wanted: Usage) -> Shortfall | None:
        reserved = Spent(usage.money_reserved, usage.tokens_reserved)
        return shortfall(self.budget, Spent(usage.money, usage.tokens), reserved, Spent(wanted.money, wanted.tokens))

    def warns(self, usage: BudgetUsage, last: Usage) -> bool:
        """Whether the last spending reached the share of the budget at which a message is sent."""
        share = self.budget.warn_at / 100
        limits = ((self.budget.max_cost, usage.money, last.money), (self.budget.max_tokens, usage.tokens, last.tokens))
        known = [(limit * share, spent, more) for limit, spent, more in limits if limit is not None]
        return (
            share > 0
            and any(spent >= at for at, spent, _ in known)
            and all(spent - more < at for at, spent, more in known)
        )

    def overspent(self, usage: BudgetUsage) -> bool:
        """Whether the actual spending exceeds the budget."""
        return Usage(usage.money, usage.tokens).exceeds(self.budget.max_cost, self.budget.max_tokens)


class BudgetShortage(NamedTuple):
    charge: Charge
    shortfall: Shortfall
    resets_at: int

    def evidence(self) -> dict[str, Any]:
        show = format_money if self.shortfall.what == "money" else format_tokens
        return {
            "budget": self.charge.budget.name,
            "whose": self.charge.subject,
            "period": self.charge.budget.period,
            "limit": show(self.shortfall.limit),
            "used": show(self.shortfall.used),
            "wanted": show(self.shortfall.wanted),
            "resets_at": self.resets_at,
        }


def charges(
    budgets: Iterable[Budget], schedule_id: int, agent: str, schedule: str, now: int,
    labels: Mapping[str, str] | None, person: str | None,
) -> list[Charge]:  # fmt: skip
    """The charges of a run, by budget name. Their usage is locked in this order. `schedule` is agent/name; the agent of
    a step may be another one. `person`: who started the run, or else made the schedule."""
    found: list[Charge] = []
    for budget in sorted(budgets, key=lambda budget: budget.name):
        if budget.scope == "person":
            subject = f"person:{person}" if person and budget.of in (None, person) else None
        else:
            subject = _subject(budget, schedule_id, agent, schedule, labels or {})
        if subject is not None:
            found.append(Charge(budget, subject, period_of(budget, now)))
    return found


def shortage(charge: Charge, usage: BudgetUsage, wanted: Usage, now: int) -> BudgetShortage | None:
    shortfall = charge.shortfall(usage, wanted)
    return None if shortfall is None else BudgetShortage(charge, shortfall, period_end(charge.budget, now))


def _subject(budget: Budget, schedule_id: int, agent: str, schedule: str, labels: Mapping[str, str]) -> str | None:
    if budget.scope == "all":
        return "all"
    if budget.scope == "label":
        key, _, value = (budget.of or "").partition("=")
        return f"label:{budget.of}" if labels.get(key) == value else None
    if budget.scope == "agent":
        return f"agent:{agent}" if agent and budget.of in (None, agent) else None
    return f"schedule:{schedule_id}" if budget.of in (None, schedule) else None
