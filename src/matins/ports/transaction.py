"""One transaction: the rows of all tables, in groups."""

from __future__ import annotations

from typing import Protocol

from matins.model.rows import NewEvent
from matins.ports.access_rows import AccessRows, FileRows, ThreadRows
from matins.ports.call_rows import CallRows
from matins.ports.chat_rows import ChatRows
from matins.ports.event_rows import HistoryRows, SubscriptionRows
from matins.ports.incident_rows import IncidentRows
from matins.ports.listing_rows import ListingRows
from matins.ports.overview_rows import OverviewRows
from matins.ports.policy_rows import ApprovalRows, PolicyRows, SpendingRows
from matins.ports.run_rows import RunRows, WaitingRows, WorkerRows
from matins.ports.schedule_rows import DueRows, ScheduleRows, ZoneRows


class Transaction(
    DueRows,
    ScheduleRows,
    ZoneRows,
    RunRows,
    WaitingRows,
    WorkerRows,
    ListingRows,
    OverviewRows,
    PolicyRows,
    ApprovalRows,
    SpendingRows,
    HistoryRows,
    SubscriptionRows,
    ThreadRows,
    CallRows,
    ChatRows,
    IncidentRows,
    AccessRows,
    FileRows,
    Protocol,
):
    """The operations of one transaction. Events are linked to their chain when it commits."""

    events: list[NewEvent]
