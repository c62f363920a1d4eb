"""`matins login` and `matins sessions`: browsers that are logged in."""

from __future__ import annotations

import click

from matins.errors import StoreUnavailable
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext
from matins.surfaces.cli.framework import NounGroup, complete_keys, pass_context, root_command
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.terminal_text import one_line
from matins.surfaces.cli.times import relative_time

_COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name", 12, middle=True),
    Column("ROLE", "role"),
    Column("TOKEN", "token", 8, middle=True),
    Column(
        "USED",
        lambda item, now: relative_time(item["used_at"] or item["opened_at"], now) if item["opened_at"] else "never",
    ),
    Column(
        "STATE",
        lambda item, now: f"{'open' if item['opened_at'] else 'link'}, ends {relative_time(item['expires_at'], now)}",
    ),
)
_EMPTY = "No browser is logged in. Print a link: matins login"
sessions = NounGroup("sessions", help_of("sessions"))


@root_command("login")
@click.argument("person", required=False, shell_complete=complete_keys("people"))
@click.option("--for", "token_id", metavar="ID", help="Token whose rights the link has. Default: your own rights.")
@pass_context
def login(context: CliContext, person: str | None, token_id: str | None) -> None:
    """The link opens once, within ten minutes.

    With PERSON, it is that person's: its session has their name and role, and ends with them. Otherwise it ends with
    the token that it came from."""
    url: str | None = getattr(context.transport, "url", None)
    if url is None:
        raise StoreUnavailable("No daemon is running, and a browser needs one.", hint="Start it: matins up")
    item = context.call("sessions.create", token_id=token_id, person=person)
    context.show(item, lambda: f"{url}{item['path']}")
    context.note(f"To void the link or to end its session: matins sessions revoke {item['id']}")


@sessions.command("list")
@pass_context
def list_sessions(context: CliContext) -> None:
    """List browsers that are logged in, and links that were not opened yet."""
    context.show_list(_COLUMNS, context.call("sessions.list"), _EMPTY)


@sessions.command()
@click.argument("session_id", metavar="ID")
@pass_context
def revoke(context: CliContext, session_id: str) -> None:
    """End a browser session, or void its link, at once."""
    revoked = bool(context.call("sessions.revoke", session_id=session_id))
    absent = f'There is no session "{session_id}": nothing to revoke.'
    context.show({"revoked": revoked}, lambda: one_line(f"Ended the session {session_id}." if revoked else absent))
