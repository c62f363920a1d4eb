"""`matins quiet-hours`, `budgets`, `throttles`: what governs schedules from outside."""

from __future__ import annotations

from typing import Any

import click

from matins.surfaces.cli.commands import Noun, pass_desk, removed
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.instants import AHEAD
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import one_line
from matins.surfaces.cli.words import BUDGET, QUIET_HOURS, given, word_options

_QUIET = (Column("NAME"), Column("WINDOWS", 20), Column("TIMEZONE"), Column("MODE"))
_BUDGETS = (Column("NAME"), Column("FOR", 8), Column("PER"), Column("SPENT"), Column("PROMISED"), Column("OF", 6))
_THROTTLES = (Column("PROVIDER"), Column("UNTIL"), Column("AGENTS", 8), Column("WHY", 10), Column("BY"))


@click.group("quiet-hours", cls=Noun)
def quiet_hours() -> None:
    """When nothing begins: list, set, rm."""


@quiet_hours.command("list")
@pass_desk
def list_quiet_hours(desk: Desk) -> None:
    """All quiet hours."""
    items: list[dict[str, Any]] = desk.ask("quiet_hours")
    rows = [(item["name"], _windows(item["windows"]), item["timezone"], item["mode"]) for item in items]
    empty = 'No quiet hours. Make some: matins quiet-hours set night --windows "22:00-07:00" -z Europe/London'
    desk.show(items, lambda: desk.table(_QUIET, rows) if rows else empty)


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


@quiet_hours.command("set")
@click.argument("name")
@word_options(QUIET_HOURS)
@pass_desk
def set_quiet_hours(desk: Desk, name: str, **options: Any) -> None:
    """Make quiet hours, or say them anew."""
    item = desk.ask("set_quiet_hours", name=name, **given(QUIET_HOURS, options))
    desk.show(item, lambda: one_line(f"Set {item['name']}: {_windows(item['windows'])} ({item['timezone']})"))


@quiet_hours.command("rm")
@click.argument("name")
@pass_desk
def remove_quiet_hours(desk: Desk, name: str) -> None:
    """Remove quiet hours that no schedule keeps."""
    desk.show(*removed("quiet-hours policy", one_line(name), bool(desk.ask("drop_quiet_hours", name=name))))


@click.group(cls=Noun)
def budgets() -> None:
    """What may be spent in a day or a month: list, set, rm."""


@budgets.command("list")
@pass_desk
def list_budgets(desk: Desk) -> None:
    """Each budget, and what is spent and promised of it."""
    items: list[dict[str, Any]] = desk.ask("budgets")
    rows = [row for item in items for row in _budget_rows(item)]
    empty = "No budgets. Make one: matins budgets set daily --money '$5' --per day"
    desk.show(items, lambda: desk.table(_BUDGETS, rows) if rows else empty)


def _budget_rows(budget: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each purse: one for all, or one for each agent or schedule that has spent."""
    of = " and ".join(str(limit) for limit in (budget["money"], _tokens(budget["tokens"])) if limit)
    purses: list[dict[str, Any]] = budget["purses"]
    spent = [(p["of"], f"{p['money']}, {_tokens(p['tokens']) or 'no tokens'}", p["money_reserved"]) for p in purses]
    usual = (budget["of"] or budget["scope"], "nothing", "–")
    return [(budget["name"], whose, budget["per"], money, kept, of) for whose, money, kept in spent or [usual]]


def _tokens(count: int | None) -> str:
    return f"{count:,} tokens" if count else ""


@budgets.command("set")
@click.argument("name")
@word_options(BUDGET)
@pass_desk
def set_budget(desk: Desk, name: str, **options: Any) -> None:
    """Make a budget, or say it anew."""
    item = desk.ask("set_budget", name=name, **given(BUDGET, options))
    desk.show(item, lambda: one_line(f"Set the budget {item['name']}."))


@budgets.command("rm")
@click.argument("name")
@pass_desk
def remove_budget(desk: Desk, name: str) -> None:
    """Remove a budget."""
    desk.show(*removed("budget", one_line(name), bool(desk.ask("drop_budget", name=name))))


@click.group(cls=Noun)
def throttles() -> None:
    """Providers that serve nobody for now: list, set, lift."""


@throttles.command("list")
@pass_desk
def list_throttles(desk: Desk) -> None:
    """Those that hold now."""
    items: list[dict[str, Any]] = desk.ask("throttles")
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
