"""`matins logs`: what a run printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from matins.errors import NotFound
from matins.surfaces.cli.commands import Command, agent_option, complete_names, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.text import without_codes
from matins.surfaces.cli.transcript import Transcript

_PIECE = 65_536
_LOOK_S = 0.3


@click.command(cls=Command)
@click.argument("what", metavar="RUN|NAME", shell_complete=complete_names)
@agent_option
@click.option("--follow", "-f", is_flag=True, help="Go on until it is over; with --json a document a line.")
@click.option("--stderr", is_flag=True, help="What it said on stderr.")
@click.option("--raw", is_flag=True, help="As it was printed, with colours and codes.")
@pass_desk
def logs(desk: Desk, what: str, agent: str | None, follow: bool, stderr: bool, raw: bool) -> None:
    """What a run printed: by its number, or the last of a schedule.

    What an agent's tool tells as JSON is shown as what the agent said and did; --raw shows it as it was printed.
    """
    run = _run(desk, what, agent)
    total, transcript = 0, Transcript()
    pieces = _pieces(desk, run["id"], "stderr" if stderr else "stdout", follow=follow)
    if desk.as_json and not follow:
        pieces = iter([_joined(list(pieces))])
    for piece in pieces:
        total = piece["total"]
        if desk.as_json:
            desk.show_line(piece, str)
        elif raw:
            click.echo(piece["text"], nl=False, color=True)
        else:
            click.echo(without_codes(transcript.read(piece["text"])), nl=False)
    click.echo(without_codes(transcript.rest()), nl=False)
    if not total:
        desk.tell(f"Run {run['id']} printed nothing there. How it stands: matins runs show {run['id']}")


def _pieces(desk: Desk, run_id: str, stream: str, *, follow: bool) -> Iterator[dict[str, Any]]:
    """All that there is; for whoever follows, also what is still to come."""
    at = 0
    while True:
        piece = desk.ask("output", run_id=run_id, stream=stream, offset=at, limit=_PIECE)
        if piece["offset"] > at:
            desk.tell(f"… {piece['offset'] - at} bytes are not kept …")
        yield piece
        more, at = piece["next"] > at, piece["next"]
        if piece["over"] or not (more or follow):
            return
        if not more:
            desk.wait(_LOOK_S)


def _joined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """As if it had been asked for at once."""
    return {**pieces[-1], "offset": pieces[0]["offset"], "text": "".join(piece["text"] for piece in pieces)}


def _run(desk: Desk, what: str, agent: str | None) -> dict[str, Any]:
    """Numbers are runs; a schedule with a number for its name is said as agent/name."""
    if what.isascii() and what.isdigit() and agent is None:
        return desk.ask("get_run", run_id=what)
    found: list[dict[str, Any]] = desk.ask("runs", name=what, agent=agent, limit=50)
    started = next((run for run in found if run["started_at"]), None)
    if started is None:
        hint = f"what became of it: matins why {what}" if found else f"start it: matins run {what}"
        raise NotFound(f'"{what}" has not run yet', value=what, hint=hint)
    return started
