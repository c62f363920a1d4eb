"""`matins add` and `edit`: the commands that take the settings of a schedule.

The agent that `matins add` creates: where it works, and what it may do.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.accounts import ask_account
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.daemon import meant_folder
from matins.surfaces.cli.forecasts import forecast_lines
from matins.surfaces.cli.framework import agent_option, name_argument, pass_context, root_command, without_none
from matins.surfaces.cli.options import SCHEDULE, check_any, given_settings, setting_options, when_option
from matins.surfaces.cli.runs import run_once
from matins.surfaces.cli.schedules import EXAMPLE, summary
from matins.surfaces.cli.steps import FORM, parse_step
from matins.surfaces.cli.tables import plain, state_text
from matins.surfaces.display import one_line
from matins.surfaces.home import Home

NewAgent = tuple[str | None, dict[str, str]]


def new_agent(
    context: CliContext, agent: str | None, workdir: str | None, permission: str | None, *, ask: bool
) -> NewAgent:
    """The name of the agent, and the settings with which it is created if it does not exist. In a second repository an
    agent of a tool has another name: one agent works in one place."""
    given = {"workdir": os.path.abspath(workdir)} if workdir else {}  # noqa: PTH100 - a link stays as it was typed
    given |= {"permission_mode": permission} if permission else {}
    if agent is None or context.location["url"] or os.environ.get("MATINS_IN_RUN"):
        return agent, given
    tools: list[Document] = context.call("system.tools", versions=False)
    tool = next((one for one in tools if one["agent"] is None and one["runner"] == agent), None)
    known: dict[str, Document] = {item["name"]: item for item in context.call("agents.list")}
    folder = given.get("workdir") or meant_folder(Home(context.location["home"]).path)
    if agent in known and folder and _is_elsewhere(known[agent], folder):
        given |= {"runner": known[agent]["runner"]}
        agent = f"{agent}-{Path(folder).name}"
    if agent in known or (tool is None and "runner" not in given):
        return agent, given if agent not in known else {}
    given |= {"workdir": folder} if folder else {}
    if ask and not permission and tool is not None and tool["risk"] and _wants(context, tool):
        given["permission_mode"] = tool["permission"]
    return agent, given


def _is_elsewhere(agent: Document, folder: str) -> bool:
    """Whether the agent works in another repository. One with a directory of its own works everywhere."""
    return (Path(folder) / ".git").exists() and str(agent["workdir"]).startswith("/") and agent["workdir"] != folder


def _wants(context: CliContext, tool: Document) -> bool:
    waits = f"{tool['runner']} waits for a permission before it changes anything."
    question = f"{waits} Let it run in the mode {tool['permission']}"
    return context.is_interactive and click.confirm(f"{question} ({tool['risk']})?", default=True, err=True)


_RELATIVE = re.compile(r"\s*(in|after)\b", re.IGNORECASE)
_SAME = "  No setting changes."
_MAX_HINTED = 5


step_option = click.option(
    "--step", "steps", multiple=True, metavar="TEXT", help=f"Step of the work, as {FORM}; repeatable."
)


def given_steps(texts: Sequence[str]) -> dict[str, Any]:
    return {"steps": [parse_step(text) for text in texts]} if texts else {}


@root_command("add")
@click.argument("when", required=False)
@click.argument("prompt", required=False)
@click.argument("more", nargs=-1, metavar="")
@agent_option("Agent that runs the prompt; created if a runner has this name.")
@click.option(
    "--name",
    "-n",
    metavar="NAME",
    help="Name of the schedule; default: the first words of the prompt, or the program of the command.",
)
@step_option
@click.option(
    "--workdir",
    metavar="DIR",
    help="Directory of the command, or of a new agent. Default: the repository, or directory, here; for a command: ~.",
)
@click.option("--permission", metavar="MODE", help="Permission mode of a new agent, by its tool's name for it.")
@click.option("--try", "try_now", is_flag=True, help="Run it once now, and show the answer.")
@setting_options(SCHEDULE, skip=["prompt", "workdir"], own_zone=True)
@click.option("--dry-run", is_flag=True, help="Preview of the schedule only.")
@pass_context
def add(
    context: CliContext,
    when: str | None,
    prompt: str | None,
    more: tuple[str, ...],
    agent: str | None,
    name: str | None,
    steps: tuple[str, ...],
    workdir: str | None,
    permission: str | None,
    try_now: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """\b
    matins add "every weekday at 9am" --agent claude "Summarise my open PRs"
    matins add "every day at 3" --command 'pg_dump app | gzip > ~/app.gz'
    matins add "0 2 * * *" --name backup --job backup --timezone Europe/London
    matins add --on "webhook prs" --agent claude "Review {{call.body.title}}"
    matins add "0 2 * * *" --step "Build @coder: Build" --step "Ship @ops: Ship"
    """
    when, settings = _when_and_settings([when, prompt, *more], given_settings(SCHEDULE, options) | given_steps(steps))
    own_zone = context.zone_for(when, settings)
    agent = agent or (os.environ.get("MATINS_AGENT") if os.environ.get("MATINS_IN_RUN") else None)
    if not settings.keys() & {"prompt", "command", "job", "work_source", "steps"}:
        hint = "Give a PROMPT, --command TEXT, or --job NAME."
        raise InvalidInput("The schedule has nothing to do.", field="prompt", hint=hint)
    if "command" in settings and workdir:
        settings, workdir = {**settings, "workdir": os.path.abspath(workdir)}, None  # noqa: PTH100 - a link stays
    if not settings.keys() & {"command", "job", "steps"} and agent is None:
        known = [item["name"] for item in context.call("agents.list")][:_MAX_HINTED]
        hint = f"Use --agent {' or '.join(known or ['claude', 'codex', 'gemini', 'demo'])}."
        raise InvalidInput("A prompt needs an agent.", field="agent", hint=hint)
    agent, new = new_agent(context, agent, workdir, permission, ask=not dry_run)
    given = without_none(name=name, when=when, agent=agent) | {"create_agent": True, **settings, **own_zone}
    if dry_run:
        found = context.send("schedules.preview_new", given)
        return context.show(found, lambda: _previewed(context, found))
    document = _added(context, given, new)
    context.note_all(document["notes"])
    context.show(document, lambda: summary(context, "Added", document))
    if own_zone:
        note_zone(context, document, str(when))
    noted = any(note.startswith("No node ") for note in document["notes"])
    noted = noted or _note_job(context, document["job"], settings)
    if not noted and context.note_if_not_running() and _tries(context, document, try_now):
        run_once(context, document)
    return None


def _added(context: CliContext, given: Document, new: dict[str, str]) -> Document:
    """The new schedule. A person at a terminal is asked for the account of its agent, where Matins is root."""
    try:
        return context.send("schedules.add", given | ({"new_agent": new} if new else {}))
    except InvalidInput as error:
        if error.field != "user" or not context.is_interactive:
            raise
    return context.send("schedules.add", given | {"new_agent": new | ask_account()})


def _when_and_settings(
    arguments: Sequence[str | None], settings: Mapping[str, Any]
) -> tuple[str | None, Mapping[str, Any]]:
    """WHEN, if there is one, and the settings with the PROMPT."""
    when, prompt, *more = arguments
    if more:
        given = " ".join(map(str, arguments))
        hint = f"Put each in quotes: {EXAMPLE}"
        raise InvalidInput(f"WHEN and PROMPT are two arguments, not more: {given}", field="when", hint=hint)
    if "on" in settings and not settings.keys() & {"command", "job", "steps"} and prompt is None:
        when, prompt = None, when  # calls alone start it
    settings = {**without_none(prompt=read_prompt(prompt)), **settings}
    if when is None and not settings.keys() & {"on", "steps"}:
        raise InvalidInput("WHEN is missing.", field="when", hint=f"For example: {EXAMPLE}")
    return when, settings


def _tries(context: CliContext, schedule: Document, try_now: bool) -> bool:
    """Whether to run it once now: with --try, or when the person at the terminal wants to see it work."""
    if try_now or not (context.is_interactive and schedule["agent"] and schedule["state"] == "active"):
        return try_now
    return click.confirm("Try it now?", default=False, err=True)


def read_prompt(given: str | None) -> str | None:
    """The prompt: as it is, of a file (`@prompt.md`), or from stdin (`-`)."""
    if given == "-":
        return sys.stdin.read()
    if given is None or not given.startswith("@") or len(given) == 1:
        return given
    hint = "Check the path. A prompt that begins with @ is a file; begin it with a space to send it as it is."
    return file_text(given, "prompt", hint)


def file_text(given: str, field: str, hint: str) -> str:
    """The content of the file that `@path` names."""
    path = Path(given[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"{path} cannot be read: {reason}.", value=given, field=field, hint=hint) from None


def _previewed(context: CliContext, found: Document) -> list[str]:
    asks = ["It would be a proposal: a person must approve it."] if found["needs_approval"] else []
    return [
        *(one_line(note) for note in found["notes"]),
        *forecast_lines(context, found["forecast"]),
        *asks,
        "Dry run: nothing was added.",
    ]


def note_zone(context: CliContext, schedule: Document, when: str) -> None:
    """Say whose clock the times are on, where that matters."""
    if schedule["trigger"]["kind"] not in ("interval", "never") and not _RELATIVE.match(when):
        context.note(f"The times are in {schedule['timezone']}, your time zone. For another: --timezone ZONE")


def _note_job(context: CliContext, job: str, settings: Mapping[str, Any]) -> bool:
    """Whether a job of another program was noted, because no running engine has it."""
    known: list[Document] = context.call("system.jobs") if "job" in settings else []
    if not any(item["name"] == job and not item["installed"] and not item["engines"] for item in known):
        return False
    context.note(f'No running engine has the job "{job}". Start the program that registers it.')
    return True


@root_command("edit")
@name_argument
@agent_option()
@when_option
@step_option
@setting_options(SCHEDULE, unset=True)
@click.option("--dry-run", is_flag=True, help="Preview of the changes only.")
@pass_context
def edit(
    context: CliContext, name: str, agent: str | None, dry_run: bool, steps: tuple[str, ...], **options: Any
) -> None:
    settings = given_settings(SCHEDULE, options) | given_steps(steps)
    check_any(settings)
    arguments = without_none(name=name, agent=agent) | settings
    forecast = context.send("schedules.preview_edit", arguments)
    if dry_run:
        context.show(forecast, lambda: [*(_changes(forecast) or [_SAME]), "Dry run: nothing was changed."])
        return
    item = context.send("schedules.edit", arguments)
    context.note_all(item["notes"])
    verb = "Changed" if forecast["settings"] else "Unchanged"
    context.show(item, lambda: [*_changes(forecast), summary(context, verb, item)])
    _note_job(context, item["job"], settings)
    if forecast["voids"]:
        context.note("The request for approval is made again: matins approvals")


def _changes(forecast: Document) -> list[str]:
    return [
        f"  {state_text(change['setting'])}: {plain(change['before'])} → {plain(change['after'])}"
        for change in forecast["settings"]
    ]
