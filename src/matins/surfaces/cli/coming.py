"""`matins next` and `preview`: what is to come."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.commands import Command, agent_option, name_argument, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.instants import ANY
from matins.surfaces.cli.states import in_words
from matins.surfaces.cli.tables import Cell, Column
from matins.surfaces.cli.text import one_line
from matins.surfaces.cli.times import instant, two_units
from matins.surfaces.cli.words import SCHEDULE, given, word_options

_DST_WORDS = {
    "moved": "moved: the clocks jump over its time",
    "shifted": "shifted by the clock change",
    "first": "first of two: the clocks go back",
    "second": "second of two: the clocks go back",
}
_FIRES = (Column("LOCAL"), Column("UTC"), Column("IN"), Column("", 0))
_COMING = (Column("NEXT"), Column("NAME"), Column("AGENT", 6), Column("WHEN", 14))
_SLOTS = (Column("SLOT"), Column("IN"), Column("WHAT"), Column("WHY", 20, wraps=True))
_MADE_UP = (Column("SLOT"), Column("SLOTS", right=True), Column("WHAT"), Column("WHY", 20, wraps=True))
_USUAL = 5
_COLOURS = {"runs": "green", "skipped": "yellow", "deferred": "yellow"}


@click.command("next", cls=Command)
@click.argument("text", nargs=-1)
@click.option("--timezone", "-z", metavar="ZONE", help='IANA name, or "local". UTC by default.')
@click.option("--after", metavar="INSTANT", help="Fires after this ISO instant; now by default.")
@click.option(
    "--count", "-n", type=click.IntRange(1, 1000), metavar="N", help="How many: 5 fires of a text, 20 schedules."
)
@click.option("--dst-gap", type=click.Choice(["after", "skip", "shift"]), help="A time that the clocks jump over.")
@click.option("--dst-overlap", type=click.Choice(["first", "both"]), help="A time that comes twice.")
@click.option("--strict", is_flag=True, default=None, help="Refuse cron beyond numbers, *, ranges, steps and lists.")
@pass_desk
def next_fires(desk: Desk, text: tuple[str, ...], count: int | None, **options: Any) -> None:
    """What fires next; or what TEXT means, and when it would fire.

    TEXT is English ("every weekday at 9am"), cron ("0 9 * * 1-5", @daily), a duration (5m), an ISO instant, or an
    RRULE.
    """
    if not text:
        return _all(desk, count, options)
    count = _USUAL if count is None else count
    found = desk.ask("next_times", text=" ".join(text), count=count, **options)
    return desk.show(found, lambda: _text(desk, found))


def _all(desk: Desk, count: int | None, options: dict[str, Any]) -> None:
    odd = next((name for name, value in options.items() if value is not None), None)
    if odd is not None:
        word = odd.replace("_", "-")
        raise InvalidInput(f"--{word} is for a text", field=odd, hint=f'matins next "every day at 9am" --{word} …')
    items = desk.ask("upcoming", limit=count)
    rows = [(desk.when(item["next_run_at"]), item["name"], item["agent"] or "–", item["description"]) for item in items]
    empty = "Nothing is to come. See what there is: matins list"
    desk.show(items, lambda: desk.table(_COMING, rows) if rows else empty)


def _text(desk: Desk, found: dict[str, Any]) -> list[str]:
    lines = [found["description"], f"time zone: {found['timezone']}"]
    lines += [f"note: {note}" for note in found["notes"]]
    lines += [f"clock change: {change}" for change in found["clock_changes"]]
    zone = ZoneInfo(found["timezone"])
    rows = [_fire(fire, zone) for fire in found["fires"]]
    return [*map(one_line, lines), "", *(desk.table(_FIRES, rows) if rows else ["It does not fire any more."])]


def _fire(fire: dict[str, Any], zone: ZoneInfo) -> tuple[str, ...]:
    at = instant(fire["local"]).astimezone(zone)
    local = f"{at:%a %Y-%m-%d} {_clock(at)} {at:%Z}"
    return local, _utc(fire["utc"]), two_units(fire["in_seconds"]), _DST_WORDS.get(fire["dst"], "")


def _utc(text: str) -> str:
    at = instant(text)
    return f"{at:%Y-%m-%d} {_clock(at)}"


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second or at.microsecond else f"{at:%H:%M}"


@click.command(cls=Command)
@name_argument
@agent_option
@click.option(
    "--count", "-n", type=click.IntRange(1, 1000), metavar="N", default=_USUAL, help="How many slots; 5 by default."
)
@click.option("--when", "word_when", metavar="TEXT", help="If it fired then.")
@click.option("--catch-up-since", type=ANY, metavar="INSTANT", help="If nobody had been there since.")
@word_options(tuple(word for word in SCHEDULE if word.name in ("timezone", "quiet_hours", "ends", "max_executions")))
@pass_desk
def preview(desk: Desk, name: str, agent: str | None, count: int, catch_up_since: str | None, **options: Any) -> None:
    """What its next slots will come to, and what a day costs.

    With words such as --when or --set, as if it were edited so; nothing is written.
    """
    words = given(SCHEDULE, options) | ({} if options["word_when"] is None else {"when": options["word_when"]})
    if catch_up_since is not None:
        found = desk.ask("preview_catch_up", name=name, agent=agent, since=catch_up_since)
        return desk.show(found, lambda: _caught_up(desk, found))
    if words:
        found = desk.door.call("preview_change", name=name, agent=agent, count=count, **words)
        return desk.show(found, lambda: ["before", *_forecast(desk, found["before"]), "", "after",
                                         *_forecast(desk, found["after"])])  # fmt: skip
    found = desk.ask("preview", name=name, agent=agent, count=count)
    return desk.show(found, lambda: _forecast(desk, found))


def _forecast(desk: Desk, found: dict[str, Any]) -> list[str]:
    lines = [one_line(f"{found['description']} ({found['timezone']})")]
    if found["state"] != "active":
        lines.append(one_line(found["standing"]))
    rows = [_slot(desk, slot) for slot in found["slots"]]
    lines += ["", *desk.table(_SLOTS, rows)] if rows else []
    lines += ["", one_line(found["then"])] if found["then"] else []
    per_day = f"{found['runs_per_day']:g} runs a day, cost {found['cost_per_day']}"
    return [*lines, "", per_day]


def _slot(desk: Desk, slot: dict[str, Any]) -> tuple[str | Cell, ...]:
    at = instant(slot["local"])
    told = f"{slot['sentence']} {_DST_WORDS.get(slot['dst'], '')}".strip()
    return f"{at:%a %Y-%m-%d} {_clock(at)}", desk.away(slot["at"]).removeprefix("in "), _verdict(slot["verdict"]), told


def _verdict(verdict: str) -> Cell:
    mark = {"runs": "✓", "skipped": "↷", "deferred": "◌", "queued": "◌", "coalesced": "◌", "missed": "↷"}.get(
        verdict, "·"
    )
    return Cell(f"{mark} {in_words(verdict)}", _COLOURS.get(verdict))


def _caught_up(desk: Desk, found: dict[str, Any]) -> list[str]:
    rows = [
        (desk.when(made["slot"]), str(made["slots"]), _verdict(made["verdict"]), made["sentence"])
        for made in found["records"]
    ]
    return [one_line(found["answer"]), *(["", *desk.table(_MADE_UP, rows)] if rows else [])]
