"""`matins tokens`, `matins sessions` and `matins people link`.

`matins login` and `matins sessions`: browsers that are logged in.
"""

from __future__ import annotations

from datetime import datetime
from typing import get_args

import click

from matins.errors import InvalidInput, NotFound, StoreUnavailable
from matins.model.access import PERSON_ROLES, LinkedService
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import FUTURE, CliContext, Document
from matins.surfaces.cli.framework import NounGroup, complete_keys, pass_context, root_command
from matins.surfaces.cli.records import record_group
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.times import relative_time
from matins.surfaces.display import one_line

_ROLES = ("owner", "operator", "viewer", "agent")
_NO_TOKENS = "No tokens. Create one: matins tokens create NAME"
tokens = NounGroup("tokens", help_of("tokens"))


@tokens.command("list")
@pass_context
def list_tokens(context: CliContext) -> None:
    """List tokens. The secrets themselves are not kept."""
    context.show_list(_TOKEN_COLUMNS, context.call("tokens.list"), _NO_TOKENS)


def _state(item: Document, now: datetime) -> str:
    if item["revoked_at"]:
        return f"revoked {relative_time(item['revoked_at'], now)}"
    if not item["expires_at"]:
        return "valid"
    return f"expires {relative_time(item['expires_at'], now)}"


_TOKEN_COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name", 12, middle=True),
    Column("ROLE", "role"),
    Column("PERSON", lambda item, now: item["person"] or "–"),
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


@tokens.command("revoke")
@click.argument("token_id", metavar="ID")
@pass_context
def revoke_token(context: CliContext, token_id: str) -> None:
    """Revoke a token at once."""
    revoked = bool(context.call("tokens.revoke", token_id=token_id))
    if not revoked:
        valid = [item for item in context.call("tokens.list") if not item["revoked_at"]]
        named = [item["id"] for item in valid if item["name"] == token_id]
        if named:  # it would stay valid unnoticed
            hint = f"Use the ID: matins tokens revoke {' or '.join(named)}"
            message = f'"{token_id}" is the name of a token, not its ID. Nothing was revoked.'
            raise NotFound(message, value=token_id, hint=hint)
    absent = f'There is no token "{token_id}": nothing to revoke.'
    context.show({"revoked": revoked}, lambda: one_line(f"Revoked the token {token_id}." if revoked else absent))


_SESSION_COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name", 12, middle=True),
    Column("ROLE", "role"),
    Column("BY", "method"),
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
_NO_SESSIONS = "No browser is logged in. Print a link: matins login"
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


people = record_group("people")


@people.command("invite")
@click.argument("email")
@click.option("--role", type=click.Choice(PERSON_ROLES), default="operator", help="Role. Default: operator.")
@click.option("--name", help="Name of the person; default: what stands before the @.")
@pass_context
def invite(context: CliContext, email: str, role: str, name: str | None) -> None:
    """Invite a person by e-mail. The link works once, within 7 days.

    Without a mail server, print the link, to be given to them in another way."""
    url: str | None = getattr(context.transport, "url", None)
    item = context.call("people.invite", email=email, role=role, name=name)
    link = item["link"] if "://" in item["link"] else f"{url or ''}{item['link']}"
    context.show(item, lambda: one_line(f"Mailed to {email}." if item["mailed"] else link))
    context.note(f"{item['person']} ({item['role']}) joins by the link, once, within 7 days.")


@people.command("leave")
@click.argument("name", shell_complete=complete_keys("people"))
@click.option("--give-to", metavar="NAME", help="Person to whom the schedules belong then. Default: the owner.")
@pass_context
def leave(context: CliContext, name: str, give_to: str | None) -> None:
    """End what a person has: sessions, tokens, open votes. Nobody else gets the name."""
    item = context.call("people.leave", name=name, give_to=give_to)
    sessions, tokens, votes, schedules = (
        f"{item[f'{one}s']} {one}{'' if item[f'{one}s'] == 1 else 's'}"
        for one in ("session", "token", "vote", "schedule")
    )
    ended = f"{sessions}, {tokens}, {votes}"
    belong = f"{schedules} {'goes' if item['schedules'] == 1 else 'go'} on and belong to {item['given_to']}"
    context.show(item, lambda: one_line(f"{name} left. Ended: {ended}. {belong}."))
    if item["program_tokens"]:
        ids = " ".join(item["program_tokens"])
        context.note(f"{name} made these tokens of programs, and may know them: {ids}. matins tokens revoke ID")


@people.command("grant")
@click.argument("name", shell_complete=complete_keys("people"))
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Agent; repeatable. Default: all.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of schedules; repeatable.")
@pass_context
def grant(context: CliContext, name: str, agents: tuple[str, ...], labels: tuple[str, ...]) -> None:
    """Let a person operate schedules, by agent and label, beside what their role allows.

    They change, run and approve them. To end grants: matins people edit NAME --grants '[]'."""
    pairs = [label.partition("=") for label in labels]
    if not agents and not labels:
        raise InvalidInput("A grant needs an agent or a label.", field="agent", hint="For example: --agent scout")
    for label, (key, equals, value) in zip(labels, pairs, strict=True):
        if not (key and equals and value):
            raise InvalidInput(f'"{label}" is no label.', value=label, field="label", hint="For example: team=web")
    one = {"agents": list(agents), "labels": {key: value for key, _, value in pairs} or None}
    held = context.call("people.get", name=name)["grants"]
    item = context.call("people.edit", name=name, grants=[*held, {key: value for key, value in one.items() if value}])
    context.show(item, lambda: one_line(f"{name} operates {' '.join([*agents, *labels])}."))


@people.command("link")
@click.argument("name", shell_complete=complete_keys("people"))
@click.argument("service", type=click.Choice(get_args(LinkedService)))
@pass_context
def link_person(context: CliContext, name: str, service: str) -> None:
    """Print a code by which a user of a chat service becomes a person.

    Who sends it to the bot, once and within ten minutes, has the rights of the person in that service."""
    item = context.call("people.link", name=name, service=service)
    context.show(item, lambda: one_line(f"Send this to {item['bot']} within 10 minutes: /start {item['code']}"))


@sessions.command("list")
@pass_context
def list_sessions(context: CliContext) -> None:
    """List browsers that are logged in, and links that were not opened yet."""
    context.show_list(_SESSION_COLUMNS, context.call("sessions.list"), _NO_SESSIONS)


@sessions.command("revoke")
@click.argument("session_id", metavar="ID")
@pass_context
def revoke_session(context: CliContext, session_id: str) -> None:
    """End a browser session, or void its link, at once."""
    revoked = bool(context.call("sessions.revoke", session_id=session_id))
    absent = f'There is no session "{session_id}": nothing to revoke.'
    context.show({"revoked": revoked}, lambda: one_line(f"Ended the session {session_id}." if revoked else absent))
