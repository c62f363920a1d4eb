"""`matins why`: why it did or did not run, and what would happen now."""

from __future__ import annotations

from typing import Any

import click

from matins.surfaces.cli.commands import Command, agent_option, name_argument, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.instants import ANY
from matins.surfaces.cli.states import in_words, run_state, yes_no
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import one_line, wrapped
from matins.surfaces.cli.times import took

_GATES = (Column("GATE"), Column("SAYS"), Column("", 20, wraps=True))
_CHECKS = (Column("CHECK"), Column("SAID"), Column("TOOK"), Column("OUTPUT", 20))


@click.command(cls=Command)
@name_argument
@agent_option
@click.option("--at", type=ANY, metavar="INSTANT", help="About this slot: 2026-03-27T09:00. The last by default.")
@pass_desk
def why(desk: Desk, name: str, agent: str | None, at: str | None) -> None:
    """Why it did or did not run, and what each gate would say now."""
    found = desk.ask("why", name=name, agent=agent, at=at)
    desk.show(found, lambda: _told(desk, found))
    desk.tell_if_nothing_runs()


def _told(desk: Desk, found: dict[str, Any]) -> list[str]:
    lines = wrapped(one_line(found["answer"]), desk.width)
    if found["record"] is not None:
        lines += ["", *_record(desk, found["record"])]
    if found["slot"] is not None:
        lines += ["", *_gates(desk, found["slot"]["says"])]
    return [*lines, "", "If it were due now:", *_gates(desk, found["now"])]


def _record(desk: Desk, record: dict[str, Any]) -> list[str]:
    run = record["run"]
    lines = desk.fields(
        ("run", run["id"]),
        ("state", run_state(run).text),
        ("reason", run["reason"] and in_words(run["reason"])),
        ("started", run["started_at"] and desk.when(run["started_at"])),
        ("took", None if run["took_ms"] is None else took(run["took_ms"])),
        ("attempts", len(record["attempts"]) or None),
        ("approvals", ", ".join(_asked(asked) for asked in record["approvals"])),
    )
    rows = [
        (check["gate"], str(check["said"]), took(check["took_ms"]), check["output"] or "") for check in record["checks"]
    ]
    return [*lines, "", *desk.table(_CHECKS, rows)] if rows else lines


def _asked(asked: dict[str, Any]) -> str:
    votes = ", ".join(f"{vote['vote']} by {vote['voter']}" for vote in asked["votes"])
    return f"{asked['id']} {asked['state']}" + (f" ({votes})" if votes else "")


def _gates(desk: Desk, says: list[dict[str, Any]]) -> list[str]:
    return desk.table(_GATES, [(in_words(gate["gate"]), yes_no(gate["passes"]), gate["sentence"]) for gate in says])
