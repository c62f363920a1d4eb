"""The root command: what there is, and where each command stands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from matins._version import __version__
from matins.surfaces.cli.commands import Lazy
from matins.surfaces.cli.telling import EXIT_CODES, any_character, exit_code

_SECTIONS = {
    "Schedules": {
        "add": "schedules:add",
        "list": "schedules:list_schedules",
        "show": "schedules:show",
        "edit": "schedules:edit",
        "pause": "schedules:pause",
        "resume": "schedules:resume",
        "rm": "schedules:remove",
        "next": "coming:next_fires",
        "preview": "coming:preview",
        "why": "explaining:why",
    },
    "Runs": {
        "run": "running:run",
        "runs": "running:runs",
        "logs": "logs:logs",
        "cancel": "running:cancel",
        "resolve": "running:resolve",
    },
    "What waits for you": {
        "approvals": "approvals:approvals",
        "approve": "approvals:approve",
        "deny": "approvals:deny",
    },
    "Agents, and what governs them": {
        "agents": "agents:agents",
        "rules": "rules:rules",
        "threads": "threads:threads",
        "work-sources": "policies:work_sources",
        "quiet-hours": "policies:quiet_hours",
        "budgets": "policies:budgets",
        "prices": "policies:prices",
        "limits": "policies:limits",
        "hooks": "policies:hooks",
        "throttles": "policies:throttles",
        "webhooks": "webhooks:webhooks",
    },
    "What happens": {
        "events": "events:events",
        "stats": "house:stats",
        "doctor": "house:doctor",
        "audit": "audit:audit",
    },
    "The file": {
        "plan": "file:plan",
        "apply": "file:apply",
        "schema": "file:schema",
    },
    "The daemon": {
        "up": "house:up",
        "token": "tokens:token",
        "backup": "house:backup",
        "service": "house:service",
        "call": "calling:call",
        "completion": "completion:completion",
    },
    "By noun": {"schedules": "nouns:schedules"},
}
_ALIASES = {"ls": "list", "remove": "rm", "tokens": "token"}
_HELP = f"""Matins wakes AI agents on time.

It asks the daemon that runs (matins up), or else opens the store itself. Data goes to stdout, talk to stderr;
--json gives the API's documents. Nouns work too: matins runs list, matins agents show NAME.

{EXIT_CODES}
"""


class Root(Lazy):
    """Tells every error as people should be told."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        def work() -> Any:
            return super(Root, self).main(args, prog_name or "matins", complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return work()
        any_character()
        sys.exit(exit_code(work))


@click.command(
    "matins",
    cls=Root,
    help=_HELP,
    sections=_SECTIONS,
    aliases=_ALIASES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="matins")
@click.pass_context
def cli(ctx: click.Context) -> None:
    pass
