"""Every use case, and the only door for the surfaces: they translate, call one of these, and translate back."""

from __future__ import annotations

from matins.service.approvals import Approvals
from matins.service.auditing import Audit, Auditing
from matins.service.backup import Backups
from matins.service.doctor import Doctoring
from matins.service.explaining import Explaining
from matins.service.forecasts import Forecasts
from matins.service.jobs import KnownJobs
from matins.service.journal import Journal
from matins.service.output import Outputs
from matins.service.overviews import Overview, Overviews
from matins.service.previews import Fire, Preview
from matins.service.rights import use_cases
from matins.service.runs import Runs
from matins.service.snapshots import Snapshots
from matins.service.stats import Figures
from matins.service.tokens import Tokens
from matins.service.what_if import WhatIf
from matins.service.written_back import WrittenBack

__all__ = ["Audit", "Fire", "Overview", "Preview", "Service"]


class Service(
    Doctoring, WrittenBack, Runs, Approvals, Explaining, Forecasts, WhatIf, Figures, Auditing, Overviews,
    Journal, KnownJobs, Outputs, Tokens, Backups, Snapshots,
):  # fmt: skip
    """One method for each use case; each takes the principal that asks."""


RIGHTS = use_cases(Service)
"""Every use case that can be called by name, with the right that it needs."""
READS = frozenset(name for name, right in RIGHTS.items() if right == "read") - {"known_jobs"}
"""What the store alone can tell; which jobs there are, its engine knows."""
