"""`matins token`: keys for programs and people."""

from __future__ import annotations

from typing import Any

import click

from matins.errors import NotFound
from matins.surfaces.cli.commands import Noun, pass_desk, removed
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.instants import AHEAD
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import one_line

_COLUMNS = (Column("ID"), Column("NAME", 8), Column("ROLE"), Column("RIGHTS", 8), Column("USED"), Column("STATE", 8))
_ROLES = ("owner", "operator", "viewer", "agent")


@click.group(cls=Noun)
def token() -> None:
    """Keys for programs and people: create, list, revoke."""


@token.command("list")
@pass_desk
def list_tokens(desk: Desk) -> None:
    """All tokens; the secret itself is nowhere."""
    items: list[dict[str, Any]] = desk.ask("tokens")
    rows = [
        (item["id"], item["name"], item["role"], ", ".join(item["rights"] or ()) or "all of its role",
         desk.away(item["used_at"]) if item["used_at"] else "never", _state(desk, item))
        for item in items
    ]  # fmt: skip
    desk.show(items, lambda: desk.table(_COLUMNS, rows) if rows else "No tokens. Make one: matins token create NAME")


def _state(desk: Desk, item: dict[str, Any]) -> str:
    if item["revoked_at"]:
        return f"revoked {desk.away(item['revoked_at'])}"
    if not item["expires_at"]:
        return "valid"
    return f"expires {desk.away(item['expires_at'])}"


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), default="operator", show_default=True)
@click.option("--right", "rights", multiple=True, metavar="RIGHT", help="Only these of its role: read, run …")
@click.option("--expires", type=AHEAD, metavar="INSTANT", help="30d, 2026-12-31T18:00.")
@pass_desk
def create(desk: Desk, name: str, role: str, rights: tuple[str, ...], expires: str | None) -> None:
    """Make a token for NAME. It is shown once."""
    item = desk.ask("create_token", name=name, role=role, rights=list(rights) or None, expires_at=expires)
    desk.show(item, lambda: item["token"])
    desk.tell(f"Keep it safe: it is not shown again. To end it: matins token revoke {item['id']}")


@token.command()
@click.argument("token_id", metavar="ID")
@pass_desk
def revoke(desk: Desk, token_id: str) -> None:
    """End a token at once."""
    gone = bool(desk.ask("revoke_token", token_id=token_id))
    if not gone:
        _refuse_a_name(desk, token_id)
    desk.show(*removed("token", one_line(token_id), gone))


def _refuse_a_name(desk: Desk, said: str) -> None:
    """Whoever says the name must not believe that it is revoked."""
    named = [item["id"] for item in desk.ask("tokens") if item["name"] == said and not item["revoked_at"]]
    if named:
        hint = f"by its ID: matins token revoke {' or '.join(named)}"
        raise NotFound(f'"{said}" is the name of a token, not its ID: nothing is revoked', value=said, hint=hint)
