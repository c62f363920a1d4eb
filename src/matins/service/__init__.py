"""Every use case, and the only door for the surfaces: they translate, call one of these, and translate back."""

from __future__ import annotations

from matins.service.agents import Agents
from matins.service.approvals import Approvals
from matins.service.auditing import Audit, Auditing
from matins.service.events import Events
from matins.service.explaining import Explaining
from matins.service.forecasts import Forecasts
from matins.service.overviews import Overview, Overviews
from matins.service.previews import Fire, Preview
from matins.service.rights import use_cases
from matins.service.runs import Runs
from matins.service.schedules import Schedules
from matins.service.stats import Figures
from matins.service.what_if import WhatIf

__all__ = ["Audit", "Fire", "Overview", "Preview", "Service"]


class Service(Schedules, Runs, Approvals, Agents, Events, Explaining, Forecasts, WhatIf, Figures, Auditing, Overviews):
    """One method for each use case; each takes the principal that asks."""


RIGHTS = use_cases(Service)
"""Every use case that can be called by name, with the right that it needs."""
READS = frozenset(name for name, right in RIGHTS.items() if right == "read")
