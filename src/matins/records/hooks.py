"""Hooks: commands that run before or after every run."""

import shlex
from dataclasses import replace
from typing import Any

from matins.model.hook import HOOK_EVENTS, Hook
from matins.records.kind import Column, RecordContext, RecordKind
from matins.records.storage import POLICIES


def _check(hook: Hook, context: RecordContext) -> Hook:
    from matins.executors.command_checks import check_command

    return replace(hook, command=check_command(hook.command, "command", workdir=context.workdir))


def _command(document: dict[str, Any]) -> str:
    command = document["command"]
    return command if isinstance(command, str) else shlex.join(command)


HOOKS = RecordKind(
    kind="hook",
    noun="hooks",
    one="hook",
    key="event",
    keys=HOOK_EVENTS,
    value=Hook,
    help="Manage commands that run before or after every run.",
    file_help="Commands for every schedule, by event.",
    storage=POLICIES,
    alone="command",
    complete=_check,
    columns=(Column("EVENT", "event"), Column("COMMAND", _command, 20), Column("TIMEOUT", "timeout")),
    example="matins hooks set before:schedule:trigger --command ./may-it-run.sh",
)
