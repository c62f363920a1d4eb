"""Hooks: commands that run before or after every run."""

import shlex
from dataclasses import replace
from typing import Any

from matins.model.hook import HOOK_EVENTS, Hook
from matins.records.kind import Column, RecordChange, RecordContext, RecordKind
from matins.records.storage import POLICIES


def _check(hook: Hook, context: RecordContext) -> Hook:
    from matins.executors.command_checks import check_command

    return replace(hook, command=check_command(hook.command, "command", workdir=context.workdir))


def _changed(hook: Hook, before: Hook | None, change: RecordChange) -> None:
    """Keep the digests of the files that the hook runs. A change of the time limit alone leaves them."""
    from matins.runtime.approval_requests import keep_hook_files
    from matins.runtime.command_files import files_run_by

    if before is not None and before.command == hook.command and "command" not in change.given:
        return
    files = files_run_by([hook.command], change.policies.workdir)
    keep_hook_files(change.transaction, hook.event, files, change.principal, change.now)


def _deleted(hook: Hook, before: Hook | None, change: RecordChange) -> None:
    from matins.runtime.approval_requests import delete_hook_files

    delete_hook_files(change.transaction, hook.event, change.principal, change.now)


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
    changed=_changed,
    deleted=_deleted,
    columns=(Column("EVENT", "event"), Column("COMMAND", _command), Column("TIMEOUT", "timeout")),
    example="matins hooks set before:schedule:trigger --command ./may-it-run.sh",
)
