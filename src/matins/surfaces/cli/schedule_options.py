"""The settings of a schedule as options; separate from `options`, since their declarations take long to load."""

from __future__ import annotations

import click

from matins.model.schedule import ScheduleDefinition, TriggerSettings
from matins.model.settings import settings_of
from matins.surfaces.cli.options import PREFIX, WHEN

SCHEDULE = settings_of(ScheduleDefinition, TriggerSettings)
when_option = click.option(
    "--when",
    PREFIX + WHEN,
    metavar="TEXT",
    help="When the schedule fires: English, cron, a duration or an instant.",
)
