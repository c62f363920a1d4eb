"""`matins jobs`: the jobs that schedules can name."""

from __future__ import annotations

import click

from matins.errors import NotFound
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import pass_context, root_command
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.terminal_text import one_line, plain

_COLUMNS = (
    Column("JOB", "name"),
    Column("RUNS", "runs"),
    Column("INPUTS", lambda item, now: _inputs(item), 12, wraps=True),
    Column("HELP", lambda item, now: item["help"], 16, wraps=True),
)
_INPUTS = (
    Column("INPUT", "name"),
    Column("KIND", "kind"),
    Column("DEFAULT", lambda item, now: "required" if item["required"] else plain(item["default"]), 8),
    Column("HELP", lambda item, now: item["help"], 16, wraps=True),
)


@root_command("jobs")
@click.argument("job", required=False)
@pass_context
def jobs(context: CliContext, job: str | None) -> None:
    """With JOB, its inputs are listed."""
    found: list[Document] = context.call("system.jobs")
    if job is None:
        context.show(found, lambda: context.table(_COLUMNS, found))
        return
    named = next((item for item in found if item["name"] == job), None)
    if named is None:
        raise NotFound(f'There is no job "{job}".', value=job, field="job", hint="List them: matins jobs")
    context.show(named, lambda: _job(context, named))


def _inputs(item: Document) -> str:
    """The names of the inputs; optional ones in brackets."""
    return ", ".join(one["name"] if one["required"] else f"[{one['name']}]" for one in item["inputs"]) or "–"


def _job(context: CliContext, item: Document) -> list[str]:
    needs = [
        text for text, holds in (("destructive", item["destructive"]), ("owner only", item["owner_only"])) if holds
    ]
    fields = context.fields(
        ("job", one_line(item["name"])),
        ("help", item["help"]),
        ("runs", {"function": "a function", "agent": "an agent", "event": "an event"}[item["runs"]]),
        ("approval", ", ".join(needs) or "harmless"),
        ("services", ", ".join(item["services"])),
        ("engines", str(item["engines"])),
    )
    return [*fields, "", *context.table(_INPUTS, item["inputs"])] if item["inputs"] else fields
