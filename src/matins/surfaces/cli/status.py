"""`matins status`: what needs a person, what failed, a day of the timeline, and the last slots of schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from matins.model.sentence import joined
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import pass_context, root_command
from matins.surfaces.cli.runs import error_of
from matins.surfaces.cli.states import last_run, next_run, state_text
from matins.surfaces.cli.tables import Cell, Column
from matins.surfaces.cli.terminal_text import one_line, wrapped
from matins.surfaces.cli.timeline import AHEAD, LEGEND, PAST, strip, timeline
from matins.surfaces.cli.times import relative_time

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
    day = context.call("schedules.timeline", start=(context.now - PAST).isoformat(),
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
    strips = [[Cell("LAST SLOTS".rjust(_BARS))], *(_right(strip(item["bars"])) for item in schedules)]
    yield [f"{_joined(context, marks)}  {text}" for marks, text in zip(strips, texts, strict=True)]
    number = context.call("schedules.counts")["all"] - len(schedules)
    if number > 0:
        yield [f"… and {number} more: matins list"]


def _right(marks: list[Cell]) -> list[Cell]:
    return [Cell(" " * (_BARS - len(marks))), *marks]


def _joined(context: CliContext, marks: Sequence[Cell]) -> str:
    return "".join(context.painted(mark) for mark in marks)
