"""The protocols of the core: clock, store, and a transaction by groups of tables. They use only the model."""

from matins.ports.access_rows import AccessRows, FileRows, ThreadRows
from matins.ports.call_rows import CallRows
from matins.ports.chat_rows import ChatRows
from matins.ports.clock import Clock
from matins.ports.event_rows import HistoryRows, SubscriptionRows
from matins.ports.listing_rows import ListingRows
from matins.ports.overview_rows import OverviewRows
from matins.ports.policy_rows import ApprovalRows, PolicyRows, SpendingRows
from matins.ports.run_rows import RunRows, WaitingRows, WorkerRows
from matins.ports.schedule_rows import DueRows, ScheduleRows, ZoneRows
from matins.ports.store import Store
from matins.ports.transaction import Transaction

__all__ = ["AccessRows", "ApprovalRows", "CallRows", "ChatRows", "Clock", "DueRows", "FileRows", "HistoryRows",
           "ListingRows", "OverviewRows", "PolicyRows", "RunRows", "ScheduleRows", "SpendingRows", "Store",
           "SubscriptionRows", "ThreadRows", "Transaction", "WaitingRows", "WorkerRows", "ZoneRows"]  # fmt: skip
