"""`matins audit`: whether every event is as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from matins.model.principal import OWNER

if TYPE_CHECKING:
    from matins.service import Audit, Service

_SHOWN = 12
_store = click.option(
    "--store", metavar="URL", envvar="MATINS_STORE", required=True, help="sqlite:///FILE or postgresql://…"
)


@click.group("audit")
def audit_commands() -> None:
    """The chained record of everything that happened."""


@audit_commands.command("verify")
@_store
@click.option("--seal", metavar="N:HASH", help="A seal that you noted down: it must still be there.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def verify(ctx: click.Context, store: str, seal: str | None, as_json: bool) -> None:
    """Look whether an event was changed, removed, moved or cut off.

    Reads only, also while an engine runs. Exit code 1 when something is wrong, with the first bad row of each chain.
    """
    build_service: Callable[[str], Service] = ctx.obj
    audit = build_service(store).audit(OWNER, seal)
    click.echo(json.dumps({"whole": audit.whole, **asdict(audit)}) if as_json else _as_text(audit))
    ctx.exit(0 if audit.whole else 1)


@audit_commands.command("seal")
@_store
@click.pass_context
def seal(ctx: click.Context, store: str) -> None:
    """Print the newest seal.

    Keep it where nobody who can write to the store can change it: with it, `verify` also finds a history that was cut.
    """
    build_service: Callable[[str], Service] = ctx.obj
    newest = build_service(store).last_seal(OWNER)
    if newest is None:
        raise click.ClickException("There is no seal yet: an engine makes one within a second of an event.")
    click.echo(newest)


def _as_text(audit: Audit) -> str:
    if not audit.whole:
        return "\n".join(["The audit is not whole:", *(f"  {fault}" for fault in audit.faults)])
    seal = "no seal yet" if audit.seal is None else f"last seal {audit.seal[:_SHOWN]}…"
    return f"The audit is whole: {audit.events} events in {audit.chains} chains, {seal}"
