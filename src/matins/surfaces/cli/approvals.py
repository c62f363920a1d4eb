"""`matins approvals`, `approve`, `deny`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import click

from matins.errors import Conflict
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import (
    Command,
    NounGroup,
    Page,
    number_argument,
    page_options,
    pass_context,
    root_command,
)
from matins.surfaces.cli.options import read_setting, split_assignment
from matins.surfaces.cli.tables import Column, moment, plain, state_text
from matins.surfaces.cli.times import relative_time
from matins.surfaces.display import block, one_line

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (
    Column("ID", "id"),
    Column("REQUEST", lambda item, now: _title(item), 22, middle=True),
    Column("BY", "requested_by", 8, middle=True),
    Column("REQUESTED", lambda item, now: relative_time(item["requested_at"], now)),
    Column("EXPIRES", lambda item, now: moment(item["expires_at"], now)),
)
_STATES = ("pending", "approved", "used", "denied", "expired", "void")
_TITLES = {"run": "Run of {}", "schedule": "New schedule {}", "budget": "More budget for {}"}
_BLOCKS = ("prompt", "command", "stdin", "payload", "call")
_MIN_DIGEST_LENGTH = 8
_approval_argument = number_argument("approval_id", "ID", "an approval", "matins approvals")


def _answer_options(verb: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        function = click.option("--note", "-m", metavar="TEXT", help="Note that is kept with the answer.")(function)
        text = f"{verb} only if the request is unchanged."
        function = click.option("--digest", metavar="HASH", help=text)(function)
        return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(function)

    return decorate


@click.command("list", cls=Command)
@click.option("--state", "-s", type=click.Choice(_STATES), help="State of the approvals. Default: pending.")
@page_options("--after")
@pass_context
def list_approvals(context: CliContext, state: str | None, after: str | None, limit: int) -> None:
    """List approvals. The oldest is first."""
    page = Page.of(limit, lambda count: context.call("approvals.list", state=state, after=after, limit=count))
    context.show_list(_COLUMNS, page.items, f"No {state or 'pending'} approvals.")
    page.note_more(context, "matins approvals --after", page.last_id)
    if page.items and state is None:
        context.note("To answer: matins approve ID, or matins deny ID")


@click.command("show", cls=Command)
@_approval_argument
@pass_context
def show_approval(context: CliContext, approval_id: str) -> None:
    """Show an approval: exactly what would run, and who asked."""
    approval = context.call("approvals.get", approval_id=approval_id)
    context.show(approval, lambda: card(context, approval))


def card(context: CliContext, approval: Document) -> list[str]:
    """The text of an approval: everything that a person needs in order to decide."""
    request: Document = approval["request"]
    involved: list[tuple[str, str]] = request.get("involved") or []
    rest = {name: value for name, value in request.items() if name not in (*_BLOCKS, "involved", "schedule")}
    requested = context.relative_time(approval["requested_at"])
    lines = context.fields(
        ("approval", f"{approval['id']}: {_title(approval)}"),
        ("requested by", f"{approval['requested_by']} ({approval['requester_role']}), {requested}"),
        ("involved", ", ".join(f"{name} ({role})" for name, role in involved)),
        ("run", approval["run_id"]),
        *((state_text(name), _value(context, name, value)) for name, value in rest.items()),
        ("requires", f"{approval['required']} of {', '.join(approval['approvers']) or 'the owner'}"),
        ("votes", ", ".join(f"{vote['vote']} by {vote['voter']}" for vote in approval["votes"])),
        ("state", approval["state"] if approval["state"] != "pending" else None),
        ("expires", f"{context.when(approval['expires_at'])}, then {approval['default']}"),
        ("digest", approval["digest"]),
    )
    for name in _BLOCKS:
        if request.get(name) is not None:
            text = request[name] if isinstance(request[name], str) else json.dumps(request[name], indent=2)
            lines += ["", f"{name}:", *(f"  {line}" for line in block(text).split("\n"))]
    return lines


def _title(approval: Document) -> str:
    return _TITLES[approval["kind"]].format(approval["schedule"])


def _value(context: CliContext, name: str, value: Any) -> str:
    """The value as text. The slot is in milliseconds, as in the store."""
    if type(value) is int and name == "slot":
        return context.when(datetime.fromtimestamp(value / 1000, UTC).isoformat())
    if isinstance(value, str) and name == "ends_at":
        return context.when(value)
    if isinstance(value, dict):
        return plain({key: item for key, item in cast("Document", value).items() if item not in (None, [], {})})
    return "" if value is None else plain(value)


@root_command("approve")
@_approval_argument
@_answer_options("Approve")
@click.option("--edit", "edits", multiple=True, metavar="NAME=VALUE", help="Setting to change first; repeatable.")
@pass_context
def approve(
    context: CliContext, approval_id: str, yes: bool, digest: str | None, note: str | None, edits: tuple[str, ...]
) -> None:
    """The request is shown first. The answer counts only if the request is unchanged since."""
    from matins.surfaces.cli.options import SCHEDULE

    approval = _shown(context, approval_id, digest)
    pairs = [split_assignment(edit, "--edit max_cost='$1'") for edit in edits]
    settings = {name: read_setting(SCHEDULE, name, text) for name, text in pairs}
    if settings:
        context.note("with " + ", ".join(f"{name}: {plain(value)}" for name, value in settings.items()))
    context.confirm("Approve the request?", yes=yes)
    answered = context.call(
        "approvals.approve", approval_id=approval_id, note=note, digest=approval["digest"], edits=settings or None
    )
    context.show(answered, lambda: _answered(answered))


@root_command("deny")
@_approval_argument
@_answer_options("Deny")
@pass_context
def deny(context: CliContext, approval_id: str, yes: bool, digest: str | None, note: str | None) -> None:
    approval = _shown(context, approval_id, digest)
    context.confirm("Deny the request?", yes=yes)
    answered = context.call("approvals.deny", approval_id=approval_id, note=note, digest=approval["digest"])
    context.show(answered, lambda: _answered(answered))


def _shown(context: CliContext, approval_id: str, digest: str | None) -> Document:
    """Show the request, and return it. Raises Conflict if its digest is not the given one."""
    approval = context.call("approvals.get", approval_id=approval_id)
    context.note("\n".join(card(context, approval)))
    if digest is not None:
        wanted = digest.removeprefix("sha256:")
        if len(wanted) < _MIN_DIGEST_LENGTH or not approval["digest"].startswith(wanted):
            raise Conflict(
                f"Approval {approval['id']} has another digest, or {digest} is too short.",
                value=digest,
                field="digest",
                hint=f"Use at least {_MIN_DIGEST_LENGTH} digits from: matins approvals show {approval['id']}",
            )
    return approval


def _answered(approval: Document) -> str:
    state = {"pending": "more approvals are required", "used": "approved"}.get(approval["state"], approval["state"])
    return one_line(f"Approval {approval['id']} ({_title(approval)}): {state}.")


approvals = NounGroup("approvals", help_of("approvals"))
approvals.takes(list=list_approvals, show=show_approval, approve=approve, deny=deny)
