"""`matins up`, `init`, `stats`, `doctor`, `backup` and `service`.

`matins up`, `stats`, `doctor`, `backup`, `service`: the daemon and its store.

The first commands: `matins` alone, `matins init`, `matins demo`.

The directory that a person means when a command is given in it.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

import click

from matins.model.words import counted
from matins.surfaces.cli import context as errors
from matins.surfaces.cli.accounts import account_settings
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import Command, PlainOption, pass_context, root_command
from matins.surfaces.cli.tables import Cell, wrapped
from matins.surfaces.cli.times import duration_text
from matins.surfaces.display import one_line
from matins.surfaces.home import Home

_SCHEDULES = {"active": "active", "paused": "paused", "pending": "proposed"}
_FILE = click.Path(dir_okay=False)
_FILE_HELP = "Configuration file. Default: matins.yaml in the home directory."
_HOST = "127.0.0.1"
_INDENT, _NARROWEST = " " * 9, 20
port_option = click.option(
    "--port",
    cls=PlainOption,
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port of the API. Default: 7411, or a free one.",
)


@root_command("up")
@click.option("--file", metavar="FILE", type=_FILE, help=_FILE_HELP)
@click.option("--host", metavar="HOST", default=_HOST, help=f"Address that the API listens on. Default: {_HOST}.")
@port_option
@click.option("--log", type=click.Choice(["plain", "json"]), default="plain", help="Format of the log. Default: plain.")
@click.option("--name", metavar="NAME", help="Name of this node. Default: the name of the host.")
@click.option(
    "--label", "labels", metavar="LABEL", multiple=True, help="Label that this node offers to runs_on; repeatable."
)
@click.option("--agents", metavar="NAMES", help="Agents whose runs this node takes, separated by commas. Default: all.")
@click.option(
    "--max-runs",
    cls=PlainOption,
    metavar="N",
    type=click.IntRange(min=1),
    help="Maximum runs of this node at once. Default: no limit.",
)
@click.option(
    "--output-url",
    metavar="URL",
    help="Object storage for output that is longer than the database keeps: s3://BUCKET/PREFIX.",
)
@pass_context
def up(
    context: CliContext,
    file: str | None,
    host: str,
    port: int | None,
    log: str,
    name: str | None,
    labels: tuple[str, ...],
    agents: str | None,
    max_runs: int | None,
    output_url: str | None,
) -> None:
    """The daemon runs schedules until Ctrl-C."""
    location = {"store": context.location["store"], "home": context.location["home"]}
    taken = None if agents is None else [agent.strip() for agent in agents.split(",")]
    node: dict[str, Any] = {
        "name": name,
        "labels": labels,
        "agents": taken,
        "max_runs": max_runs,
        "output_url": output_url,
    }
    context.app.up(file=file, host=host, port=port, log=log, node=node, **location)


@root_command("worker")
@click.option(
    "--from", "source", metavar="URL", help="Where orders come from: temporal://HOST:PORT/NAMESPACE. Default: stdin."
)
@click.option("--name", metavar="NAME", help="Name of this worker. Default: the name of the host.")
@click.option("--label", "labels", metavar="LABEL", multiple=True, help="Label that this worker offers to runs_on.")
@click.option(
    "--max-runs", cls=PlainOption, metavar="N", type=click.IntRange(min=1), help="Maximum runs at once. Default: 16."
)
@pass_context
def worker(
    context: CliContext, source: str | None, name: str | None, labels: tuple[str, ...], max_runs: int | None
) -> None:
    """A worker runs agents and jobs on a machine that does not reach the store.

    It takes orders, and gives back outcomes as JSON. Secrets arrive as references (env:NAME, file:/path), and are
    resolved here. Ctrl-C stops it; agents that run continue, and the next worker with this home follows them.
    """
    context.app.worker(source, context.location["home"], name, labels, max_runs)


@root_command("stats")
@pass_context
def stats(context: CliContext) -> None:
    found = context.call("system.stats")
    context.show(found, lambda: _stats(context, found))


def _stats(context: CliContext, found: Document) -> list[str]:
    limit = "" if found["max_concurrent"] is None else f" of at most {found['max_concurrent']}"
    oldest = f", the oldest {context.relative_time(found['oldest_approval'])}" if found["oldest_approval"] else ""
    throttled = [f"{item['provider']} until {context.until(item['resets_at'])}" for item in found["throttles"]]
    return context.fields(
        ("engine", "✓ running" if found["running"] else "✗ not running: matins up"),
        ("schedules", ", ".join(f"{found[f'{state}_schedules']} {text}" for state, text in _SCHEDULES.items())),
        ("running", f"{found['running_executions']}{limit}"),
        ("waiting", f"{found['ready_runs']} ready, {found['waiting_runs']} waiting"),
        ("approvals", f"{found['waiting_approvals']}{oldest}"),
        ("failures", f"{found['recent_failures']} in the last 24 hours"),
        ("lag", duration_text(found["planner_lag_ms"])),
        ("today", f"{found['spend_today']}, {counted(found['tokens_today'], 'token')}"),
        ("throttles", ", ".join(throttled)),
    )


@root_command("doctor")
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """The exit code is 1 when something is wrong."""
    context = ctx.ensure_object(CliContext)
    found: list[Document] = context.call("system.doctor")
    context.show(found, lambda: [line for finding in found for line in _finding(context, finding)])
    ctx.exit(errors.FAILED if any(finding["ok"] is False for finding in found) else errors.OK)


def _finding(context: CliContext, finding: Document) -> list[str]:
    mark = {True: Cell("✓ ok   ", "green"), False: Cell("✗ bad  ", "red")}.get(finding["ok"], Cell("? check", "yellow"))
    width = None if context.width is None else max(context.width - len(_INDENT), _NARROWEST)
    first, *rest = wrapped(f"{one_line(finding['what'])}: {one_line(finding['sentence'])}", width)
    lines = [f"{context.painted(mark)}  {first}", *(f"{_INDENT}{line}" for line in rest)]
    if finding["fix"] and finding["ok"] is not True:
        lines.append(f"{_INDENT}fix: {one_line(finding['fix'])}")  # whole, for copying
    return lines


@root_command("backup")
@click.argument("path", type=click.Path(dir_okay=False))
@pass_context
def backup(context: CliContext, path: str) -> None:
    """The copy at PATH has the whole database, also while an engine runs.

    The output of runs (matins logs) is not in it: copy its folder too, if you need it.
    """
    from pathlib import Path

    context.note("Copying the store …")
    found = context.call("system.backup", path=str(Path(path).absolute()))
    context.show(found, lambda: one_line(f"Backed up to {found['path']}: {found['bytes']:,} bytes"))
    context.note("The output of runs is not in it: that is in the folder beside the store (matins.db.runs).")


service = click.Group("service", help=help_of("service"))


@service.command(cls=Command)
@click.option("--print", "only_print", is_flag=True, help="Print the file, and change nothing.")
@click.option("--file", metavar="FILE", type=_FILE, help=_FILE_HELP)
@pass_context
def install(context: CliContext, only_print: bool, file: str | None) -> None:
    """Keep the daemon running: start it now, after each restart of this machine, and after a crash.

    On Linux systemd does it, on macOS launchd. As root, the service belongs to the machine and has an account of its
    own; as another user, it belongs to you and has your keys and directories. Install again after an upgrade.
    """
    found = context.app.service(store=context.location["store"], file=file, home=context.location["home"])
    if only_print:
        context.show({"path": str(found.path), "text": found.text}, lambda: found.text.rstrip())
        return
    context.note(f"Installing {found.path} …")
    done = found.install()
    context.show({**done, "text": found.text}, lambda: _installed(done, found.text))
    if done["note"]:
        context.note(done["note"])


@service.command("rm", cls=Command)
@pass_context
def remove_service(context: CliContext) -> None:
    """Stop the service and remove it. The store and the history stay in the home directory."""
    done = context.app.service(store=None, file=None, home=context.location["home"]).remove()
    context.show(done, lambda: [f"Removed {done['path']}.", *_typed(done), f"The store stays in {done['home']}."])


def _installed(done: Document, text: str) -> list[str]:
    home = "" if done["home"] == str(Home().path) else f" --home {shlex.quote(done['home'])}"
    return [
        f"Wrote {done['path']}:",
        "",
        *(f"  {line}" for line in text.rstrip().splitlines()),
        "",
        *_typed(done),
        "",
        "The daemon runs, and starts again after a restart of this machine.",
        f"  look      matins{home} status",
        f"  log       {done['log']}",
        f"  remove    matins{home} service rm",
    ]


def _typed(done: Document) -> list[str]:
    """The commands that changed the machine."""
    return [f"$ {command}" for command in done["commands"]]


def meant_folder(home: Path) -> str | None:
    """The repository that holds the current directory, or else that directory. None for one that nobody means: the
    user's own, the root, a directory for temporary files, and the home of Matins."""
    here = Path.cwd()
    repository = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    found = repository or here
    if found in (Path("/"), Path.home(), Path(tempfile.gettempdir())) or found.is_relative_to(home):
        return None
    return str(found)


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
