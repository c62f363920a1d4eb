"""`matins promote`: the store moves to another one."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing, contextmanager, nullcontext, suppress
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from matins.errors import StoreMoved, StoreUnavailable
from matins.model.words import counted
from matins.surfaces.cli.context import CliContext, use_cases
from matins.surfaces.cli.framework import pass_context, root_command
from matins.surfaces.display import one_line
from matins.surfaces.home import Home, absolute_url, redacted_url

if TYPE_CHECKING:
    from matins.service.moving import Move, Preview

_LOOK_S = 1.0


@root_command("promote")
@click.argument("target", metavar="URL")
@click.option(
    "--wait", is_flag=True, help="Let nothing new start, and wait until nothing runs and engines have stopped."
)
@click.option("--abort", is_flag=True, help="Give up a move that was not finished.")
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_context
def promote(context: CliContext, target: str, wait: bool, abort: bool, dry_run: bool, yes: bool) -> None:
    """Everything goes to the store at URL, which must be empty: postgresql://user@host/db, or sqlite:////full/path.db.

    Nothing runs meanwhile. If it is killed, the same command finishes it, and --abort gives it up. The store that was
    left stays, with a backup beside it, and says where it went.
    """
    shown = redacted_url(absolute_url(target))
    with closing(context.app.move(target, context.note, **context.location)) as move:
        if abort:
            move.abort()
            context.show({"aborted": shown}, lambda: one_line(f"Gave up the move to {shown}. Nothing has moved."))
            return
        with _drained(context, move, shown) if wait and not dry_run else nullcontext():
            found = move.prepare()
        lines = _preview(context, found, shown)
        if dry_run:
            context.show({"target": shown, **found._asdict(), "counts": found.counts._asdict()}, lambda: lines)
            return
        context.note_all(lines)
        if not yes and not context.is_interactive:
            raise click.UsageError(
                "Without a terminal to ask at, --yes begins; --dry-run only shows what would be moved."
            )
        context.confirm("Begin?" if found.begun is None else "Go on?", yes=yes)
        counts = move.run()
    text = f"Moved to {shown}: {_carried(found)}."
    context.show({"target": shown, "counts": counts._asdict()}, lambda: one_line(text))
    context.note(f"Start: matins up --store {quote(shown)}")
    context.note(f"For commands where no daemon runs: export MATINS_STORE={quote(shown)}")


def _preview(context: CliContext, found: Preview, target: str) -> list[str]:
    store = context.location["store"]
    source = redacted_url(absolute_url(store)) if store else Home(context.location["home"]).store
    verb = "Moves" if found.begun is None else f"Finishes the move that began on {found.begun},"
    return [
        one_line(f"{verb} {source} to {target}: {_carried(found)}."),
        *([one_line(f"  A backup first: {found.backup}")] if found.backup else []),
        *([one_line(f"  Output of runs goes to {found.output}")] if found.output else []),
    ]


def _carried(found: Preview) -> str:
    counts = found.counts
    waiting = f", {counted(counts.approvals, 'pending approval')}" if counts.approvals else ""
    carried = counted(counts.schedules, "schedule"), counted(counts.runs, "run"), counted(counts.events, "event")
    return f"{', '.join(carried)}{waiting}"


@contextmanager
def _drained(context: CliContext, move: Move, target: str) -> Generator[None]:
    """Let the nodes take no new runs, and wait until nothing runs and no engine does. If the move cannot begin, they
    are open again; once it begins, they are open in the target."""
    closed: list[str] = []
    try:
        with suppress(StoreMoved):  # it has begun already
            _wait(context, target, closed)
        yield
    except BaseException:
        move.close()
        for name in closed:
            _asked(context, "nodes.open", name=name)
        raise


def _wait(context: CliContext, target: str, closed: list[str]) -> None:
    told = None
    while live := [node for node in _asked(context, "nodes.list") if node["live"]]:
        for node in live:
            if node["state"] == "open":
                _asked(context, "nodes.cordon", name=node["name"], note=f"moving to {target}")
                closed.append(node["name"])
        names, runs = ", ".join(node["name"] for node in live), sum(node["runs"] for node in live)
        if (names, runs) != told:
            running = Home(context.location["home"]).running()
            stop = "Stop it" if running is None else f"Stop it: kill {running.pid}, or Ctrl-C in its terminal"
            ended = f"Nothing runs on {names} any more. {stop}; then the move begins."
            context.note(f"Waiting for {counted(runs, 'run')} of {names}. Nothing new starts there." if runs else ended)
            told = names, runs
        time.sleep(_LOOK_S)


def _asked(context: CliContext, use_case: str, **arguments: str) -> Any:
    """What the daemon says, or the store once the daemon has ended."""
    try:
        return context.app.transport(**context.location).document(use_cases()[use_case], arguments)
    except StoreUnavailable:
        time.sleep(_LOOK_S)  # it is ending
        return context.app.transport(**context.location).document(use_cases()[use_case], arguments)
