"""`matins next`, `preview` and `why`.

`matins why`: why a schedule ran or did not run, and the verdict of each gate now.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from matins.errors import InvalidInput
from matins.model.words import joined, runs_per_period, with_command
from matins.surfaces.cli.context import ANY, CliContext, Document
from matins.surfaces.cli.framework import (
    F,
    PlainOption,
    agent_option,
    name_argument,
    pass_context,
    root_command,
    without_none,
)
from matins.surfaces.cli.options import SCHEDULE, given_settings, setting_options, when_option
from matins.surfaces.cli.steps import step_tree
from matins.surfaces.cli.tables import Cell, Column, gate_verdict, moment, run_state, state_text
from matins.surfaces.cli.times import duration_text, instant, relative_time, two_units
from matins.surfaces.display import given_sentence

_DST_TEXTS = {
    "moved": "moved: the clocks skip this time",
    "shifted": "shifted by the clock change",
    "first": "first of two: the clocks go back",
    "second": "second of two: the clocks go back",
}
_FIRES = (
    Column("LOCAL", lambda fire, now: _full(fire["local"], fire["zone"])),
    Column("UTC", lambda fire, now: _utc(fire["utc"])),
    Column("IN", lambda fire, now: two_units(fire["in_seconds"])),
    Column("", lambda fire, now: _DST_TEXTS.get(fire["dst"], ""), 0),
)
_UPCOMING = (
    Column("NEXT RUN", lambda item, now: moment(item["next_run_at"], now)),
    Column("NAME", "name", 22, middle=True),
    Column("AGENT", "agent", 6, middle=True),
    Column("WHEN", "trigger_text", 14, wraps=True),
)
_VERDICT = Column("VERDICT", lambda item, now: _verdict(item["verdict"]))
_SLOTS = (
    Column("SLOT", lambda slot, now: _full(slot["at"], slot["zone"])),
    Column("IN", lambda slot, now: relative_time(slot["at"], now).removeprefix("in ")),
    _VERDICT,
    Column("REASON", lambda slot, now: f"{_sentence(slot)} {_DST_TEXTS.get(slot['dst'], '')}".strip(), 20, wraps=True),
)
_CATCH_UP = (
    Column("SLOT", lambda record, now: moment(record["slot"], now)),
    Column("SLOTS", "slots", right=True),
    _VERDICT,
    Column("REASON", lambda record, now: _sentence(record), 20, wraps=True),
)
_DEFAULT_COUNT = 5
_MARKS = {
    "runs": "✓",
    "skipped": "↷",
    "deferred": "◌",
    "queued": "◌",
    "coalesced": "◌",
    "missed": "↷",
    "over_budget": "↷",
}
_COLOURS = {"runs": "green", "skipped": "yellow", "deferred": "yellow"}
_TEXT_SETTINGS = {name: SCHEDULE[name] for name in ("timezone", "dst_gap", "dst_overlap", "strict")}
_PREVIEWED = {name: SCHEDULE[name] for name in ("timezone", "quiet_hours", "ends_at", "max_executions")}


def _count(text: str, default: int | None = None) -> Callable[[F], F]:
    return click.option(
        "--count", "-n", cls=PlainOption, type=click.IntRange(1, 1000), metavar="N", default=default, help=text
    )


@root_command("next")
@click.argument("text", nargs=-1, metavar="[WHEN]")
@click.option("--after", metavar="INSTANT", help="Time with its offset after which WHEN fires. Default: now.")
@click.option("--name", metavar="NAME", help="Name of the schedule, from which H in a cron expression follows.")
@_count("Number of fires of WHEN (default: 5) or of schedules (20), up to 1000.")
@setting_options(_TEXT_SETTINGS, assignments=False, own_zone=True)
@pass_context
def next_runs(
    context: CliContext, text: tuple[str, ...], after: str | None, name: str | None, count: int | None, **options: Any
) -> None:
    """WHEN is English ("every weekday at 9am"), cron ("0 9 * * 1-5", @daily), a duration (5m), an ISO instant, or an
    RRULE.
    """
    settings = without_none(after=after, name=name) | given_settings(_TEXT_SETTINGS, options)
    if not text:
        if settings:
            given = next(iter(settings))
            option = f"--{given.replace('_', '-')}"
            hint = f'For example: matins next "every day at 9am" {option} …'
            raise InvalidInput(f"{option} needs a WHEN.", field=given, hint=hint)
        items = context.call("schedules.upcoming", limit=count)
        return context.show_list(_UPCOMING, items, "No runs are scheduled. List all schedules: matins list")
    count = _DEFAULT_COUNT if count is None else count
    when = " ".join(text)
    settings |= context.zone_for(when, settings)
    found = context.call("schedules.next_times", text=when, count=count, **settings)
    return context.show(found, lambda: _fires(context, found))


def _fires(context: CliContext, found: Document) -> list[str]:
    lines = [found["trigger_text"], f"time zone: {found['timezone']}"]
    lines += [f"note: {note}" for note in found["notes"]]
    lines += [f"clock change: {change}" for change in found["clock_changes"]]
    fires = _zoned(found["fires"], found)
    return [*context.sentences(lines), "", *(context.table(_FIRES, fires) if fires else ["It does not fire again."])]


def _zoned(items: list[Document], found: Document) -> list[Document]:
    """The items with the time zone in which they are shown."""
    zone = ZoneInfo(found["timezone"])
    return [{**item, "zone": zone} for item in items]


def _utc(text: str) -> str:
    at = instant(text)
    return f"{at:%Y-%m-%d} {_clock(at)}"


def _full(text: str, zone: ZoneInfo) -> str:
    at = instant(text).astimezone(zone)
    return f"{at:%a %Y-%m-%d} {_clock(at)} {at:%Z}"


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second or at.microsecond else f"{at:%H:%M}"


@root_command("preview")
@name_argument
@agent_option()
@_count("Number of slots, up to 1000. Default: 5.", default=_DEFAULT_COUNT)
@when_option
@click.option("--catch-up-since", type=ANY, metavar="INSTANT", help="Time since which no engine would have run.")
@setting_options(_PREVIEWED)
@pass_context
def preview(
    context: CliContext,
    name: str,
    agent: str | None,
    count: int,
    catch_up_since: str | None,
    **options: Any,
) -> None:
    """With --when, --set or another setting, the slots before and after that edit are shown. Nothing is written."""
    named = without_none(name=name, agent=agent)
    settings = given_settings(SCHEDULE, options)
    if catch_up_since is not None:
        found = context.send("schedules.preview_catch_up", named | {"since": catch_up_since})
        return context.show(found, lambda: _catch_up(context, found))
    if settings:
        found = context.send("schedules.preview_edit", {**named, "count": count, **settings})
        return context.show(found, lambda: ["before", *forecast_lines(context, found["before"]), "", "after",
                                            *forecast_lines(context, found["after"])])  # fmt: skip
    found = context.send("schedules.preview", {**named, "count": count})
    return context.show(found, lambda: forecast_lines(context, found))


def forecast_lines(context: CliContext, found: Document) -> list[str]:
    lines = [f"{found['trigger_text']} ({found['timezone']})"]
    standing = joined(found["standing"], found["quote"])
    lines = context.sentences([*lines, standing] if found["state"] != "active" else lines)
    slots = _zoned(found["slots"], found)
    lines += ["", *context.table(_SLOTS, slots)] if slots else []
    lines += ["", *context.sentences([found["then"]])] if found["then"] else []
    lines += ["", *step_tree(context, found["steps"])] if found["steps"] else []
    runs = runs_per_period(found["runs_per_day"])
    return [*lines, "", *context.sentences([f"{runs}, cost {found['cost_per_day']}"])]


def _sentence(item: Document) -> str:
    return joined(item["sentence"], item["quote"])


def _verdict(verdict: str) -> Cell:
    return Cell(f"{_MARKS.get(verdict, '·')} {state_text(verdict)}", _COLOURS.get(verdict))


def _catch_up(context: CliContext, found: Document) -> list[str]:
    return [
        *context.sentences([joined(found["summary"], found["quote"])]),
        *(["", *context.table(_CATCH_UP, found["records"])] if found["records"] else []),
    ]


_GATES = (
    Column("GATE", lambda gate, now: state_text(gate["gate"])),
    Column("VERDICT", lambda gate, now: gate_verdict(gate["passes"])),
    Column("REASON", lambda gate, now: joined(gate["sentence"], gate["quote"]), 20, wraps=True),
)
_CHECKS = (
    Column("CHECK", "gate"),
    Column("VERDICT", lambda check, now: check["reason"] or check["verdict"]),
    Column("DURATION", lambda check, now: duration_text(check["duration_ms"])),
    Column("OUTPUT", lambda check, now: check["output"] or "", 20),
)


@root_command("why")
@name_argument
@agent_option()
@click.option("--at", type=ANY, metavar="INSTANT", help="Slot to explain: 2026-03-27T09:00. Default: the last slot.")
@pass_context
def why(context: CliContext, name: str, agent: str | None, at: str | None) -> None:
    found = context.call("schedules.why", name=name, agent=agent, at=at)
    context.show(found, lambda: _explained(context, found))
    context.note_if_not_running()


def _explained(context: CliContext, found: Document) -> list[str]:
    given = None if found["run"] is None else given_sentence(found["run"]["run"])
    lines = context.sentences([joined(found["summary"], found["quote"]), *([given] if given else [])])
    if found["run"] is not None:
        answers = [
            with_command(one["sentence"], one["quote"], one["command"]) for one in found["run"]["run"]["answers"]
        ]
        lines += context.sentences([*answers, *filter(None, [found["run"]["unsent"]])])
        lines += ["", *_detail(context, found["run"])]
    if found["slot"] is not None:
        lines += ["", *context.table(_GATES, found["slot"]["gates"])]
    return [*lines, "", "If it were due now:", *context.table(_GATES, found["now"])]


def _detail(context: CliContext, detail: Document) -> list[str]:
    run = detail["run"]
    lines = context.fields(
        ("run", run["id"]),
        ("state", run_state(run).text),
        ("reason", run["reason"] and state_text(run["reason"])),
        ("started", run["started_at"] and context.when(run["started_at"])),
        ("duration", None if run["duration_ms"] is None else duration_text(run["duration_ms"])),
        ("attempts", len(detail["attempts"]) or None),
        ("approvals", ", ".join(_approval(approval) for approval in detail["approvals"])),
    )
    if run["steps"]:
        lines += ["", *step_tree(context, run["steps"])]
    return [*lines, "", *context.table(_CHECKS, detail["checks"])] if detail["checks"] else lines


def _approval(approval: Document) -> str:
    votes = ", ".join(f"{vote['vote']} by {vote['voter']}" for vote in approval["votes"])
    return f"{approval['id']} {approval['state']}" + (f" ({votes})" if votes else "")
