"""`matins why`: why a schedule ran or did not run, and the verdict of each gate now."""

from __future__ import annotations

import click

from matins.model.sentence import joined
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import agent_option, name_argument, pass_context, root_command
from matins.surfaces.cli.instants import ANY
from matins.surfaces.cli.states import gate_verdict, run_state, state_text
from matins.surfaces.cli.steps import step_tree
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.times import duration_text

_GATES = (
    Column("GATE", lambda gate, now: state_text(gate["gate"])),
    Column("VERDICT", lambda gate, now: gate_verdict(gate["passes"])),
    Column("REASON", lambda gate, now: joined(gate["sentence"], gate["quote"]), 20, wraps=True),
)
_CHECKS = (
    Column("CHECK", "gate"),
    Column("VERDICT", lambda check, now: check["reason"] or check["verdict"]),
    Column("DURATION", lambda check, now: duration_text(check["duration_ms"])),
    Column("OUTPUT", lambda check, now: check["output"] or "", 20),
)


@root_command("why")
@name_argument
@agent_option()
@click.option("--at", type=ANY, metavar="INSTANT", help="Slot to explain: 2026-03-27T09:00. Default: the last slot.")
@pass_context
def why(context: CliContext, name: str, agent: str | None, at: str | None) -> None:
    found = context.call("schedules.why", name=name, agent=agent, at=at)
    context.show(found, lambda: _explained(context, found))
    context.note_if_not_running()


def _explained(context: CliContext, found: Document) -> list[str]:
    lines = context.sentences([joined(found["summary"], found["quote"])])
    if found["run"] is not None:
        lines += ["", *_detail(context, found["run"])]
    if found["slot"] is not None:
        lines += ["", *context.table(_GATES, found["slot"]["gates"])]
    return [*lines, "", "If it were due now:", *context.table(_GATES, found["now"])]


def _detail(context: CliContext, detail: Document) -> list[str]:
    run = detail["run"]
    lines = context.fields(
        ("run", run["id"]),
        ("state", run_state(run).text),
        ("reason", run["reason"] and state_text(run["reason"])),
        ("started", run["started_at"] and context.when(run["started_at"])),
        ("duration", None if run["duration_ms"] is None else duration_text(run["duration_ms"])),
        ("attempts", len(detail["attempts"]) or None),
        ("approvals", ", ".join(_approval(approval) for approval in detail["approvals"])),
    )
    if run["steps"]:
        lines += ["", *step_tree(context, run["steps"])]
    return [*lines, "", *context.table(_CHECKS, detail["checks"])] if detail["checks"] else lines


def _approval(approval: Document) -> str:
    votes = ", ".join(f"{vote['vote']} by {vote['voter']}" for vote in approval["votes"])
    return f"{approval['id']} {approval['state']}" + (f" ({votes})" if votes else "")
