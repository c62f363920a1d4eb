"""`matins tokens`: API tokens for programs and people."""

from __future__ import annotations

from datetime import datetime

import click

from matins.errors import NotFound
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, pass_context
from matins.surfaces.cli.instants import FUTURE
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.terminal_text import one_line
from matins.surfaces.cli.times import relative_time

_ROLES = ("owner", "operator", "viewer", "agent")
_EMPTY = "No tokens. Create one: matins tokens create NAME"
tokens = NounGroup("tokens", help_of("tokens"))


@tokens.command("list")
@pass_context
def list_tokens(context: CliContext) -> None:
    """List tokens. The secrets themselves are not kept."""
    context.show_list(_COLUMNS, context.call("tokens.list"), _EMPTY)


def _state(item: Document, now: datetime) -> str:
    if item["revoked_at"]:
        return f"revoked {relative_time(item['revoked_at'], now)}"
    if not item["expires_at"]:
        return "valid"
    return f"expires {relative_time(item['expires_at'], now)}"


_COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name", 12, middle=True),
    Column("ROLE", "role"),
    Column("RIGHTS", lambda item, now: ", ".join(item["rights"] or ()) or "all of its role", 8),
    Column("USED", lambda item, now: relative_time(item["used_at"], now) if item["used_at"] else "never"),
    Column("STATE", _state),
)


@tokens.command()
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), default="operator", help="Role of the token. Default: operator.")
@click.option(
    "--right", "rights", multiple=True, metavar="RIGHT", help="Right to grant; repeatable. Default: the role's."
)
@click.option("--expires", type=FUTURE, metavar="INSTANT", help="When the token expires: 30d, 2026-12-31T18:00.")
@pass_context
def create(context: CliContext, name: str, role: str, rights: tuple[str, ...], expires: str | None) -> None:
    """Create a token for NAME. It is shown once."""
    item = context.call("tokens.create", name=name, role=role, rights=list(rights) or None, expires_at=expires)
    context.show(item, lambda: item["token"])
    context.note(f"Store the token now. It is not shown again. To revoke it: matins tokens revoke {item['id']}")


@tokens.command()
@click.argument("token_id", metavar="ID")
@pass_context
def revoke(context: CliContext, token_id: str) -> None:
    """Revoke a token at once."""
    revoked = bool(context.call("tokens.revoke", token_id=token_id))
    if not revoked:
        _check_not_a_name(context, token_id)
    absent = f'There is no token "{token_id}": nothing to revoke.'
    context.show({"revoked": revoked}, lambda: one_line(f"Revoked the token {token_id}." if revoked else absent))


def _check_not_a_name(context: CliContext, given: str) -> None:
    """Raise if a name was given instead of an ID: the token would stay valid unnoticed."""
    named = [item["id"] for item in context.call("tokens.list") if item["name"] == given and not item["revoked_at"]]
    if named:
        hint = f"Use the ID: matins tokens revoke {' or '.join(named)}"
        raise NotFound(f'"{given}" is the name of a token, not its ID. Nothing was revoked.', value=given, hint=hint)
