"""`matins plan`, `apply`, `schema`: the configuration file."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path

import click

from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, pass_context, root_command
from matins.surfaces.cli.tables import plain
from matins.surfaces.display import one_line
from matins.texts.atomic_file import read

_MARKS = {"added": "+", "removed": "-", "changed": "~"}


_file_option = click.option(
    "--file", metavar="FILE", type=click.Path(dir_okay=False), help="File to send. Default: the one of the daemon."
)


@root_command("plan")
@_file_option
@pass_context
def plan(context: CliContext, file: str | None) -> None:
    found = context.call("file.plan", **_sent(file))
    context.show(found, lambda: _planned(found))
    if found["waits"]:
        context.note(f"The file is not applied by itself: {found['waits']}. To apply it: matins apply")


@root_command("apply")
@_file_option
@click.option("--digest", metavar="HASH", help="Apply only if the file is unchanged since plan.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_context
def apply(context: CliContext, file: str | None, digest: str | None, yes: bool) -> None:
    sent = _sent(file)
    found = context.call("file.plan", **sent)
    if not found["entries"]:
        return context.show(found, lambda: _planned(found))
    if not yes and context.is_interactive:
        context.note("\n".join(_planned(found)))
    context.confirm("Apply the file?", yes=yes)
    if yes or not context.is_interactive:  # the plan was not shown
        for entry in found["entries"]:
            for note in entry.get("notes") or ():
                context.note(one_line(f"{entry['name']} (line {entry['line']}): {note}"))
    context.note(f"Applying {found['path']} …")
    applied = context.call("file.apply", digest=digest or found["digest"], **sent)
    return context.show(applied, lambda: one_line(f"Applied {applied['path']}: {applied['note']}"))


def _sent(file: str | None) -> dict[str, str]:
    """The text of a file of this machine, and where it is."""
    if file is None:
        return {}
    path = Path(file).expanduser().absolute()
    return {"text": read(path).text, "path": f"{socket.gethostname()}:{path}"}


def _planned(found: Document) -> list[str]:
    lines = [one_line(f"{found['path']}: {found['note']}")]
    for entry in found["entries"]:
        mark = _MARKS.get(entry["change"], "·")
        place = f" (line {entry['line']})" if entry.get("line") else ""
        was = f"{entry['was']} → " if entry["was"] else ""
        lines.append(one_line(f"{mark} {entry['kind']} {was}{entry['name']}{place}"))
        if entry["change"] != "removed" and not was:
            lines += [_changed(setting, new=entry["change"] == "added") for setting in entry.get("settings") or ()]
            lines += ["    " + one_line(f"note: {note}") for note in entry.get("notes") or ()]
    return lines if found["entries"] else [*lines, "There are no changes."]


def _changed(setting: Document, *, new: bool) -> str:
    before = "" if new else f"{plain(setting['before'])} → "
    return "    " + one_line(f"{setting['setting']}: {before}{plain(setting['after'])}")


@root_command("schema")
@pass_context
def schema(context: CliContext) -> None:
    """Editors use it to complete and check the file."""
    context.out(context.app.file_schema())


@cache
def noun_group(noun: str) -> NounGroup:
    group = NounGroup(noun, help_of(noun), default="plan")
    group.takes(plan=plan, apply=apply, schema=schema)
    return group
