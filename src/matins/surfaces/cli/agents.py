"""`matins agents`: the commands of every record, with relative directories resolved."""

from __future__ import annotations

import os

from matins.surfaces.cli.context import CliContext
from matins.surfaces.cli.records import Settings, record_group


def workdir_from_here(context: CliContext, settings: Settings) -> Settings:
    """The settings with an absolute directory, unless the daemon may be on another machine."""
    workdir = settings.get("workdir")
    if not isinstance(workdir, str) or workdir.startswith("~") or context.location["url"]:
        return settings
    return settings | {"workdir": os.path.abspath(workdir)}  # noqa: PTH100 - a link stays as it was typed


agents = record_group("agents", workdir_from_here)
