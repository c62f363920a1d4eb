"""The part of a transaction that both stores share: everything outside the hot path, and the reading of rows."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from matins.model.rows import NewEvent
from matins.store.common.access import AccessQueries
from matins.store.common.approvals import ApprovalQueries
from matins.store.common.calls import CallQueries
from matins.store.common.chat import ChatQueries
from matins.store.common.history import HistoryQueries
from matins.store.common.incidents import IncidentQueries
from matins.store.common.listing import ListingQueries
from matins.store.common.overview import OverviewQueries
from matins.store.common.policies import PolicyQueries
from matins.store.common.runs import RunQueries
from matins.store.common.schedules import ScheduleQueries
from matins.store.common.spending import SpendingQueries
from matins.store.common.subscriptions import SubscriptionQueries
from matins.store.common.threads import ThreadQueries


class CommonTransaction(
    ScheduleQueries,
    RunQueries,
    HistoryQueries,
    ListingQueries,
    OverviewQueries,
    PolicyQueries,
    ApprovalQueries,
    SpendingQueries,
    SubscriptionQueries,
    ThreadQueries,
    CallQueries,
    ChatQueries,
    IncidentQueries,
    AccessQueries,
):
    """The operations of a transaction that do not differ between the stores."""

    events: list[NewEvent]

    def _execute(self, statement: str) -> None:
        raise NotImplementedError

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """A part of the transaction: it is undone when it fails."""
        before = len(self.events)
        self._execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            del self.events[before:]
            self._execute("ROLLBACK TO SAVEPOINT part")
            self._execute("RELEASE SAVEPOINT part")
            raise
        self._execute("RELEASE SAVEPOINT part")
