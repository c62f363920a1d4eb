"""Lists a page at a time: how much of them, and that there is more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from matins.surfaces.cli.desk import Desk

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1_000


class Page(NamedTuple):
    items: list[dict[str, Any]]
    more: bool

    @classmethod
    def of(cls, limit: int, ask: Callable[[int], list[dict[str, Any]]]) -> Page:
        """One is asked for beyond the page, to know whether there is more."""
        found = ask(min(limit + 1, _MOST))
        return cls(found[:limit], len(found) > limit or (limit == _MOST and len(found) == _MOST))

    @property
    def last_id(self) -> str:
        return str(self.items[-1]["id"]) if self.items else ""

    def tell_more(self, desk: Desk, command: str, cursor: str) -> None:
        if self.more:
            desk.tell(f"There is more: {command} {cursor}")


def page_options(cursor: str, usual: int = 50) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        text = "Where the page before ended."
        function = click.option(cursor, metavar="ID", help=text)(function)
        kind = click.IntRange(1, _MOST)
        return click.option("--limit", "-l", type=kind, default=usual, show_default=True, help="How many.")(function)

    return decorate
