"""`matins quiet-hours`, `budgets`, `prices`, `hooks`, `limits`, `work-sources`, `throttles`: what governs schedules."""

from __future__ import annotations

import shlex
from typing import Any

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.commands import Noun, pass_desk, removed
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.instants import AHEAD
from matins.surfaces.cli.kinds import Item, Kind, noun_of
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import one_line
from matins.surfaces.cli.times import took
from matins.surfaces.cli.words import BUDGET, HOOK, PRICE, QUIET_HOURS, SOURCE

_THROTTLES = (Column("PROVIDER"), Column("UNTIL"), Column("AGENTS", 8), Column("WHY", 10), Column("BY"))
_RATES = (Column("CURRENCY"), Column("DOLLARS", right=True))


def _windows(windows: Any) -> str:
    if isinstance(windows, str):
        return windows
    return ", ".join(_window(window) for window in windows)


def _window(window: Any) -> str:
    if isinstance(window, str):
        return window
    days: Any = window.get("days")
    named = days if isinstance(days, str) else ",".join(map(str, days or ()))
    return f"{named} {window['from']}-{window['to']}".strip()


def _budget_rows(budget: Item) -> list[tuple[str, ...]]:
    """A row for each purse: one for all, or one for each agent or schedule that has spent."""
    of = " and ".join(str(limit) for limit in (budget["money"], _tokens(budget["tokens"])) if limit)
    purses: list[Item] = budget["purses"]
    spent = [(p["of"], f"{p['money']}, {_tokens(p['tokens']) or 'no tokens'}", p["money_reserved"]) for p in purses]
    usual = (budget["of"] or budget["scope"], "nothing", "–")
    return [(budget["name"], whose, budget["per"], money, kept, of) for whose, money, kept in spent or [usual]]


def _tokens(count: int | None) -> str:
    return f"{count:,} tokens" if count else ""


def _command(command: Any) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _length(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g}s" if milliseconds < 60_000 else took(milliseconds)


def _source(item: Item) -> str:
    return item["repo"] if item["kind"] == "github" else item["path"]


def _labels(item: Item) -> str:
    return ", ".join(item["labels"]) if item["kind"] == "github" else "–"


quiet_hours = noun_of(
    Kind(
        noun="quiet-hours",
        what="quiet-hours policy",
        help="When nothing begins: list, set, rm.",
        use_cases=("quiet_hours", "set_quiet_hours", "drop_quiet_hours"),
        helps=("All quiet hours.", "Make quiet hours, or say them anew.", "Remove quiet hours that no schedule keeps."),
        columns=(Column("NAME"), Column("WINDOWS", 20), Column("TIMEZONE"), Column("MODE")),
        rows=lambda item: [(item["name"], _windows(item["windows"]), item["timezone"], item["mode"])],
        empty='No quiet hours. Make some: matins quiet-hours set night --windows "22:00-07:00" -z Europe/London',
        told=lambda item: f"Set {item['name']}: {_windows(item['windows'])} ({item['timezone']})",
        words=QUIET_HOURS,
    )
)
budgets = noun_of(
    Kind(
        noun="budgets",
        what="budget",
        help="What may be spent in a day or a month: list, set, rm.",
        use_cases=("budgets", "set_budget", "drop_budget"),
        helps=(
            "Each budget, and what is spent and promised of it.",
            "Make a budget, or say it anew.",
            "Remove a budget.",
        ),
        columns=(Column("NAME"), Column("FOR", 8), Column("PER"), Column("SPENT"), Column("PROMISED"), Column("OF", 6)),
        rows=_budget_rows,
        empty="No budgets. Make one: matins budgets set daily --money '$5' --per day",
        told=lambda item: f"Set the budget {item['name']}.",
        words=BUDGET,
    )
)
prices = noun_of(
    Kind(
        noun="prices",
        what="price of",
        help="What a million tokens of a model cost: list, set, rm, rate.",
        use_cases=("prices", "set_price", "drop_price"),
        helps=(
            "All prices: list prices, and yours.",
            "Set the price of a model.",
            "Go back to the list price of a model.",
        ),
        columns=(Column("MODEL", 20), *(Column(title, right=True) for title in ("INPUT", "OUTPUT", "CACHED"))),
        rows=lambda item: [(item["model"], item["input"], item["output"], item["cached"])],
        empty="No prices. Set one: matins prices set house/small --input '$1' --output '$2'",
        told=lambda item: f"Set the price of {item['model']}: {item['input']} in, {item['output']} out",
        words=PRICE,
        key="model",
    )
)
hooks = noun_of(
    Kind(
        noun="hooks",
        what="hook",
        help="Commands for every schedule: list, set, rm.",
        use_cases=("hooks", "set_hook", "drop_hook"),
        helps=(
            "All hooks.",
            "Run a command at before:schedule:trigger, which may cancel a run, or after:run.",
            "Remove a hook.",
        ),
        columns=(Column("EVENT"), Column("COMMAND", 20), Column("LIMIT")),
        rows=lambda item: [(item["event"], _command(item["command"]), _length(item["limit_ms"]))],
        empty="No hooks. Set one: matins hooks set before:schedule:trigger --command ./may-it-run.sh",
        told=lambda item: f"Set the hook {item['event']}: {_command(item['command'])}",
        words=HOOK,
        key="event",
    )
)
limits = noun_of(
    Kind(
        noun="limits",
        what="limit",
        help="How many runs there may be at once: list, set, rm.",
        use_cases=("limits", "limit", "drop_limit"),
        helps=(
            "All limits, and how much of each is taken.",
            "So many at once: global, or agent:NAME.",
            "Remove a limit.",
        ),
        columns=(Column("SCOPE", 10), Column("SIZE", right=True), Column("TAKEN", right=True)),
        rows=lambda item: [(item["scope"], str(item["size"]), str(item["taken"]))],
        empty="No limits. Set one: matins limits set global 4",
        told=lambda item: f"At most {item['size']} at once: {item['scope']}",
        key="scope",
        value="size",
    )
)
work_sources = noun_of(
    Kind(
        noun="work-sources",
        what="source of work",
        help="Where work items come from: list, set, rm.",
        use_cases=("work_sources", "set_work_source", "drop_work_source"),
        helps=("All sources.", "Make a source, or say it anew.", "Remove a source that no schedule takes work from."),
        columns=(Column("NAME"), Column("KIND"), Column("WHERE", 12), Column("LABELS", 8)),
        rows=lambda item: [(item["name"], item["kind"], _source(item), _labels(item))],
        empty="No sources of work. Make one: matins work-sources set todo --kind tasks --path TASKS.yaml",
        told=lambda item: f"Set the source {item['name']}: {item['kind']}, {_source(item)}",
        words=SOURCE,
    )
)


@prices.command()
@click.argument("currency", required=False)
@click.argument("usd", required=False, type=float, metavar="[DOLLARS]")
@click.option("--rm", "gone", is_flag=True, help="Remove it.")
@pass_desk
def rate(desk: Desk, currency: str | None, usd: float | None, gone: bool) -> None:
    """What one of a CURRENCY is worth in dollars; or all rates.

    \b
    matins prices rate EUR 1.10
    """
    if gone and (currency is None or usd is not None):
        raise InvalidInput("--rm takes a currency, and no dollars", field="rm", hint="matins prices rate EUR --rm")
    if currency is None:
        rates: list[Item] = desk.ask("rates")
        return desk.show(rates, lambda: desk.table(_RATES, [(r["currency"], f"{r['usd']:g}") for r in rates]))
    if gone:
        return desk.show(*removed("rate of", one_line(currency), bool(desk.ask("drop_rate", currency=currency))))
    if usd is None:
        raise InvalidInput("How many dollars is it worth?", field="usd", hint=f"matins prices rate {currency} 1.10")
    desk.ask("set_rate", currency=currency, usd=usd)
    return desk.show({"currency": currency, "usd": usd}, lambda: one_line(f"1 {currency} is ${usd:g}"))


@click.group(cls=Noun)
def throttles() -> None:
    """Providers that serve nobody for now: list, set, lift."""


@throttles.command("list")
@pass_desk
def list_throttles(desk: Desk) -> None:
    """Those that hold now."""
    items: list[Item] = desk.ask("throttles")
    rows = [
        (
            item["provider"],
            desk.when(item["resets_at"]),
            ", ".join(item["affects"]) or "all",
            item["reason"],
            item["by"],
        )
        for item in items
    ]
    desk.show(items, lambda: desk.table(_THROTTLES, rows) if rows else "No provider is at its limit.")


@throttles.command("set")
@click.argument("provider")
@click.argument("resets_at", type=AHEAD, metavar="UNTIL")
@click.option("--affects", multiple=True, metavar="AGENT", help="Only these agents.")
@click.option("--reason", metavar="TEXT")
@pass_desk
def set_throttle(desk: Desk, provider: str, resets_at: str, affects: tuple[str, ...], reason: str | None) -> None:
    """Hold a provider's schedules UNTIL an instant: 2h, 2026-12-31T18:00."""
    item = desk.ask("throttle", provider=provider, resets_at=resets_at, affects=list(affects) or None, reason=reason)
    desk.show(item, lambda: one_line(f"{item['provider']} waits until {desk.until(item['resets_at'])}"))


@throttles.command()
@click.argument("provider")
@pass_desk
def lift(desk: Desk, provider: str) -> None:
    """What waits for it goes on now."""
    desk.show(*removed("throttle of", one_line(provider), bool(desk.ask("lift_throttle", provider=provider))))
