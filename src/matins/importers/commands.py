"""`matins import`: schedules of crontab and of the other systems, with the old times beside the new."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from matins.errors import InvalidInput
from matins.model.words import counted
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import Command, NounGroup, pass_context, without_none
from matins.surfaces.display import one_line

if TYPE_CHECKING:
    from matins.importers.entries import Comparison, Imported, ImportEntry, Importer


_MORE = """

Without --apply nothing is changed. Every schedule is shown with its times in the next month beside those of the other
system; differences are marked.
"""
_NOUNS = {"agent": "agents", "work_source": "work_sources", "inbound": "inbound", "destination": "destinations"}
_MARKS = {"added": "+", "changed": "~", "same": "=", "taken": "!", "kept": "=", "refused": "!"}
_PAGE = 1_000
_OF_COMMANDS = ("stdin", "environment", "workdir", "deliver", "deliver_on")


@cache
def import_group(noun: str) -> NounGroup:
    from matins.importers import importers

    group = NounGroup(noun, help_of(noun), default="crontab")
    for source, importer in importers().items():
        group.add_command(_command(source, importer))
    return group


def _command(source: str, importer: Importer) -> click.Command:
    @click.command(source, cls=Command, help=importer.help + _MORE)
    @click.argument("path", metavar=importer.target, required=not importer.target.startswith("["))
    @click.option("--apply", "applies", is_flag=True, help="Add the schedules. A second time changes nothing.")
    @click.option("--timezone", "-z", metavar="ZONE", help="Time zone of the other system. Default: this machine's.")
    @click.option("--agent", metavar="NAME", help="Agent that gets all prompts. Default: those of the other system.")
    @click.option("--user", metavar="ACCOUNT", help="Account of the agents, where Matins is root.")
    @click.option("--isolation", type=click.Choice(["none"]), help="Let the agents be root, where Matins is.")
    @pass_context
    def command(
        context: CliContext,
        path: str | None,
        applies: bool,
        timezone: str | None,
        user: str | None,
        isolation: str | None,
        agent: str | None,
        as_commands: bool = False,
    ) -> None:
        from matins.importers import read_import
        from matins.importers.entries import ImportPlace
        from matins.surfaces.home import Home

        here = not context.location["url"]  # on another machine, other folders are there
        place = ImportPlace(
            as_commands,
            without_none(user=user, isolation=isolation),
            context.call("smtp.get")["host"] is not None,
            Home(context.location["home"]).path if here else None,
            agent,
        )
        found = read_import(source, path, timezone or context.app.local_zone(), place)
        actions = _actions(context, found)
        refused: dict[tuple[str, str], str] = {}
        for entry in found.entries if applies else ():
            try:
                _apply(context, entry, actions[entry.kind, entry.name])
            except InvalidInput as error:  # the others are imported
                way = " Import with --user ACCOUNT, or with --isolation none." if error.field == "user" else ""
                refused[entry.kind, entry.name] = error.message + way
                actions[entry.kind, entry.name] = "refused"
        document = _document(context, found, actions, refused, applied=applies)
        context.show(document, lambda: _lines(document))
        if not applies and any(action in ("added", "changed") for action in actions.values()):
            context.note("Nothing was changed. To import: add --apply")

    if importer.calls_agents:
        text = "Keep commands that call an agent as they are."
        return click.option("--as-commands", is_flag=True, help=text)(command)
    return command


# -- what an import changes


def _actions(context: CliContext, found: Imported) -> dict[tuple[str, str], str]:
    from matins.importers.entries import DIGEST, SOURCE

    actions: dict[tuple[str, str], str] = {}
    known = {(each["agent"], each["name"]): each for each in _pages(context, "schedules.list")}
    for entry in found.entries:
        if entry.kind == "schedule":
            there = known.get((entry.settings.get("agent", ""), entry.name))
            labels: Mapping[str, str] = (there or {}).get("labels") or {}
            if there is None:
                action = "added"
            elif labels.get(SOURCE) != found.source:
                action = "taken"
            else:
                action = "same" if labels.get(DIGEST) == entry.settings["labels"][DIGEST] else "changed"
        else:
            names = {each["name"] for each in context.call(f"{_NOUNS[entry.kind]}.list")}
            action = "kept" if entry.name in names else "added"
        actions[entry.kind, entry.name] = action
    return actions


def _pages(context: CliContext, use_case: str) -> Iterator[Document]:
    after: str | None = None
    while page := context.call(use_case, after=after, limit=_PAGE):
        yield from page
        after = page[-1]["id"]


def _apply(context: CliContext, entry: ImportEntry, action: str) -> None:
    settings = dict(entry.settings)
    if entry.kind != "schedule":
        if action == "added":
            context.send(f"{_NOUNS[entry.kind]}.set", {"name": entry.name, **settings})
        return
    agent = settings.pop("agent", "")
    named = {"name": entry.name, "agent": agent}
    if action == "added":
        context.send("schedules.add", named | settings)
    elif action == "changed":
        unset = dict.fromkeys(_OF_COMMANDS if "command" in settings else ())  # a line may have lost it
        context.send("schedules.edit", named | unset | settings)
    if action in ("added", "changed") and entry.paused:
        context.send("schedules.pause", named)


# -- what is shown


def _document(
    context: CliContext,
    found: Imported,
    actions: Mapping[tuple[str, str], str],
    refused: Mapping[tuple[str, str], str],
    *,
    applied: bool,
) -> Document:
    from matins.importers.entries import compare

    entries: list[Document] = []
    for entry in found.entries:
        shown: Document = {
            "kind": entry.kind,
            "name": entry.name,
            "action": actions[entry.kind, entry.name],
            "origin": entry.origin,
            "settings": dict(entry.settings),
            "paused": entry.paused,
            "notes": list(entry.notes),
            "refused": refused.get((entry.kind, entry.name)),
        }
        compared = compare(entry, context.now) if entry.kind == "schedule" else None
        entries.append(shown | (_compared(compared) if compared is not None else {}))
    return {
        "source": found.source,
        "applied": applied,
        "entries": entries,
        "left_out": list(found.left_out),
        "notes": list(found.notes),
    }


def _compared(compared: Comparison) -> Document:
    zone = ZoneInfo(compared.timezone)
    return {
        "when": compared.when,
        "timezone": compared.timezone,
        "old": compared.old,
        "new": compared.new,
        "differences": compared.differences,
        "only_old": [_local(at, zone) for at in compared.only_old],
        "only_new": [_local(at, zone) for at in compared.only_new],
    }


def _local(at: datetime, zone: ZoneInfo) -> str:
    return at.astimezone(zone).isoformat(timespec="minutes")


def _lines(document: Document) -> list[str]:
    lines: list[str] = []
    for entry in document["entries"]:
        lines += _entry_lines(entry)
    lines += [one_line(f"left out: {text}") for text in document["left_out"]]
    lines += [one_line(f"note: {text}") for text in document["notes"]]
    counts = {action: sum(entry["action"] == action for entry in document["entries"]) for action in _MARKS}
    verb = "Imported" if document["applied"] else "To import"
    same = counts["same"] + counts["kept"]
    summary = f"{verb} from {document['source']}: +{counts['added']} ~{counts['changed']} ={same}"
    summary += f", {counted(counts['taken'], 'name')} taken" if counts["taken"] else ""
    return [*lines, summary + (f", {counts['refused']} refused" if counts["refused"] else "")]


def _entry_lines(entry: Document) -> Iterator[str]:
    state = ", paused" if entry["paused"] else ""
    yield one_line(f"{_MARKS[entry['action']]} {entry['kind']} {entry['name']} ({entry['origin']}{state})")
    if entry["action"] == "taken":
        yield "    a schedule of this name is there already, and was not imported: it is left as it is"
    if entry["refused"]:
        yield "    " + one_line(f"refused: {entry['refused']}")
    if command := entry["settings"].get("command"):
        yield "    " + one_line(f"command: {command if isinstance(command, str) else shlex.join(command)}")
    if "when" in entry:
        yield "    " + one_line(f"{entry['when']} ({entry['timezone']})")
        times = f"{counted(entry['old'], 'time')} in 31 days before, {entry['new']} after"
        yield f"    {times}" + (f": {entry['differences']} differ" if entry["differences"] else ", all the same")
    yield from (f"    - {at} only before" for at in entry.get("only_old", ()))
    yield from (f"    + {at} only after" for at in entry.get("only_new", ()))
    yield from ("    " + one_line(f"note: {note}") for note in entry["notes"])
