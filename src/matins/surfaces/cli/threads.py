"""`matins threads`: the conversations in which agents are spoken to."""

from __future__ import annotations

from typing import Any

import click

from matins.surfaces.cli.commands import Noun, number_argument, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.paging import Page, page_options
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import block, one_line
from matins.surfaces.cli.times import local

_COLUMNS = (Column("THREAD"), Column("AGENT", 8), Column("CHANNEL", 8), Column("STATE"), Column("LAST"))
_EMPTY = "No threads yet: a run of an agent makes one."


@click.group(cls=Noun)
def threads() -> None:
    """Conversations with agents: list, show."""


@threads.command("list")
@page_options("--before", usual=20)
@pass_desk
def list_threads(desk: Desk, before: str | None, limit: int) -> None:
    """All conversations, the newest first."""
    page = Page.of(limit, lambda most: desk.ask("threads", before=before, limit=most))
    rows = [
        (item["id"], item["agent"], item["channel"] or item["session_name"] or "–", item["state"],
         desk.when(item["updated_at"]))
        for item in page.items
    ]  # fmt: skip
    desk.show(page.items, lambda: desk.table(_COLUMNS, rows) if rows else _EMPTY)
    page.tell_more(desk, "matins threads --before", page.last_id)


@threads.command()
@number_argument("thread_id", "THREAD", "a thread", "matins threads")
@page_options("--after")
@pass_desk
def show(desk: Desk, thread_id: str, after: str | None, limit: int) -> None:
    """What was said in one, the oldest first."""
    page = Page.of(limit, lambda most: desk.ask("messages", thread_id=thread_id, after=after, limit=most))
    lines = [line for message in page.items for line in _said(desk, message)]
    desk.show(page.items, lambda: lines or "Nothing more was said.")
    page.tell_more(desk, f"matins threads show {thread_id} --after", page.last_id)


def _said(desk: Desk, message: dict[str, Any]) -> list[str]:
    run = f" (run {message['run_id']})" if message["run_id"] else ""
    head = one_line(f"{local(message['at'], desk.now)} {message['role']}{run}:")
    return [head, *(f"  {line}" for line in block(message["text"].rstrip()).split("\n"))]
