"""`matins nodes`."""

from __future__ import annotations

import time

import click

from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, pass_context
from matins.surfaces.cli.tables import Column
from matins.surfaces.display import one_line

_LOOK_S = 1.0


def _runs(node: Document, now: object) -> str:
    return str(node["runs"]) if node["max_runs"] is None else f"{node['runs']}/{node['max_runs']}"


def _why(node: Document, now: object) -> str:
    by = "" if node["by"] is None else f"by {node['by']}"
    return f"{by}: {node['note']}" if node["note"] else by


_COLUMNS = (
    Column("NODE", "name"),
    Column("STATE", lambda node, now: node["state"] if node["live"] else f"{node['state']}, not running"),
    Column("RUNS", _runs, right=True),
    Column("LABELS", lambda node, now: " ".join(node["labels"])),
    Column("RUNNERS", lambda node, now: " ".join(node["runners"])),
    Column("VERSION", lambda node, now: node["version"] or ""),
    Column("REASON", _why),
)
nodes = NounGroup("nodes", help_of("nodes"))
_name = click.argument("name", metavar="NODE")
_note = click.option("--note", metavar="TEXT", help="Why, for others to read.")


@nodes.command("list")
@pass_context
def list_nodes(context: CliContext) -> None:
    """List machines with an engine, and what they offer."""
    context.show_list(_COLUMNS, context.call("nodes.list"), "No engine is running.")


@nodes.command()
@_name
@_note
@pass_context
def cordon(context: CliContext, name: str, note: str | None) -> None:
    """Let a node take no new runs. Its runs go on. A restart does not open it."""
    _show(context, context.call("nodes.cordon", name=name, note=note), "Cordoned")


@nodes.command()
@_name
@_note
@click.option("--within", metavar="DURATION", help="Interrupt what still runs after this time.")
@pass_context
def drain(context: CliContext, name: str, note: str | None, within: str | None) -> None:
    """Cordon a node, and wait until it has no runs. The exit code is 0 when it is empty.

    Ctrl-C stops the waiting. The node stays cordoned.
    """
    node = context.call("nodes.drain", name=name, note=note, within=within)
    context.note(f"Waiting for {node['runs']} runs of {one_line(name)}.")
    while node["runs"]:
        time.sleep(_LOOK_S)
        node = context.call("nodes.get", name=name)
    _show(context, node, "Drained")


@nodes.command("open")
@_name
@pass_context
def open_node(context: CliContext, name: str) -> None:
    """Let a node take runs again."""
    _show(context, context.call("nodes.open", name=name), "Opened")


def _show(context: CliContext, node: Document, verb: str) -> None:
    context.show(node, lambda: one_line(f"{verb} {node['name']}. Its runs: {node['runs']}"))
