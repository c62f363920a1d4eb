"""Hooks, quiet hours, work sources."""

import re
import shlex
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from matins.engine.calendars import YEARS_AHEAD, Calendar, read_days
from matins.engine.ics import days_of_ics, is_ics
from matins.engine.quiet_hours import QuietHours, check_quiet_hours
from matins.engine.when.triggers import to_datetime
from matins.errors import Example, InvalidInput
from matins.model.policies import HOOK_EVENTS, Hook, WorkSourceDefinition
from matins.records.kind import POLICIES, Column, RecordChange, RecordContext, RecordKind
from matins.texts.atomic_file import decoded, file_error
from matins.texts.untrusted_folder import read_file

_MAX_ICS_BYTES = 4_000_000


def _check_hook(hook: Hook, context: RecordContext) -> Hook:
    from matins.executors.secrets import check_command

    return replace(hook, command=check_command(hook.command, "command", workdir=context.workdir))


def _changed(hook: Hook, before: Hook | None, change: RecordChange) -> None:
    """Keep the digests of the files that the hook runs. A change of the time limit alone leaves them."""
    from matins.runtime.approval_requests import keep_hook_files
    from matins.runtime.command_files import files_run_by

    if before is not None and before.command == hook.command and "command" not in change.given:
        return
    files = files_run_by([hook.command], change.policies.workdir)
    keep_hook_files(change.transaction, hook.event, files, change.principal, change.now)


def _deleted(hook: Hook, before: Hook | None, change: RecordChange) -> None:
    from matins.runtime.approval_requests import delete_hook_files

    delete_hook_files(change.transaction, hook.event, change.principal, change.now)


def _command(document: dict[str, Any]) -> str:
    command = document["command"]
    return command if isinstance(command, str) else shlex.join(command)


HOOKS = RecordKind(
    kind="hook",
    noun="hooks",
    one="hook",
    key="event",
    keys=HOOK_EVENTS,
    value=Hook,
    help="Manage commands that run before or after every run.",
    file_help="Commands for every schedule, by event.",
    storage=POLICIES,
    alone="command",
    complete=_check_hook,
    changed=_changed,
    deleted=_deleted,
    columns=(Column("EVENT", "event"), Column("COMMAND", _command), Column("TIMEOUT", "timeout")),
    example="matins hooks set before:schedule:trigger --command ./may-it-run.sh",
)


def _check_quiet_hours(hours: QuietHours, context: RecordContext) -> QuietHours:
    check_quiet_hours(hours)
    return hours


def _windows(document: dict[str, Any]) -> str:
    return ", ".join((*document["windows"], *document["calendars"]))


QUIET_HOURS = RecordKind(
    kind="quiet_hours",
    noun="quiet_hours",
    one="quiet hours policy",
    value=QuietHours,
    help="Manage quiet hours.",
    file_help="When nothing starts, by name.",
    storage=POLICIES,
    complete=_check_quiet_hours,
    wakes="quiet_hours",
    columns=(
        Column("NAME", "name"),
        Column("WINDOWS", _windows),
        Column("TIMEZONE", "timezone"),
        Column("MODE", "mode"),
    ),
    example='matins quiet-hours set nights --windows "22:00-07:00" -z Europe/London',
)


def _check_calendar(calendar: Calendar, context: RecordContext) -> Calendar:
    """The calendar with its days for the coming years, so that engines need neither the holidays nor the file."""
    if not calendar.dates and calendar.country is None and calendar.ics is None:
        hint = Example({"dates": ["2026-12-25 Christmas Day"]})
        raise InvalidInput('A calendar needs "dates", "country" or "ics".', field="dates", hint=hint)
    days = () if calendar.country is None else _holidays(calendar.country, context.now)
    if calendar.ics is not None:
        days += _events(calendar.ics, context)
    read_days(calendar.dates)
    return replace(calendar, days=days)


def _events(ics: str, context: RecordContext) -> tuple[str, ...]:
    """The all-day events of a file, or of the text of one."""
    text = ics
    if not is_ics(ics):
        if re.match(r"[a-z]+://", ics, re.IGNORECASE):
            hint = "Fetch it first: curl -o days.ics URL; then --ics days.ics. A schedule can do so every day."
            raise InvalidInput('"ics" is a file, and no URL.', value=ics, field="ics", hint=hint)
        path = Path(context.workdir or ".", Path(ics.strip()).expanduser())
        try:
            text = decoded(path, read_file(path, _MAX_ICS_BYTES))
        except OSError as error:
            raise file_error(path, error.strerror or str(error)) from None
    year = to_datetime(context.now).year
    return days_of_ics(text, date(year - 1, 1, 1), date(year + YEARS_AHEAD, 12, 31))


def _holidays(country: str, now: int) -> tuple[str, ...]:
    try:
        import holidays
    except ImportError:
        message = "Public holidays need the extra `holidays`."
        raise InvalidInput(message, value=country, field="country", hint="pip install 'matins[holidays]'") from None
    code, _, part = country.partition("-")
    year = to_datetime(now).year
    years = range(year - 1, year + YEARS_AHEAD + 1)
    try:
        found = holidays.country_holidays(code.upper(), subdiv=part.upper() or None, years=years, language="en_US")
    except NotImplementedError as error:
        message, hint = f'"country" is not known: {country}.', "Use an ISO code: DE, or DE-BE for a part of it."
        raise InvalidInput(message, value=country, field="country", hint=hint) from error
    return tuple(f"{day.isoformat()} {name}" for day, name in sorted(found.items()))


def _source(document: dict[str, Any]) -> str:
    ics = document["ics"] and ("iCalendar" if is_ics(document["ics"]) else document["ics"])
    return ", ".join(filter(None, (document["country"], ics))) or "–"


def _dates(document: dict[str, Any]) -> str:
    return ", ".join(document["dates"]) or "–"


def _day_count(document: dict[str, Any]) -> str:
    return str(len(document["days"]))


def _without_days(calendar: Calendar) -> Calendar:
    return replace(calendar, days=())


CALENDARS = RecordKind(
    kind="calendar",
    noun="calendars",
    one="calendar",
    value=Calendar,
    help="Manage calendars: days on which schedules do not run.",
    file_help="Days on which schedules do not run, by name.",
    storage=POLICIES,
    alone="dates",
    complete=_check_calendar,
    as_written=_without_days,
    wakes="quiet_hours",
    columns=(
        Column("NAME", "name"),
        Column("FROM", _source),
        Column("DATES", _dates),
        Column("DAYS", _day_count, right=True),
    ),
    example='matins calendars set closing --dates "12-24..12-31"',
)


def _check_work_source(source: WorkSourceDefinition, context: RecordContext) -> WorkSourceDefinition:
    from matins.executors.work_items import check_work_source

    return check_work_source(source)


def _place(document: dict[str, Any]) -> str:
    return document["repo"] if document["kind"] == "github" else document["path"]


def _labels(document: dict[str, Any]) -> str:
    return ", ".join(document["labels"]) if document["kind"] == "github" else "–"


WORK_SOURCES = RecordKind(
    kind="work_source",
    noun="work_sources",
    one="work source",
    value=WorkSourceDefinition,
    help="Manage sources of work items.",
    file_help="Where work items come from, by name.",
    storage=POLICIES,
    complete=_check_work_source,
    columns=(
        Column("NAME", "name"),
        Column("KIND", "kind"),
        Column("SOURCE", _place),
        Column("LABELS", _labels),
    ),
    example="matins work-sources set todo --kind tasks --path TASKS.yaml",
)
