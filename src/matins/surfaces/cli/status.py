"""`matins status`: what needs a person, what failed, a day of the timeline, and the last slots of schedules.

A timeline and strips of records as text: a mark for each stretch of time, or for each record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import click

from matins.model.words import counted, joined
from matins.surfaces.cli.context import PAST, CliContext, Document
from matins.surfaces.cli.framework import agent_option, chosen_text, label_option, pass_context, root_command
from matins.surfaces.cli.runs import error_of
from matins.surfaces.cli.tables import (
    Cell,
    Column,
    fitted_ends,
    last_run,
    next_run,
    padded,
    run_state,
    state_text,
    wrapped,
)
from matins.surfaces.cli.times import instant, relative_time
from matins.surfaces.display import one_line

_BEFORE, AHEAD = timedelta(hours=8), timedelta(hours=16)
_LABEL = 14
_LEAST = 24
_MAX_LANES = 12
_LABEL_HOURS = 4
_NOW = Cell("│", "cyan")
_SLOTS = {"runs": Cell("·"), "deferred": Cell("◌", "yellow"), "coalesced": Cell("◌", "yellow")}
_LATER = Cell("↷", "yellow")
_QUIET = Cell("░")
_MANY = Cell("▪", "green")
_RANK = "✗?◆▸↷⊘◌✓▪·░"
"""The marks, by importance: of several in one place, the first of these is shown."""
LEGEND = "✓ ran  ✗ failed  ↷ skipped, missed  ▸ running  ◆ needs you  · to come  ░ quiet"


class Scale(NamedTuple):
    start: datetime
    end: datetime
    width: int

    def place(self, text: str) -> int:
        """The column of an instant; outside the scale, that of its nearer end."""
        share = (instant(text) - self.start) / (self.end - self.start)
        return min(self.width - 1, max(0, int(share * self.width)))


def mark(run: Mapping[str, Any]) -> Cell:
    """The mark of a record: the first character of its state."""
    state = run_state({"status": run["reason"] or run["state"], **run})
    return state._replace(text=state.text[0])


def strip(bars: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """A mark for each record."""
    return [mark(bar) for bar in bars]


def timeline(found: Mapping[str, Any], width: int) -> list[list[Cell]]:
    """The lines of a timeline: hours, and a lane for each agent."""
    scale = Scale(instant(found["start"]), instant(found["end"]), max(_LEAST, width - _LABEL))
    now = scale.place(found["now"])
    lanes: Sequence[Mapping[str, Any]] = found["lanes"]
    lines = [[Cell(" " * _LABEL), Cell(_hours(scale, now))]]
    lines += [_lane(lane, scale, now) for lane in lanes[:_MAX_LANES]]
    if len(lanes) > _MAX_LANES:
        lines.append([Cell(f"… and {len(lanes) - _MAX_LANES} more agents")])
    return lines


def _hours(scale: Scale, now: int) -> str:
    """The hours of the local clock above their places, and now above its own."""
    text = [" "] * scale.width
    hour = scale.start.astimezone().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    while hour < scale.end:
        at, label = scale.place(hour.isoformat()), f"{hour:%H:%M}"
        if hour.hour % _LABEL_HOURS == 0 and abs(at - now) > len(label) and at + len(label) <= scale.width:
            text[at : at + len(label)] = label
        hour += timedelta(hours=1)
    text[now : now + 3] = "now"
    return "".join(text[: scale.width]).rstrip()


def _lane(lane: Mapping[str, Any], scale: Scale, now: int) -> list[Cell]:
    places: list[Cell | None] = [None] * scale.width
    for band in lane["bands"]:
        shown = {"quiet_hours": _QUIET, "records": _MANY, "slots": _SLOTS["runs"]}.get(band["kind"], _LATER)
        if "failed" in band["states"]:
            shown = Cell("✗", "red")
        for at in range(scale.place(band["start"]), scale.place(band["end"]) + 1):
            _put(places, at, shown)
    for slot in lane["slots"]:
        _put(places, min(scale.width - 1, max(now + 1, scale.place(slot["at"]))), _SLOTS.get(slot["verdict"], _LATER))
    for run in lane["runs"]:
        _put(places, max(0, min(now - 1, scale.place(run["at"]))), mark(run))
    places[now] = _NOW
    name = fitted_ends(one_line(lane["agent"] or "jobs"), _LABEL - 2)
    return [Cell(padded(name, _LABEL)), *(Cell(" ") if cell is None else cell for cell in places)]


def _put(places: list[Cell | None], at: int, cell: Cell) -> None:
    there = places[at]
    if there is None or _rank(cell) < _rank(there):
        places[at] = cell


def _rank(cell: Cell) -> int:
    found = _RANK.find(cell.text)
    return len(_RANK) if found < 0 else found


_ATTENTION = (
    Column("NEEDS YOU", lambda item, now: one_line(joined(item["sentence"], item["quote"])), 20, wraps=True),
    Column("SINCE", lambda item, now: relative_time(item["since"], now) if item["since"] else "–"),
    Column("COMMAND", lambda item, now: item["command"], 12, wraps=True),
)
_FAILED = (
    Column("FAILED", "schedule", 20, middle=True),
    Column("WHEN", lambda run, now: relative_time(run["ended_at"], now)),
    Column("WHY", lambda run, now: error_of(run) or state_text(run["reason"] or "failed"), 16),
    Column("RUN", "id"),
)
_SCHEDULES = (
    Column("SCHEDULE", "name", 16, middle=True),
    Column("NEXT RUN", next_run),
    Column("LAST RUN", lambda schedule, now: last_run(schedule["last_run"], now), 12),
)
_DEFAULT_WIDTH = 80
_BARS, _SHOWN = 20, 8
_DAY = timedelta(days=1)


@root_command("status")
@pass_context
def status(context: CliContext) -> None:
    found = context.call("system.status")
    context.show(found, lambda: [line for part in _parts(context, found) for line in (*part, "")][:-1])


def _parts(context: CliContext, found: Document) -> Iterator[Sequence[str]]:
    width = context.width or _DEFAULT_WIDTH
    yield wrapped(one_line(found["summary"]), width)
    if found["attention"]:
        yield context.table(_ATTENTION, found["attention"])
    if found["failed"]:
        yield from _failures(context)
    schedules = _schedules(context)
    if not schedules:
        return
    day = context.call("schedules.timeline", start=(context.now - _BEFORE).isoformat(),
                       end=(context.now + AHEAD).isoformat())  # fmt: skip
    if day["lanes"]:
        yield [*(_joined(context, line).rstrip() for line in timeline(day, width)), *wrapped(LEGEND, width)]
    yield from _last_slots(context, schedules)


def _failures(context: CliContext) -> Iterator[Sequence[str]]:
    """The last failure of each schedule that failed within a day."""
    since = context.now - _DAY
    runs = context.call("runs.list", state="failed", since=since.isoformat(), limit=100)
    last: dict[str, Document] = {}
    for run in runs:
        last.setdefault(run["schedule_id"], run)
    if last:
        yield context.table(_FAILED, list(last.values())[:_SHOWN])


def _schedules(context: CliContext) -> list[Document]:
    """Those that need attention first, then those that fire next."""
    chosen = [
        *context.call("schedules.list", tab="attention", bars=_BARS, limit=_SHOWN),
        *context.call("schedules.list", sort="next", bars=_BARS, limit=_SHOWN),
    ]
    return list({schedule["id"]: schedule for schedule in chosen}.values())[:_SHOWN]


def _last_slots(context: CliContext, schedules: Sequence[Document]) -> Iterator[Sequence[str]]:
    """The table of schedules, with their last records below the heading of a column of marks."""
    texts = context.table(_SCHEDULES, schedules, beside=_BARS + 2)
    marks = [strip(item["bars"]) for item in schedules]
    strips = [[Cell("LAST SLOTS".rjust(_BARS))], *([Cell(" " * (_BARS - len(each))), *each] for each in marks)]
    yield [f"{_joined(context, each)}  {text}" for each, text in zip(strips, texts, strict=True)]
    number = context.call("schedules.counts")["all"] - len(schedules)
    if number > 0:
        yield [f"… and {number} more: matins list"]


def _joined(context: CliContext, marks: Sequence[Cell]) -> str:
    return "".join(context.painted(mark) for mark in marks)


_SHARES = (
    Column("SCHEDULE", "name", 22, middle=True),
    Column("AGENT", "agent", 6, middle=True),
    Column("COST", "cost", right=True),
    Column("TOKENS", lambda share, now: f"{share['tokens']:,}", right=True),
    Column("RUNS", "runs", right=True),
    Column("SHARE", lambda share, now: f"{share['share']:.0%}", right=True),
)


@root_command("spend")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@agent_option("Agent of the schedules.")
@label_option
@click.option("--since", type=PAST, help="From then on: 7d, or an instant. Default: 30 days ago.")
@click.option("--until", type=PAST, help="Only what was spent before.")
@pass_context
def spend(
    context: CliContext, names: tuple[str, ...], agent: str | None, labels: tuple[str, ...], since: str | None,
    until: str | None,
) -> None:  # fmt: skip
    """Show what schedules spent, the most first. NAME may be a pattern: 'report-*'."""
    select = chosen_text(names=names, agent=agent, labels=labels)
    found = context.call("system.spend", select=select, since=since, until=until)

    def lines() -> Iterator[str]:
        if not found["schedules"]:
            yield "Nothing was spent."
            return
        yield from context.table(_SHARES, found["schedules"])
        days = counted(found["known_days"], "day")
        told = f"{found['cost']}, {counted(found['tokens'], 'token')} in {days}: {found['per_day']} a day."
        yield from context.sentences([told])

    context.show(found, lines)
