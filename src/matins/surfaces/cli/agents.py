"""`matins agents`: who is woken."""

from __future__ import annotations

import os
from typing import Any

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.commands import Noun, complete_agents, pass_desk, removed
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.states import in_words
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import one_line, plain
from matins.surfaces.cli.words import AGENT, given, word_options

_COLUMNS = (Column("NAME"), Column("RUNNER"), Column("MODEL", 8), Column("WORKDIR", 12), Column("MAX COST"))
_EMPTY = "No agents yet. Make one: matins agents set scout --runner claude"


@click.group(cls=Noun)
def agents() -> None:
    """Who is woken: list, show, set, edit, rm."""


@agents.command("list")
@pass_desk
def list_agents(desk: Desk) -> None:
    """All agents."""
    items: list[dict[str, Any]] = desk.ask("agents")
    rows = [tuple(item[word] or "–" for word in ("name", "runner", "model", "workdir", "max_cost")) for item in items]
    desk.show(items, lambda: desk.table(_COLUMNS, rows) if rows else _EMPTY)


@agents.command()
@click.argument("name", shell_complete=complete_agents)
@pass_desk
def show(desk: Desk, name: str) -> None:
    """One agent; of its environment only the references.

    What else its environment holds is not shown.
    """
    item = desk.ask("get_agent", name=name)
    desk.show(item, lambda: _shown(desk, item))


def _shown(desk: Desk, item: dict[str, Any]) -> list[str]:
    rest = [(in_words(word), plain(value)) for word, value in item.items() if value and word != "name"]
    return desk.fields(("name", item["name"]), *rest)


@agents.command("set")
@click.argument("name", shell_complete=complete_agents)
@word_options(AGENT)
@pass_desk
def set_agent(desk: Desk, name: str, **options: Any) -> None:
    """Make an agent, or say it anew: all of its words.

    \b
    matins agents set scout --runner claude --workdir ~/code/site --max-cost '$2'
    """
    item = desk.ask("set_agent", name=name, **_from_here(desk, given(AGENT, options)))
    desk.show(item, lambda: one_line(f"Set the agent {item['name']}: runner {item['runner']}"))


@agents.command("edit")
@click.argument("name", shell_complete=complete_agents)
@word_options(AGENT, unset=True)
@pass_desk
def edit_agent(desk: Desk, name: str, **options: Any) -> None:
    """Change only what is said of an agent; the rest stays.

    \b
    matins agents edit scout --model opus --unset max_cost
    """
    words = _from_here(desk, given(AGENT, options))
    if not words:
        raise InvalidInput("Nothing is said that should change", field="set", hint="--model, --set word=value, --unset")
    before = desk.ask("get_agent", name=name)
    item = desk.door.call("edit_agent", name=name, **words)
    desk.show(item, lambda: [*_changes(before, item), one_line(f"Changed the agent {item['name']}.")])


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    both = [*after, *(word for word in before if word not in after)]
    changed = [(word, before.get(word), after.get(word)) for word in both if before.get(word) != after.get(word)]
    return [f"  {in_words(word)}: {plain(old)} → {plain(new)}" for word, old, new in changed]


def _from_here(desk: Desk, words: dict[str, Any]) -> dict[str, Any]:
    """A folder counts from where it is typed; on another machine that means nothing."""
    folder = words.get("workdir")
    if not isinstance(folder, str) or folder.startswith("~") or desk.place["url"]:
        return words
    return words | {"workdir": os.path.abspath(folder)}  # noqa: PTH100 - a link stays as it was typed


@agents.command("rm")
@click.argument("name", shell_complete=complete_agents)
@pass_desk
def remove(desk: Desk, name: str) -> None:
    """Remove an agent that no schedule wakes."""
    desk.show(*removed("agent", one_line(name), bool(desk.ask("drop_agent", name=name))))
