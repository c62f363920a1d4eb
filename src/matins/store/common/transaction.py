"""The part of a transaction that both stores have in common: everything outside the hot path, and its reading."""

from __future__ import annotations

from matins.store.common.approvals import Approvals
from matins.store.common.desk import Desk
from matins.store.common.governance import Governance
from matins.store.common.history import HistoryQueries
from matins.store.common.ledger import Ledger
from matins.store.common.outbox import Outbox
from matins.store.common.runs import RunQueries
from matins.store.common.schedules import ScheduleQueries
from matins.store.common.threads import Threads


class CommonTransaction(
    ScheduleQueries, RunQueries, HistoryQueries, Governance, Approvals, Ledger, Outbox, Threads, Desk
):
    """The operations of a transaction that do not differ between the stores."""
