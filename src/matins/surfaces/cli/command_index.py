"""The index of commands: their help and modules. It loads no command, so that `matins --help` is quick."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import NamedTuple

import click

from matins.api._nouns import RECORD_NOUNS


class Entry(NamedTuple):
    place: str
    """The module and its attribute. A module of this package is named without the package."""
    help: str
    noun: str = ""
    """If given, the attribute is a function that makes the commands of this noun."""


RECORDS = "Agents and policies"
SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Schedules": {
        "add": Entry("schedule_settings:add", "Add a schedule that runs PROMPT with an agent at WHEN."),
        "list": Entry("schedules:list_schedules", "List schedules with their next and last run."),
        "show": Entry("schedules:show", "Show a schedule: settings, state, last run."),
        "history": Entry("schedules:history", "List the changes of a schedule."),
        "undo": Entry("schedules:undo", "Undo the last change of a schedule."),
        "rename": Entry("schedules:rename", "Give a schedule another name."),
        "edit": Entry("schedule_settings:edit", "Change settings of a schedule. Running runs keep theirs."),
        "pause": Entry("schedules:pause", "Pause schedules. Running runs continue."),
        "resume": Entry("schedules:resume", "Resume paused schedules; list pauses of several."),
        "rm": Entry("schedules:delete", "Delete schedules. Their history is kept."),
        "undelete": Entry("schedules:undelete", "Bring back a deleted schedule, paused."),
        "next": Entry("forecasts:next_runs", "Show the next runs, or when a WHEN would fire."),
        "preview": Entry("forecasts:preview", "Preview a schedule's next slots and daily cost."),
        "jobs": Entry("agents:jobs", "List the jobs that schedules can name, with their inputs."),
        "missions": Entry("missions:missions", "Manage missions: schedules with steps, which may have no time."),
        "why": Entry("forecasts:why", "Explain why a schedule ran or did not run."),
    },
    "Runs": {
        "run": Entry("runs:run", "Start a run now."),
        "runs": Entry("runs:runs", "List runs of all schedules, or of one."),
        "logs": Entry("runs:logs", "Print the output of a run, or the lines of many that have a text."),
        "search": Entry("runs:search", "Search schedules, agents, requests, incidents and what runs wrote."),
        "cancel": Entry("runs:cancel", "Cancel runs."),
        "backfill": Entry("backfills:backfill", "Run past slots that did not run, after a preview."),
        "backfills": Entry("backfills:backfills", "List backfills, show one, pause, resume or cancel it."),
        "retry": Entry("runs:retry", "Run again what failed in runs."),
        "diff": Entry("runs:diff", "Compare a run with another one, or with the last success before it."),
        "resolve": Entry("runs:resolve", "Set the outcome of a held run."),
        "report": Entry("scripting:report", "Report the outcome of the run that you are in."),
        "context": Entry("scripting:context_command", "Show the run that you are in, and what it may still spend."),
        "pings": Entry("calls:pings", "Show where work elsewhere reports, or report for it."),
        "calls": Entry("calls:calls", "List calls from outside, show one, or fire one again."),
    },
    "Approvals": {
        "approvals": Entry("approvals:approvals", "List pending approvals."),
        "approve": Entry("approvals:approve", "Approve a request."),
        "deny": Entry("approvals:deny", "Deny a request."),
    },
    RECORDS: {
        "threads": Entry("agents:threads", "List conversations with agents, or show one."),
    },
    "Monitoring": {
        "status": Entry("status:status", "Show what needs you, what runs, and what comes next."),
        "incidents": Entry("incidents:incidents", "List what needs attention, or show one."),
        "ack": Entry("incidents:ack", "Acknowledge an incident: no more messages until it is over."),
        "events": Entry("events:events", "List events, or follow them."),
        "spend": Entry("status:spend", "Show what was spent, by schedule and in all."),
        "stats": Entry("daemon:stats", "Show counts of runs, queues and spending."),
        "doctor": Entry("daemon:doctor", "Check the installation and suggest fixes."),
        "nodes": Entry("nodes:nodes", "List machines with an engine, cordon, drain or open one."),
        "audit": Entry("events:audit", "Verify the event log."),
    },
    "Configuration file": {
        "plan": Entry("file:plan", "Preview the file's changes."),
        "apply": Entry("file:apply", "Apply the file's changes."),
        "export": Entry("export:export", "Print all records and schedules as a file."),
        "schema": Entry("file:schema", "Print the file's JSON Schema."),
        "import": Entry(
            "matins.importers.commands:import_group", "Import schedules from crontab and other systems.", "import"
        ),
    },
    "Daemon": {
        "init": Entry("daemon:init", "Write a configuration file for what is found on this machine."),
        "up": Entry("daemon:up", "Start the daemon."),
        "worker": Entry("daemon:worker", "Run the orders of engines elsewhere, without a store."),
        "demo": Entry("daemon:demo", "Start a demonstration in a directory of its own."),
        "mcp": Entry("matins.mcp.commands:mcp", "Serve MCP: tools for agents, over stdin and stdout."),
        "tokens": Entry("access:tokens", "Manage API tokens."),
        "login": Entry("access:login", "Print a link that logs a browser in."),
        "sessions": Entry("access:sessions", "Manage browsers that are logged in."),
        "backup": Entry("daemon:backup", "Back up the store."),
        "promote": Entry("moving:promote", "Move the store to PostgreSQL, or back to a file."),
        "service": Entry("daemon:service", "Install the daemon as a service of this machine, or remove it."),
        "call": Entry("scripting:call", "Call any use case by name."),
        "completion": Entry("scripting:completion", "Print a completion script."),
    },
    "More": {
        "schedules": Entry("schedules:noun_group", "Manage schedules by noun: matins schedules list.", "schedules"),
        "file": Entry("file:noun_group", "Manage the configuration file by noun: matins file plan.", "file"),
    },
}
"""All commands except those of records."""
ALIASES = {
    "ls": "list", "remove": "rm", "delete": "rm", "start": "up", "log": "logs", "create": "add", "enable": "resume",
    "disable": "pause", "trigger": "run", "unpause": "resume", "new": "add", "update": "edit",
    "describe": "show", "get": "show", "info": "show", "run-now": "run", "ps": "status", "serve": "up", "daemon": "up",
}  # fmt: skip
"""Other words for a command. A noun is understood in the singular too: `matins agent list`."""
VERB_ALIASES = {"ls": "list", "add": "set", "create": "set", "delete": "rm", "remove": "rm", "get": "show"}
"""Other words for a verb of a noun, where it has no such verb."""
_STOPPING = "Ctrl-C stops the daemon in its terminal; `matins pause NAME` stops a schedule, `matins cancel RUN` a run."
ADVICE = {
    **dict.fromkeys(("stop", "down", "quit", "exit", "shutdown"), _STOPPING),
    "restart": "Ctrl-C stops the daemon in its terminal, and `matins up` starts it again.",
    "kill": "`matins cancel RUN` ends a run.",
    "version": "`matins --version` prints it.",
    "crontab": "`matins import crontab` takes your schedules over.",
    "config": "`matins plan` and `matins apply` work on the file; `matins init` writes a first one.",
    "cron": '`matins add "0 9 * * *" …` adds a schedule; `matins import crontab` takes those of your crontab over.',
    "at": '`matins add "at 9am" --agent NAME PROMPT` adds a schedule.',
    "reload": "The daemon reads the file when it is saved; `matins plan` and `matins apply` do so by hand.",
    "test": "`matins preview NAME` shows what would happen; `matins notify test` sends a message to your destinations.",
    "tail": "`matins logs RUN --follow` follows a run, `matins events --follow` everything.",
    "set": "`matins edit NAME --set SETTING=VALUE` changes a schedule, `matins agents set NAME` an agent.",
    "accept": "`matins approvals` lists what needs an answer.",
    "reject": "`matins approvals` lists what needs an answer.",
    **dict.fromkeys(("task", "tasks"), "`matins list` lists schedules, `matins runs` what ran, `matins status` both."),
    **dict.fromkeys(
        ("migrate", "move"), "`matins promote postgresql://…` moves the store to PostgreSQL, or back to a file."
    ),
    "install": "`matins service install` keeps the daemon running.",
    "uninstall": "`matins service rm` removes the service; then remove the program: pipx uninstall matins.",
}
"""What to do instead, for words of other programs that no command has."""
OPTION_ALIASES = {
    "--tz": "--timezone", "--time-zone": "--timezone", "--zone": "--timezone", "--cwd": "--workdir",
    "--dir": "--workdir", "--message": "--prompt", "--text": "--prompt", "--schedule": "--when", "--cron": "--when",
    "--at": "--when", "--every": "--when", "--retry": "--retries", "--reason": "--note", "--tail": "--follow",
    "--count": "--limit", "--last": "--limit", "--force": "--yes", "--for": "--until",
}  # fmt: skip
"""Options of other programs, where the command has the other one."""
OPTION_ADVICE = {
    "doctor --fix": "matins doctor prints the command that fixes each problem.",
    "add --cron": 'WHEN is the first argument: matins add "0 9 * * *" …',
    "add --at": 'WHEN is the first argument: matins add "tomorrow at 9am" …',
    "add --every": 'WHEN is the first argument: matins add "every 5 minutes" …',
}
"""What to do instead, for options that no command has."""
CAREFUL = frozenset({"rm", "delete", "revoke", "abort", "approve", "deny", "cancel", "resolve", "apply"})
"""Commands that are suggested only for a slip of one letter: what they do is not easily undone."""
_ENTRIES = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
_OWN_MODULES = {
    "agents": "agents:agents",
    "inbound": "calls:inbound",
    "notify": "incidents:notify",
    "people": "access:people",
    "webhooks": "calls:webhooks",
}
"""Kinds of records with more commands than every kind has."""


def help_of(command: str) -> str:
    return _ENTRIES[command].help


@cache
def sections() -> Mapping[str, Mapping[str, Entry]]:
    """All commands. Kinds of records are sorted by name."""
    records = sorted({**_record_entries(), **SECTIONS[RECORDS]}.items())
    return {**SECTIONS, RECORDS: dict(records)}


@cache
def _record_entries() -> dict[str, Entry]:
    return {noun.replace("_", "-"): _record_entry(noun, text) for noun, text in RECORD_NOUNS.items()}


def _record_entry(noun: str, text: str) -> Entry:
    own = _OWN_MODULES.get(noun)
    return Entry(own, text) if own else Entry("records:record_group", text, noun)


def load_command(name: str) -> click.Command | None:
    """The command of this name, loaded now; None if there is none."""
    name = ALIASES.get(name, name)
    entry = next(
        (found for one in (name, f"{name}s") if (found := _ENTRIES.get(one) or _record_entries().get(one))), None
    )
    if entry is None:
        return None
    module, _, attribute = entry.place.partition(":")
    found = getattr(import_module(module if "." in module else f"{__package__}.{module}"), attribute)
    return found(entry.noun) if entry.noun else found
