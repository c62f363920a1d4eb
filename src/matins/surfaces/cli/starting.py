"""The first commands: `matins` alone, `matins init`, `matins demo`."""

from __future__ import annotations

import os

import click

from matins.surfaces.cli.accounts import account_settings
from matins.surfaces.cli.context import CliContext
from matins.surfaces.cli.daemon import port_option
from matins.surfaces.cli.folders import meant_folder
from matins.surfaces.cli.framework import pass_context, root_command
from matins.surfaces.cli.terminal_text import one_line
from matins.surfaces.home import Home

_TITLE = "Matins wakes AI agents on time."
_ADD = 'matins add "every weekday at 9am" --agent claude "Summarise my open PRs"'


def welcome(context: CliContext) -> None:
    """Print what is set up, and the next step."""
    state, steps = _next_steps(context)
    document = {"state": state, "next": [command for command, _ in steps]}
    context.show(document, lambda: [state, *_lines(steps)])


def _next_steps(context: CliContext) -> tuple[str, list[tuple[str, str]]]:
    if context.location["url"] or os.environ.get("MATINS_IN_RUN"):
        return _TITLE, [("matins list", "what is scheduled"), (_ADD, "")]
    home = Home(context.location["home"])
    running = home.running()
    if running is not None:
        state = f"{_TITLE} The daemon runs at {running.url}."
        return state, [(_ADD, ""), ("matins list", "what is scheduled"), ("matins doctor", "what is missing")]
    look = ("matins demo", "look at a demonstration first")
    if home.file.exists() or (home.path / "matins.db").exists():
        state = f"{_TITLE} No daemon runs for {home.path}."
        return state, [("matins up", "start it"), ("matins list", "what is scheduled"), look]
    state = f"{_TITLE} {home.path} is empty."
    return state, [("matins init", "write a file for what is found here"), ("matins up", "start"), look]


def _lines(steps: list[tuple[str, str]]) -> list[str]:
    """The next step, what may follow, and where everything is."""
    listed = [*steps, ("matins --help", "all commands")]
    labels = ["Next:", *[""] * len(steps)]
    return [f"  {label:5} {command:13}  {text}".rstrip() for label, (command, text) in zip(labels, listed, strict=True)]


@root_command("init")
@click.option("--examples", is_flag=True, help="Two schedules in the file; otherwise they are comments.")
@click.option("--user", metavar="ACCOUNT", help="Account of the agents, where Matins is root.")
@click.option("--isolation", type=click.Choice(["none"]), help="Let the agents be root, where Matins is.")
@pass_context
def init(context: CliContext, examples: bool, user: str | None, isolation: str | None) -> None:
    """The file is matins.yaml in the home directory. It has the agents whose tools are on PATH, the repository of the
    current directory, and your time zone.
    """
    home = Home(context.location["home"])
    account = account_settings(context, user, isolation)
    path, found = context.app.init(context.location["home"], meant_folder(home.path), account, examples=examples)
    document = {"file": path, "found": found}
    context.show(document, lambda: [one_line(f"Wrote {path}"), *(f"  {one_line(line)}" for line in found)])
    context.note("The daemon applies it." if home.running() else "Next: matins up")


@root_command("demo")
@port_option
@pass_context
def demo(context: CliContext, port: int | None) -> None:
    """An agent wakes every ten seconds, a run waits for your approval, and one is skipped. It needs no tool and no key.
    Its directory is ~/.local/share/matins-demo, or that of --home.
    """
    context.app.demo(home=context.location["home"], port=port)
