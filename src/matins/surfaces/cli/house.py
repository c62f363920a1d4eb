"""`matins up`, `stats`, `doctor`, `backup`, `service`: the house itself."""

from __future__ import annotations

from typing import Any

import click

from matins.surfaces.cli import telling
from matins.surfaces.cli.commands import Command, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.tables import Cell
from matins.surfaces.cli.text import one_line
from matins.surfaces.cli.times import took

_SCHEDULES = {"active": "active", "paused": "paused", "pending": "proposed"}
_FILE = click.Path(dir_okay=False)


@click.command(cls=Command)
@click.option("--file", metavar="FILE", type=_FILE, help="The file that says what there is; matins.yaml in the home.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the API listens.")
@click.option("--port", type=click.IntRange(0, 65535), help="7411, or a free one.")
@click.option("--log", type=click.Choice(["plain", "json"]), default="plain", show_default=True)
@click.option("--demo", is_flag=True, help="With a demonstration file.")
@pass_desk
def up(desk: Desk, file: str | None, host: str, port: int | None, log: str, demo: bool) -> None:
    """Start the daemon: it fires schedules until Ctrl-C."""
    place = {"store": desk.place["store"], "home": desk.place["home"]}
    desk.app.up(file=file, host=host, port=port, log=log, demo=demo, **place)


@click.command(cls=Command)
@pass_desk
def stats(desk: Desk) -> None:
    """How it stands: what runs, what waits, what it costs."""
    found = desk.ask("stats")
    desk.show(found, lambda: _stats(desk, found))


def _stats(desk: Desk, found: dict[str, Any]) -> list[str]:
    most = "" if found["max_concurrent"] is None else f" of {found['max_concurrent']} places"
    oldest = f", the oldest {desk.away(found['oldest_approval'])}" if found["oldest_approval"] else ""
    throttled = [f"{item['provider']} until {desk.until(item['resets_at'])}" for item in found["throttles"]]
    return desk.fields(
        ("engine", "✓ running" if found["running"] else "✗ not running: matins up"),
        ("schedules", ", ".join(f"{found[f'{state}_schedules']} {word}" for state, word in _SCHEDULES.items())),
        ("running", f"{found['running_executions']}{most}"),
        ("waiting", f"{found['ready_runs']} ready, {found['parked_runs']} parked"),
        ("approvals", f"{found['waiting_approvals']}{oldest}"),
        ("failures", f"{found['recent_failures']} in the last 24 hours"),
        ("late by", took(found["planner_lag_ms"])),
        ("today", f"{found['spend_today']}, {found['tokens_today']} tokens"),
        ("throttles", ", ".join(throttled)),
    )


@click.command(cls=Command)
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Look for what is wrong, and say the command that mends it. Exit code 1 when something is."""
    desk = ctx.ensure_object(Desk)
    found: list[dict[str, Any]] = desk.ask("doctor")
    desk.show(found, lambda: [line for finding in found for line in _finding(desk, finding)])
    ctx.exit(telling.FAILED if any(finding["ok"] is False for finding in found) else telling.OK)


def _finding(desk: Desk, finding: dict[str, Any]) -> list[str]:
    mark = {True: Cell("✓ ok  ", "green"), False: Cell("✗ bad ", "red")}.get(finding["ok"], Cell("? look", "yellow"))
    lines = [f"{desk.painted(mark)}  {one_line(finding['what'])}: {one_line(finding['sentence'])}"]
    if finding["mend"] and finding["ok"] is not True:
        lines.append(f"        mend it: {one_line(telling.spoken(finding['mend']))}")
    return lines


@click.command(cls=Command)
@click.argument("path", type=click.Path(dir_okay=False))
@pass_desk
def backup(desk: Desk, path: str) -> None:
    """Copy the store to PATH, whole, also while it runs."""
    from pathlib import Path

    desk.tell("Copying the store …")
    found = desk.ask("backup", path=str(Path(path).absolute()))
    desk.show(found, lambda: one_line(f"Copied to {found['path']}: {found['bytes']:,} bytes"))


@click.group()
def service() -> None:
    """Keep the daemon running."""


@service.command(cls=Command)
@click.option("--print", "only_print", is_flag=True, help="Print the unit of systemd.")
@click.option("--file", metavar="FILE", type=_FILE, help="The file that says what there is.")
@pass_desk
def install(desk: Desk, only_print: bool, file: str | None) -> None:
    """A unit for systemd.

    \b
    matins service install --print > ~/.config/systemd/user/matins.service
    systemctl --user enable --now matins
    """
    if not only_print:
        raise click.UsageError("Matins changes nothing of the system by itself: say --print, and put it in its place.")
    unit = desk.app.systemd_unit(store=desk.place["store"], file=file, home=desk.place["home"])
    desk.show({"unit": unit}, lambda: unit.rstrip())
