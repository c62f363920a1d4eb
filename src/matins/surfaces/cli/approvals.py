"""`matins approvals`, `approve`, `deny`: what people are asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import click

from matins.errors import Conflict
from matins.surfaces.cli.commands import Command, Noun, number_argument, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.paging import Page, page_options
from matins.surfaces.cli.states import in_words
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import block, one_line, plain
from matins.surfaces.cli.words import SCHEDULE, given

_COLUMNS = (Column("ID"), Column("WHAT", 16), Column("ASKED BY", 8), Column("ASKED"), Column("EXPIRES"))
_STATES = ("pending", "approved", "used", "denied", "expired", "void")
_HEADS = {"run": "A run of {}", "schedule": "A new schedule, {}", "budget": "More money for {}"}
_BLOCKS = ("prompt", "payload")
_INSTANTS = ("slot", "ends_at")
_LEAST_DIGEST = 8


@click.command("list", cls=Command)
@click.option("--state", "-s", type=click.Choice(_STATES), help="Those that are so; what waits, by default.")
@page_options("--after")
@pass_desk
def list_approvals(desk: Desk, state: str | None, after: str | None, limit: int) -> None:
    """What waits for an answer, the oldest first."""
    page = Page.of(limit, lambda most: desk.ask("approvals", state=state, after=after, limit=most))
    rows = [
        (asked["id"], _head(asked), asked["requested_by"], desk.away(asked["requested_at"]),
         desk.when(asked["expires_at"]))
        for asked in page.items
    ]  # fmt: skip
    desk.show(page.items, lambda: desk.table(_COLUMNS, rows) if rows else "Nothing waits for an answer.")
    page.tell_more(desk, "matins approvals --after", page.last_id)
    if rows and state is None:
        desk.tell("Answer with: matins approve ID, or matins deny ID")


@click.command("show", cls=Command)
@number_argument("approval_id", "ID", "an approval", "matins approvals")
@pass_desk
def show_approval(desk: Desk, approval_id: str) -> None:
    """What exactly would run, and who asked."""
    asked = desk.ask("get_approval", approval_id=approval_id)
    desk.show(asked, lambda: card(desk, asked))


def card(desk: Desk, asked: dict[str, Any]) -> list[str]:
    """Everything that a person must see in order to judge."""
    request: dict[str, Any] = asked["request"]
    hands: list[tuple[str, str]] = request.get("involved") or []
    rest = {word: value for word, value in request.items() if word not in (*_BLOCKS, "involved", "schedule")}
    lines = desk.fields(
        ("approval", f"{asked['id']}: {_head(asked)}"),
        ("asked by", f"{asked['requested_by']} ({asked['requester_role']}), {desk.away(asked['requested_at'])}"),
        ("hands in it", ", ".join(f"{name} ({role})" for name, role in hands)),
        ("run", asked["run_id"]),
        *((in_words(word), _value(desk, word, value)) for word, value in rest.items()),
        ("asks", f"{asked['needed']} of {', '.join(asked['approvers']) or 'the owner'}"),
        ("votes", ", ".join(f"{vote['vote']} by {vote['voter']}" for vote in asked["votes"])),
        ("state", asked["state"] if asked["state"] != "pending" else None),
        ("expires", f"{desk.when(asked['expires_at'])}, then {asked['default']}"),
        ("digest", asked["digest"]),
    )
    for word in _BLOCKS:
        if request.get(word) is not None:
            text = request[word] if isinstance(request[word], str) else json.dumps(request[word], indent=2)
            lines += ["", f"{word}:", *(f"  {line}" for line in block(text).split("\n"))]
    return lines


def _head(asked: dict[str, Any]) -> str:
    return _HEADS[asked["kind"]].format(asked["schedule"])


def _value(desk: Desk, word: str, value: Any) -> str:
    """As the store keeps it, it says milliseconds and micro-dollars."""
    if type(value) is int and word in _INSTANTS:
        return desk.when(datetime.fromtimestamp(value / 1000, UTC).isoformat())
    if type(value) is int and word == "max_cost":
        return f"${value / 1_000_000:.2f}"
    if isinstance(value, dict):
        return plain({name: item for name, item in cast("dict[str, Any]", value).items() if item not in (None, [], {})})
    return "" if value is None else plain(value)


@click.command(cls=Command)
@number_argument("approval_id", "ID", "an approval", "matins approvals")
@click.option("--yes", "-y", is_flag=True, help="Without being asked again.")
@click.option("--digest", metavar="HASH", help="Only if it is still about this; the first digits do.")
@click.option("--note", "-m", metavar="TEXT")
@click.option("--edit", "settings", multiple=True, metavar="WORD=VALUE", help="Yes to what it becomes so.")
@pass_desk
def approve(
    desk: Desk, approval_id: str, yes: bool, digest: str | None, note: str | None, settings: tuple[str, ...]
) -> None:
    """Say yes: shows what exactly would run, and is bound to that."""
    asked = _looked_at(desk, approval_id, digest)
    edits = given(SCHEDULE, {"settings": settings})
    if edits:
        desk.tell("with " + ", ".join(f"{word}: {value}" for word, value in edits.items()))
    desk.confirm("Approve it?", yes=yes)
    answered = desk.ask("approve", approval_id=approval_id, note=note, digest=asked["digest"], edits=edits or None)
    desk.show(answered, lambda: _answered(answered))


@click.command(cls=Command)
@number_argument("approval_id", "ID", "an approval", "matins approvals")
@click.option("--yes", "-y", is_flag=True, help="Without being asked again.")
@click.option("--digest", metavar="HASH", help="Only if it is still about this; the first digits do.")
@click.option("--note", "-m", metavar="TEXT", help="Why.")
@pass_desk
def deny(desk: Desk, approval_id: str, yes: bool, digest: str | None, note: str | None) -> None:
    """Say no."""
    asked = _looked_at(desk, approval_id, digest)
    desk.confirm("Deny it?", yes=yes)
    answered = desk.ask("deny", approval_id=approval_id, note=note, digest=asked["digest"])
    desk.show(answered, lambda: _answered(answered))


def _looked_at(desk: Desk, approval_id: str, digest: str | None) -> dict[str, Any]:
    """What is answered is what was shown."""
    asked = desk.ask("get_approval", approval_id=approval_id)
    desk.tell("\n".join(card(desk, asked)))
    if digest is not None:
        wanted = digest.removeprefix("sha256:")
        if len(wanted) < _LEAST_DIGEST or not asked["digest"].startswith(wanted):
            raise Conflict(
                f"Approval {asked['id']} is about something else by now, or the digest is too short",
                value=digest,
                field="digest",
                hint=f"look again: matins approvals show {asked['id']}; at least {_LEAST_DIGEST} digits",
            )
    return asked


def _answered(asked: dict[str, Any]) -> str:
    state = "still waits for others" if asked["state"] == "pending" else asked["state"]
    state = "approved" if state == "used" else state
    return one_line(f"Approval {asked['id']} ({_head(asked)}): {state}.")


@click.group(cls=Noun)
def approvals() -> None:
    """What waits for your answer."""


approvals.takes(list=list_approvals, show=show_approval, approve=approve, deny=deny)
