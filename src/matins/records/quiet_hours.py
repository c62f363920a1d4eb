"""Quiet hours: times at which no run starts."""

from typing import Any

from matins.engine.quiet_hours import QuietHours, check_quiet_hours
from matins.records.kind import Column, RecordContext, RecordKind
from matins.records.storage import POLICIES


def _check(hours: QuietHours, context: RecordContext) -> QuietHours:
    check_quiet_hours(hours)
    return hours


def _windows(document: dict[str, Any]) -> str:
    return ", ".join(document["windows"])


QUIET_HOURS = RecordKind(
    kind="quiet_hours",
    noun="quiet_hours",
    one="quiet hours policy",
    value=QuietHours,
    help="Manage quiet hours.",
    file_help="When nothing starts, by name.",
    storage=POLICIES,
    complete=_check,
    wakes="quiet_hours",
    columns=(
        Column("NAME", "name"),
        Column("WINDOWS", _windows),
        Column("TIMEZONE", "timezone"),
        Column("MODE", "mode"),
    ),
    example='matins quiet-hours set nights --windows "22:00-07:00" -z Europe/London',
)
