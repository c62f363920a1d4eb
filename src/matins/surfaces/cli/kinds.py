"""Things that are listed, set and removed by name: one noun for each kind, all made the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from matins.surfaces.cli.commands import Noun, pass_desk, removed
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import one_line
from matins.surfaces.cli.words import Word, given, word_options

Item = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    noun: str
    what: str
    """One of them, as people call it."""
    help: str
    use_cases: tuple[str, str, str]
    """To list them, to set one, to drop one."""
    helps: tuple[str, str, str]
    columns: tuple[Column, ...]
    rows: Callable[[Item], list[tuple[str, ...]]]
    empty: str
    told: Callable[[Item], str]
    """What is said of one that was set."""
    words: tuple[Word, ...] = ()
    key: str = "name"
    """The argument and the field by which it is found."""
    value: str | None = None
    """The one number that it is, said without an option."""


def noun_of(kind: Kind) -> Noun:
    """`matins NOUN list`, `set` and `rm`."""
    group = Noun(kind.noun, help=kind.help)
    for add in (_add_list, _add_set, _add_remove):
        add(group, kind)
    return group


def _add_list(group: Noun, kind: Kind) -> None:
    def list_them(desk: Desk) -> None:
        items: list[Item] = desk.ask(kind.use_cases[0])
        rows = [row for item in items for row in kind.rows(item)]
        desk.show(items, lambda: desk.table(kind.columns, rows) if rows else kind.empty)

    group.command("list", help=kind.helps[0])(pass_desk(list_them))


def _add_set(group: Noun, kind: Kind) -> None:
    def set_one(desk: Desk, **options: Any) -> None:
        words = given(kind.words, options) | ({kind.value: options[kind.value]} if kind.value else {})
        made = desk.ask(kind.use_cases[1], **{kind.key: options[kind.key]}, **words)
        item = made or _found(desk, kind, options[kind.key])
        desk.show(item, lambda: one_line(kind.told(item)))

    decorated = pass_desk(set_one)
    if kind.value:
        decorated = click.argument(kind.value, type=int)(decorated)
    else:
        decorated = word_options(kind.words)(decorated)
    group.command("set", help=kind.helps[1])(click.argument(kind.key)(decorated))


def _found(desk: Desk, kind: Kind, name: str) -> Item:
    """Where setting it answers nothing."""
    return next(item for item in desk.ask(kind.use_cases[0]) if item[kind.key] == name)


def _add_remove(group: Noun, kind: Kind) -> None:
    def remove_one(desk: Desk, **named: str) -> None:
        desk.show(*removed(kind.what, one_line(named[kind.key]), bool(desk.ask(kind.use_cases[2], **named))))

    group.command("rm", help=kind.helps[2])(click.argument(kind.key)(pass_desk(remove_one)))
