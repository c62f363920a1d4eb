"""`matins status`: what needs a person, what runs, and what comes next."""

from __future__ import annotations

from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import pass_context, root_command
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.terminal_text import one_line

_ATTENTION = (Column("NEEDS YOU", 20, wraps=True), Column("SINCE"), Column("COMMAND", 12))


@root_command("status")
@pass_context
def status(context: CliContext) -> None:
    found = context.call("system.status")
    context.show(found, lambda: _status(context, found))


def _status(context: CliContext, found: Document) -> list[str]:
    rows = [
        (one_line(item["sentence"]), context.relative_time(item["since"]) if item["since"] else "–", item["command"])
        for item in found["attention"]
    ]
    lines = [*context.table(_ATTENTION, rows), ""] if rows else []
    running = [f"{run['schedule']} ({run['run_id']})" for run in found["running"]]
    coming = [f"{item['schedule']} {context.when(item['at'])}" for item in found["next"]]
    lines += context.fields(
        ("now", found["summary"]),
        ("running", ", ".join(running) or "–"),
        ("next", ", ".join(coming) or "–"),
        ("today", found["spend_today"]),
    )
    return lines
