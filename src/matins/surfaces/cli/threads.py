"""`matins threads`: conversations with agents."""

from __future__ import annotations

import click

from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, number_argument, pass_context
from matins.surfaces.cli.paging import Page, page_options
from matins.surfaces.cli.states import moment
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.terminal_text import block, one_line
from matins.surfaces.cli.times import local

_COLUMNS = (
    Column("THREAD", "id"),
    Column("AGENT", "agent", 8, middle=True),
    Column("CHANNEL", lambda item, now: item["channel"] or item["session_name"] or "–", 8, middle=True),
    Column("STATE", "state"),
    Column("UPDATED", lambda item, now: moment(item["updated_at"], now)),
)
_EMPTY = "No threads. The first run of an agent creates one."
threads = NounGroup("threads", help_of("threads"))


@threads.command("list")
@page_options("--before", default=20)
@pass_context
def list_threads(context: CliContext, before: str | None, limit: int) -> None:
    """List conversations with agents. The newest is first."""
    page = Page.of(limit, lambda count: context.call("threads.list", before=before, limit=count))
    context.show_list(_COLUMNS, page.items, _EMPTY)
    page.note_more(context, "matins threads --before", page.last_id)


@threads.command()
@number_argument("thread_id", "THREAD", "a thread", "matins threads")
@page_options("--after")
@pass_context
def show(context: CliContext, thread_id: str, after: str | None, limit: int) -> None:
    """Show the messages of a conversation. The oldest is first."""
    page = Page.of(limit, lambda count: context.call("threads.messages", thread_id=thread_id, after=after, limit=count))
    lines = [line for message in page.items for line in _message(context, message)]
    context.show(page.items, lambda: lines or "No messages.")
    page.note_more(context, f"matins threads show {thread_id} --after", page.last_id)


@threads.command()
@number_argument("thread_id", "THREAD", "a thread", "matins threads")
@click.argument("text")
@pass_context
def reply(context: CliContext, thread_id: str, text: str) -> None:
    """Speak to the agent of a conversation: TEXT is the prompt of a run in it."""
    run = context.call("threads.reply", thread_id=thread_id, text=text)
    context.show(run, lambda: one_line(f"Run {run['id']} of {run['schedule']}: {run['status']}."))


def _message(context: CliContext, message: Document) -> list[str]:
    run = f" (run {message['run_id']})" if message["run_id"] else ""
    head = one_line(f"{local(message['at'], context.now)} {message['role']}{run}:")
    return [head, *(f"  {line}" for line in block(message["text"].rstrip()).split("\n"))]
