"""Pages of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import PlainOption

F = TypeVar("F", bound=Callable[..., Any])
_MAX_LIMIT = 1_000


class Page(NamedTuple):
    items: list[Document]
    more: bool

    @classmethod
    def of(cls, limit: int, fetch: Callable[[int], list[Document]]) -> Page:
        """The page. One more item is fetched, to know whether there are more."""
        found = fetch(min(limit + 1, _MAX_LIMIT))
        return cls(found[:limit], len(found) > limit or (limit == _MAX_LIMIT and len(found) == _MAX_LIMIT))

    @property
    def last_id(self) -> str:
        return str(self.items[-1]["id"]) if self.items else ""

    def note_more(self, context: CliContext, command: str, cursor: str) -> None:
        if self.more:
            context.note(f"There are more: {command} {cursor}")


def page_options(cursor: str, default: int = 50) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        text = "ID of the last item on the previous page."
        return click.option(cursor, metavar="ID", help=text)(limit_option(default)(function))

    return decorate


def limit_option(default: int) -> Callable[[F], F]:
    text = f"Maximum number of items, up to {_MAX_LIMIT}. Default: {default}."
    return click.option(
        "--limit", "-l", cls=PlainOption, type=click.IntRange(1, _MAX_LIMIT), default=default, metavar="N", help=text
    )
