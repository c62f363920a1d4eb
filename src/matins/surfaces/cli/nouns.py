"""`matins schedules`: what stands under the short forms, by its noun."""

from __future__ import annotations

import click

from matins.surfaces.cli.coming import preview
from matins.surfaces.cli.commands import Noun
from matins.surfaces.cli.explaining import why
from matins.surfaces.cli.running import list_runs, run
from matins.surfaces.cli.schedules import add, edit, list_schedules, pause, remove, resume, show


@click.group(cls=Noun)
def schedules() -> None:
    """list, add, show, edit, pause, resume, rm, run, runs, why, preview."""


schedules.takes(
    list=list_schedules, add=add, show=show, edit=edit, pause=pause, resume=resume, rm=remove, run=run,
    runs=list_runs, why=why, preview=preview,
)  # fmt: skip
