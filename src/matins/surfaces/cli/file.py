"""`matins plan`, `apply`, `schema`: the file that people edit."""

from __future__ import annotations

from typing import Any

import click

from matins.surfaces.cli.commands import Command, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.text import one_line, plain

_MARKS = {"added": "+", "removed": "-", "changed": "~"}


@click.command(cls=Command)
@pass_desk
def plan(desk: Desk) -> None:
    """What a reload of the file would do; nothing is done."""
    found = desk.ask("plan")
    desk.show(found, lambda: _told(found))
    if found["waits"]:
        desk.tell(f"It waits for you: {found['waits']}. To do it: matins apply")


@click.command(cls=Command)
@click.option("--digest", metavar="HASH", help="Only if the file is still the one that plan showed.")
@click.option("--yes", "-y", is_flag=True, help="Without being asked again.")
@pass_desk
def apply(desk: Desk, digest: str | None, yes: bool) -> None:
    """Do what plan shows."""
    found = desk.ask("plan")
    if not found["entries"]:
        return desk.show(found, lambda: _told(found))
    if not yes and desk.somebody_types:
        desk.tell("\n".join(_told(found)))
    desk.confirm("Apply it?", yes=yes)
    desk.tell(f"Applying {found['path']} …")
    applied = desk.ask("apply", digest=digest or found["digest"])
    return desk.show(applied, lambda: one_line(f"Applied {applied['path']}: {applied['note']}"))


def _told(found: dict[str, Any]) -> list[str]:
    lines = [one_line(f"{found['path']}: {found['note']}")]
    for entry in found["entries"]:
        mark = _MARKS.get(entry["change"], "·")
        place = f" (line {entry['line']})" if entry.get("line") else ""
        lines.append(one_line(f"{mark} {entry['kind']} {entry['name']}{place}"))
        if entry["change"] != "removed":
            lines += [_changed(word, new=entry["change"] == "added") for word in entry.get("words") or ()]
    return lines if found["entries"] else [*lines, "Nothing would change."]


def _changed(word: dict[str, Any], *, new: bool) -> str:
    before = "" if new else f"{plain(word['before'])} → "
    return "    " + one_line(f"{word['word']}: {before}{plain(word['after'])}")


@click.command(cls=Command)
@pass_desk
def schema(desk: Desk) -> None:
    """The JSON Schema of the file, for editors."""
    from importlib.resources import files  # takes long to load

    text = files("matins.config").joinpath("matins.schema.json").read_text(encoding="utf-8")
    desk.out(text.rstrip())
