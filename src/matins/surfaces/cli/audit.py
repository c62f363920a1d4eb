"""`matins audit`: whether every event is as it was written."""

from __future__ import annotations

from typing import Any

import click

from matins.errors import MatinsError
from matins.surfaces.cli import telling
from matins.surfaces.cli.commands import Noun, pass_desk
from matins.surfaces.cli.desk import Desk

_SHOWN = 12


class _Audit(Noun):
    usual = "verify"


@click.group(cls=_Audit)
def audit() -> None:
    """The chained record of everything that happened: verify, seal."""


@audit.command()
@click.option("--seal", metavar="N:HASH", help="A seal that you noted down: it must still be there.")
@click.pass_context
def verify(ctx: click.Context, seal: str | None) -> None:
    """Look whether an event was changed, removed, moved or cut off.

    Reads only, also while an engine runs. Exit code 1 when something is wrong, with the first bad row of each chain.
    """
    desk = ctx.ensure_object(Desk)
    found = desk.ask("audit", seal=seal)
    whole = not found["faults"]
    desk.show({"whole": whole, **found}, lambda: _told(found))
    ctx.exit(telling.OK if whole else telling.FAILED)


@audit.command()
@pass_desk
def seal(desk: Desk) -> None:
    """Print the newest seal.

    Keep it where nobody who can write to the store can change it: with it, `verify` also finds a history that was cut.
    """
    newest = desk.ask("last_seal")
    if newest is None:
        raise MatinsError("There is no seal yet", hint="an engine makes one within a second of an event: matins up")
    desk.show(newest, lambda: newest)


def _told(found: dict[str, Any]) -> list[str]:
    if found["faults"]:
        return ["The audit is not whole:", *(f"  {fault}" for fault in found["faults"])]
    seal = "no seal yet" if found["seal"] is None else f"last seal {found['seal'][:_SHOWN]}…"
    chains = "1 chain" if found["chains"] == 1 else f"{found['chains']} chains"
    return [f"The audit is whole: {found['events']} events in {chains}, {seal}"]
