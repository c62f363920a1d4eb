"""One transaction: methods made from the headers of the `.sql` files, and here those that are more than a statement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import orjson

from matins.errors import StoreUnavailable
from matins.model.access import BrowserSession, Token
from matins.model.call import Call, Listener
from matins.model.event import (
    ChainHead,
    HeldNotice,
    IncidentRow,
    NewNotice,
    SealRow,
    StoredEvent,
    Subscription,
    SubscriptionState,
)
from matins.model.overview import (
    ComingCursor,
    DaySpend,
    LaneCount,
    LaneWindow,
    NamedSpend,
    RecordSpan,
    ScheduleSort,
    TabCounts,
)
from matins.model.policies import Approval, BudgetUsage, Throttle, Vote
from matins.model.rows import (
    AttemptRow,
    Claim,
    Cursor,
    DefinitionRow,
    Due,
    FileEntry,
    LabelRow,
    NewEvent,
    NewRun,
    NewSchedule,
    NewStep,
    NextSlot,
    PlainEnd,
    ReadyRun,
    Release,
    RunRow,
    ScheduleChange,
    ScheduleRow,
    StartedRun,
    StateChange,
    TurnFacts,
    from_tuple,
)
from matins.model.run import Thread, ThreadAssignment, Usage
from matins.model.selector import ALL, RunFilter, ScheduleFilter, Selector
from matins.store import _rows as made

R = TypeVar("R", Token, BrowserSession)


class Transaction(
    made.CursorRows,
    made.ScheduleRows,
    made.ZoneRows,
    made.RunRows,
    made.StepRows,
    made.AttemptRows,
    made.WaitingRows,
    made.BackfillRows,
    made.NodeRows,
    made.PlaceRows,
    made.PermitRows,
    made.WorkerRows,
    made.ListingRows,
    made.OutputRows,
    made.OverviewRows,
    made.PolicyRows,
    made.ApprovalRows,
    made.SpendingRows,
    made.EventRows,
    made.AuditRows,
    made.SubscriptionRows,
    made.DeliveryRows,
    made.AnswerRows,
    made.ThreadRows,
    made.CallRows,
    made.IncidentRows,
    made.AccessRows,
    made.FileRows,
    made.TextRows,
    made.MovingRows,
):
    """The operations of one transaction. Events are linked to their chain when it commits."""

    events: list[NewEvent]
    notifies = False
    """Whether other processes are notified when it is committed."""
    has_parts = False
    """Whether a part of it may be rolled back alone."""
    _policy_rev: int | None = None
    _reserved: bool | None = None
    _failing: bool | None = None
    """What was asked already; None if it was not, or has changed since."""

    @abstractmethod
    def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        """The rows of a statement whose text serves both stores; none when it returns nothing."""

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """A part of the transaction: it is undone when it fails."""
        before, self.has_parts = len(self.events), True
        self.execute("SAVEPOINT part")
        try:
            yield
            self.send()
        except BaseException:
            del self.events[before:]
            self._policy_rev = self._reserved = self._failing = None
            self.discard_unsent()
            self.execute("ROLLBACK TO SAVEPOINT part")
            self.execute("RELEASE SAVEPOINT part")
            raise
        self.execute("RELEASE SAVEPOINT part")

    def send(self) -> None:
        """Send statements that still wait for others. Where they are sent at once, this does nothing."""

    def discard_unsent(self) -> None:
        """Forget statements that still wait."""

    def turn_facts(self) -> TurnFacts:
        """What a turn of the engine asks first. The transaction does not ask it again."""
        facts = self._row(TurnFacts, "turn_facts")
        assert facts is not None
        self._policy_rev, self._reserved, self._failing = facts.policy_rev, bool(facts.reserved), bool(facts.failing)
        return facts

    # -- cursors

    def due(self, now: int, limit: int, *, newest: bool = False) -> list[Due]:
        """Due schedules, locked. Schedules that another worker has locked are omitted."""
        return self._rows(Due, "due_newest" if newest else "due_oldest", now=now, limit=limit)

    @abstractmethod
    def try_lock_due(self, schedule_ids: Iterable[int]) -> set[int]:
        """Lock these cursors without waiting. Cursors that another worker has locked are omitted."""

    @abstractmethod
    def advance(self, cursors: Sequence[Cursor]) -> set[int]:
        """Move cursors that have not changed since they were read, and return their schedules."""

    @abstractmethod
    def set_cursors(self, rows: Sequence[NextSlot]) -> None: ...

    @abstractmethod
    def count_failures(self, rows: Sequence[tuple[int, int | None]]) -> None:
        """Count ends of runs: (schedule, instant of the failure), or None for a success, which resets the count."""

    # -- schedules

    @abstractmethod
    def schedule_ids(self, count: int) -> Sequence[int]: ...

    @abstractmethod
    def insert_schedules(self, rows: Sequence[NewSchedule], now: int) -> None:
        """Add schedules. Raises Conflict if a name is in use; on PostgreSQL it may raise when it commits."""

    @abstractmethod
    def taken_names(self, names: Iterable[tuple[str, str]]) -> list[str]:
        """The first of these (agent, name) that exists."""

    @abstractmethod
    def definitions(self, keys: Iterable[tuple[int, int]]) -> list[DefinitionRow]: ...

    def insert_revision(self, schedule_id: int, rev: int, definition: str, now: int) -> None:
        self.insert_run_revision(schedule_id, rev, definition)
        self._all("edit_schedule", id=schedule_id, rev=rev, now=now)
        self._all("delete_labels", id=schedule_id)
        self._insert_labels([(schedule_id, definition)])

    def _insert_labels(self, definitions: Iterable[tuple[int, str]]) -> None:
        """Store the labels of schedules with these present definitions."""
        rows = [
            LabelRow(key, value, number)
            for number, definition in definitions
            if '"labels":{' in definition
            for key, value in orjson.loads(definition).get("labels", {}).items()
        ]
        if rows:
            self.insert_labels(rows)

    @abstractmethod
    def insert_labels(self, rows: Sequence[LabelRow]) -> None: ...

    def set_schedule_state(self, schedule_id: int, state: str, now: int, note: str | None, by: str | None) -> None:
        at = now if by else None
        self._all("set_schedule_state", id=schedule_id, state=state, note=note, by=by, at=at, now=now)

    def last_change(self, schedule_id: int, at: int) -> ScheduleChange | None:
        row: Any = self._row(ScheduleChange, "last_change", id=schedule_id, at=at)
        return None if row is None else row._replace(data=orjson.loads(row.data or "{}"))

    def last_move(self, schedule_id: int, since: int) -> ScheduleChange | None:
        """The last move of the schedule's next slot to other data of its zone: `from`, `to` and `zone`."""
        row: Any = self._row(ScheduleChange, "last_move", id=schedule_id, since=since, like='%"zone"%')
        return None if row is None else row._replace(data=orjson.loads(row.data))

    # -- runs

    @abstractmethod
    def run_ids(self, count: int) -> list[int]:
        """Ids for new runs, unique and ascending."""

    @abstractmethod
    def insert_runs(self, runs: Sequence[NewRun]) -> None: ...

    @abstractmethod
    def insert_attempts(self, rows: Sequence[AttemptRow]) -> None: ...

    @abstractmethod
    def next_ready(self, without: Iterable[str] = (), places: Iterable[int] = (0,)) -> int | None: ...

    @abstractmethod
    def ready(self, now: int, limit: int, without: Iterable[str] = (), places: Iterable[int] = (0,)) -> list[ReadyRun]:
        """Runs of these places that may start, the longest waiting first, without those of scopes in `without`. Locked
        as in `due`."""

    @abstractmethod
    def claim(self, rows: Sequence[Claim]) -> set[int]:
        """Claim runs, and return the claimed ones. A claimed run has the next epoch."""

    @abstractmethod
    def release(self, rows: Sequence[Release]) -> set[int]:
        """Make claimed runs that did not start ready again, and return them. No attempt is counted."""

    @abstractmethod
    def succeed(self, ends: Sequence[PlainEnd]) -> set[tuple[int, int]] | None:
        """End started runs as succeeded. Returns the (run, epoch) that were still valid; None if all were."""

    @abstractmethod
    def change_states(self, rows: Sequence[StateChange]) -> dict[tuple[int, int], bool]:
        """Apply transitions. Returns the (run, epoch) that were still valid, and whether a continuing run is to be
        cancelled."""

    @abstractmethod
    def promote(self, schedule_ids: Iterable[int], now: int) -> list[tuple[int, int]]:
        """Make the oldest queued runs ready if no other run is active, and return their (run, schedule)."""

    def mark_cancelling(self, run_ids: Iterable[int]) -> list[tuple[int, int, int]]:
        """Mark started runs as cancelling. Returns (run, schedule, owner) of those that were not marked before."""
        return self._all("mark_cancelling", ids=self._lock_due_of(run_ids))

    def live_runs(self, run_ids: Iterable[int]) -> list[StartedRun]:
        """The live runs among these, locked."""
        return self._rows(StartedRun, "live_runs", ids=self._lock_due_of(run_ids))

    def _lock_due_of(self, run_ids: Iterable[int]) -> Any:
        """The ids as a value of a statement, after the cursors of their schedules are locked."""
        return self._integers(run_ids)

    def attempt_ends(self, run_id: int) -> dict[int, int]:
        """The ends of attempts after which the run went on, by epoch."""
        return dict(self._all("attempt_ends", run_id=run_id))

    def insert_steps(self, steps: Sequence[NewStep]) -> None:
        for step in steps:
            self._all("insert_step", **step._asdict())

    def note_recorded(self, slot: int) -> None:
        """Store a slot that has a record although it is to come, for `recorded_until`, unless a later one is stored."""
        if slot > self.recorded_until():
            self._raised(self._all("set_recorded", value=str(slot)))

    def recorded_until(self) -> int:
        """The last slot that had a record and was still to come when the clock was last set back; 0 without one."""
        return int(self._value("meta", key="recorded_until") or 0)

    def set_replanning(self, begun: bool) -> None:
        """Note that planning after a step back of the clock has begun or ended: who follows a killed engine does it."""
        if begun:
            self._all("set_meta", key="replanning", value="1")
        else:
            self._all("delete_meta", key="replanning")

    def is_replanning(self) -> bool:
        return self._value("meta", key="replanning") is not None

    def withdraw_runs(self, run_ids: Iterable[int]) -> None:
        """Delete ended runs of slots that are to be planned again."""
        self._delete_runs(self._integers(run_ids))

    def delete_runs(self, run_ids: Iterable[int]) -> list[int]:
        """Delete ended runs with their steps. Returns the ids of all of them."""
        whole = list(run_ids)
        every = [*whole, *self._column("steps_of_runs", ids=self._integers(whole))]
        ids = self._integers(every)
        self._all("note_purged", ids=ids)
        self._delete_runs(ids)
        self._all("prune_votes")
        return every

    def delete_output(self, run_ids: Iterable[int]) -> None:
        """Delete the output of runs that the store has."""
        self._all("delete_outputs", ids=self._integers(run_ids))

    def purge_words(self) -> None:
        """Take what was deleted out of the index of texts, where it stays in it until then."""

    def _delete_runs(self, ids: Any) -> None:
        """Delete ended runs, and what belongs to them."""
        for notes in (
            "delete_attempts",
            "delete_checks",
            "delete_outputs",
            "delete_turned_away",
            "delete_watched",
            "delete_spend",
            "delete_run_usage",
            "delete_approvals",
            "delete_answers",
            "delete_run_texts",
            "delete_runs",
        ):
            self._all(notes, ids=ids)

    # -- places and permits

    def place(self, needs: str) -> int:
        """The number of a set of needs, which is added if it is new."""
        found = self._value("place", needs=needs)
        if found is None:
            self._all("insert_place", needs=needs)
            found = self._value("place", needs=needs)
        return found

    def turned_away(self, run_id: int) -> list[tuple[str, str]]:
        """The nodes that turned a run away, and why."""
        return self._all("turned_away", run_id=run_id)

    def clear_reports(self, places: Iterable[int]) -> None:
        for place in places:
            self._all("clear_report", id=place)

    @abstractmethod
    def set_limit(self, scope: str, size: int) -> None: ...

    def release_permits(self, run_ids: Iterable[int]) -> None:
        ids = self._integers(run_ids)
        self._all("delete_surplus_permits", ids=ids)
        self._all("release_permits", ids=ids)

    # -- pages of schedules and runs

    def listed(self, chosen: ScheduleFilter, sort: ScheduleSort, after: int, limit: int) -> list[ScheduleRow]:
        """The schedules after one of them, in an order. Those without a next slot are the last."""
        if sort != "next":
            return self._listed(f"listed_{sort}", chosen, after, limit)
        soon: list[ScheduleRow] = []
        if not after or self._value("fires_next", id=after):
            soon = self._listed("listed_next", chosen, after, limit)
            after = 0
        if len(soon) < limit:
            soon += self._listed("listed_never", chosen, after, limit - len(soon))
        return soon

    def _listed(self, query: str, chosen: ScheduleFilter, after: int, limit: int) -> list[ScheduleRow]:
        values = {"tab": chosen.tab, "deleted": chosen.deleted, "after": after, "limit": limit}
        rows = self._selecting(query, chosen.selector, chosen.reader, values)
        return list(map(from_tuple(ScheduleRow), rows))

    def tab_counts(self, selector: Selector, reader: str | None) -> TabCounts:
        (counts,) = self._selecting("tab_counts", selector, reader, {})
        return TabCounts(*counts)

    @abstractmethod
    def _selecting(self, query: str, selector: Selector, reader: str | None, values: Mapping[str, Any]) -> list[Any]:
        """The rows of a statement about what a selector selects. `reader`: the agent that asks, if it may look into the
        settings of its own schedules only."""

    def listed_runs(self, chosen: RunFilter, before: int, limit: int) -> list[RunRow]:
        """Whole runs, the newest first."""
        query = "listed_runs" if chosen.schedule_id is None else "listed_runs_of"
        values = {"before": before, "limit": limit, **chosen._asdict()}
        if chosen.search is not None:
            query = "listed_runs_saying"
            values["words"] = self._search_words(chosen.search.words)
            values["phrases"] = self._texts(chosen.search.phrases)
        rows = self._selecting(query, chosen.selector, chosen.reader, values)
        return list(map(from_tuple(RunRow), rows))

    @abstractmethod
    def _search_words(self, words: Iterable[str]) -> str:
        """What an index of texts looks for: words that begin with these."""

    def selected_ids(self, selector: Selector, reader: str | None) -> set[int]:
        """The schedules that a selector selects."""
        return {row[0] for row in self._selecting("selected_ids", selector, reader, {})}

    def lane_counts(self, window: LaneWindow, selector: Selector, reader: str | None, size: int) -> list[LaneCount]:
        """The records of a window, counted by lane, by part of the window of this size and by state."""
        rows = self._selecting("lane_counts", selector, reader, {**window._asdict(), "size": size})
        return list(map(from_tuple(LaneCount), rows))

    def lane_runs(
        self, window: LaneWindow, selector: Selector, reader: str | None, lanes: Iterable[str], limit: int
    ) -> list[tuple[str, RecordSpan]]:
        """The records of some lanes, the newest first, each with its lane."""
        named = "".join(f"\n{lane}\n" for lane in lanes)
        values = {**window._asdict(), "lanes": named, "edge": "\n", "limit": limit}
        return [(row[0], RecordSpan(*row[1:])) for row in self._selecting("lane_runs", selector, reader, values)]

    def lane_cursors(
        self, until: int, label: str | None, selector: Selector, reader: str | None, limit: int
    ) -> list[tuple[str, ComingCursor]]:
        """Schedules whose next slot is due before an instant, the soonest first, each with its lane."""
        values = {"until": until, "label": label, "limit": limit}
        return [(row[0], ComingCursor(*row[1:])) for row in self._selecting("lane_cursors", selector, reader, values)]

    def spend_by_day(
        self, since: int, until: int, offset: int, selector: Selector = ALL, reader: str | None = None
    ) -> list[DaySpend]:
        """What was spent, by day of a wall clock. `offset`: of that clock, in milliseconds."""
        values = {"since": since, "until": until, "offset": offset}
        return list(map(from_tuple(DaySpend), self._selecting("spend_by_day", selector, reader, values)))

    def spend_by_name(
        self, by: Literal["agent", "schedule"], since: int, until: int, limit: int,
        selector: Selector = ALL, reader: str | None = None,
    ) -> list[NamedSpend]:  # fmt: skip
        """What was spent, by agent or schedule, the most first."""
        values = {"since": since, "until": until, "limit": limit}
        return list(map(from_tuple(NamedSpend), self._selecting(f"spend_by_{by}", selector, reader, values)))

    # -- policies; engines read them, and subscriptions, again when their revision rises

    def _raised(self, changed: list[Any]) -> list[Any]:
        """The same rows. If there are any, the revision of the policies is raised first."""
        if changed:
            self._raise_policy_rev()
        return changed

    def _raise_policy_rev(self) -> None:
        self._all("increment_policy_rev")
        self._policy_rev = None

    def lock_policies(self) -> None:
        """Lock policies, throttles and budget usage, before any of them is changed. Another may have changed them
        meanwhile."""
        self._policy_rev = None
        super().lock_policies()

    def policy_rev(self) -> int:
        """The revision of the policies, which engines compare."""
        if self._policy_rev is None:
            self._policy_rev = self._value("policy_rev")
        return self._policy_rev or 0

    def upsert_policy(self, kind: str, name: str, definition: str, now: int, by: str) -> None:
        self._raise_policy_rev()
        self._all("upsert_policy", kind=kind, name=name, definition=definition, now=now, by=by)

    def delete_policy(self, kind: str, name: str) -> bool:
        self.lock_policies()
        return bool(self._raised(self._all("delete_policy", kind=kind, name=name)))

    def throttles(self) -> list[Throttle]:
        found: list[Any] = self._rows(Throttle, "throttles")
        return [row._replace(affects=tuple(orjson.loads(row.affects))) for row in found]

    def upsert_throttle(self, throttle: Throttle) -> Throttle:
        """Store a throttle and return the result. If two overlap, the later end applies to the agents of both."""
        self._raise_policy_rev()
        for other in self.throttles():
            if other.provider == throttle.provider and other.resets_at > throttle.activated_at:
                everybody = not (other.affects and throttle.affects)
                affects = () if everybody else tuple(sorted({*other.affects, *throttle.affects}))
                throttle = max(throttle, other, key=lambda t: t.resets_at)._replace(affects=affects)
        values = throttle._asdict() | {"affects": orjson.dumps(throttle.affects).decode()}
        self._all("upsert_throttle", **values)
        return throttle

    def delete_throttle(self, provider: str) -> bool:
        self.lock_policies()
        return bool(self._raised(self._all("delete_throttle", provider=provider)))

    def delete_ended_throttles(self, now: int) -> list[str]:
        if all(throttle.resets_at > now for throttle in self.throttles()):
            return []
        self.lock_policies()
        return self._raised(self._column("delete_ended_throttles", now=now))

    def prune_records(self, before: int, day: str) -> None:
        """Delete approvals and workers that ended before an instant, and budget usage before a day, if not pending."""
        self._all("prune_approvals", before=before)
        self._all("prune_votes")
        self._all("prune_budget_usage", day=day)
        self._all("prune_workers", before=before)

    # -- approvals

    def insert_approval(self, approval: Approval) -> int:
        approvers, request = (orjson.dumps(value).decode() for value in (approval.approvers, approval.request))
        values = approval._asdict() | {"approvers": approvers, "request": request}
        return self._value("insert_approval", **values)

    def approval(self, approval_id: int) -> Approval | None:
        return next(iter(self._approvals("approval", id=approval_id)), None)

    def lock_approval(self, approval_id: int) -> Approval | None:
        self._all("lock_approval", id=approval_id)
        return self.approval(approval_id)

    def approvals_in(self, state: str, after: int, limit: int, *, newest: bool = False) -> list[Approval]:
        query = "newest_approvals_in" if newest else "approvals_in"
        return self._approvals(query, state=state, after=after, limit=limit)

    def approvals_before(self, requested_before: int) -> list[Approval]:
        return self._approvals("approvals_before", before=requested_before)

    def approvals_of_run(self, run_id: int) -> list[Approval]:
        return self._approvals("approvals_of_run", run_id=run_id)

    def open_approvals(self, schedule_id: int) -> list[Approval]:
        """Requests that can still have an effect."""
        return self._approvals("open_approvals", schedule_id=schedule_id)

    def granted_approvals(self, schedule_id: int, limit: int) -> list[Approval]:
        """The last requests for a schedule or its runs that were approved and used, the newest first."""
        return self._approvals("granted_approvals", schedule_id=schedule_id, limit=limit)

    def expired_approvals(self, now: int, limit: int) -> list[Approval]:
        return self._approvals("expired_approvals", now=now, limit=limit)

    def _approvals(self, query: str, /, **values: Any) -> list[Approval]:
        """The requests of a statement, with their votes."""
        found: list[Any] = [Approval(*row) for row in self._all(query, **values)]
        votes: dict[int, list[Vote]] = {row.id: [] for row in found}
        for approval_id, *vote in self._all("votes", ids=self._integers(votes)) if found else ():
            votes[approval_id].append(Vote(*vote))
        return [
            row._replace(
                approvers=tuple(orjson.loads(row.approvers)),
                request=orjson.loads(row.request),
                votes=tuple(votes[row.id]),
            )
            for row in found
        ]

    # -- spending

    def past_spend(self, schedule_id: int, step: int, limit: int) -> list[Usage]:
        """The spending of the last runs of a schedule, or of one of its steps, the newest first."""
        query = "past_step_spend" if step else "past_spend"
        return [Usage(*row) for row in self._all(query, id=schedule_id, step=step, limit=limit)]

    def budget_usage(self, budget: str, subject: str, period: str) -> BudgetUsage:
        found = self._row(BudgetUsage, "budget_usage", budget=budget, of=subject, period=period)
        return found or BudgetUsage(budget, subject, period, 0, 0, 0, 0)

    def lock_budget_usage(self, budget: str, subject: str, period: str) -> BudgetUsage:
        self._all("insert_budget_usage", budget=budget, of=subject, period=period)
        return self._rows(BudgetUsage, "lock_budget_usage", budget=budget, of=subject, period=period)[0]

    def add_budget_usage(self, change: BudgetUsage) -> None:
        """Add `change`, whose numbers may be negative."""
        values = change._asdict()
        self._all("insert_budget_usage", **values)
        self._all("add_budget_usage", **values)

    def delete_budget_usage(self, budget: str) -> None:
        """Delete the usage and reservations of a budget, when it is deleted or recounted."""
        self._all("delete_budget_usage", budget=budget)
        self._all("delete_reservations", budget=budget)

    def any_reservation(self) -> bool:
        """Whether any reservation exists, or did when this was first asked."""
        if self._reserved is None:
            self._reserved = bool(self._all("any_reservation"))
        return self._reserved

    def insert_reservation(self, run_id: int, budget_usage: BudgetUsage, usage: Usage) -> None:
        self._reserved = True
        self._all("insert_reservation", run_id=run_id, **(budget_usage._asdict() | usage._asdict()))

    def reservations(self, run_id: int) -> list[BudgetUsage]:
        """The reservations of a run in each budget."""
        return [_reserved(*row) for row in self._all("reservations", run_id=run_id)]

    def take_reservations(self, run_id: int) -> list[BudgetUsage]:
        """Delete the reservations of a run, and return them."""
        return [_reserved(*row) for row in self._all("take_reservations", run_id=run_id)]

    def record_spend(self, run_id: int, schedule_id: int, agent: str, now: int, usage: Usage) -> None:
        spent = usage._asdict() | {"estimated": int(usage.estimated)}
        self._all("record_spend", run_id=run_id, schedule_id=schedule_id, agent=agent, now=now, **spent)

    def spend_of(self, run_id: int) -> Usage | None:
        row = self._row(Usage, "spend_of", run_id=run_id)
        return None if row is None else row._replace(estimated=bool(row.estimated))

    # -- the log, its chains and its seals

    @abstractmethod
    def seal(self, now: int) -> None:
        """Seal the events since the last seal."""

    @abstractmethod
    def prune_events(self, before: int, types: Iterable[str]) -> list[StoredEvent] | None:
        """Delete the first events of each chain, and return those of these types; None when there are none to delete.
        The hash of the last one is kept."""

    def prune_seals(self, limit: int) -> SealRow | None:
        """Delete the first seals whose events are all pruned, and return the last of them."""
        pruned = {writer.id: writer.pruned_seq for writer in self.writers()}
        last: SealRow | None = None
        *some, _ = self.seals(0, limit) or [None]  # the newest one stays: the chain continues from it
        for seal in some:
            if seal is None or any(seq > pruned.get(writer, 0) for writer, seq, *_ in orjson.loads(seal.heads)):
                break
            last = seal
        if last is not None:
            self._all("delete_seals", last=last.id)
        return last

    def count_bound(self, since: int) -> list[int]:
        """How many runs were created and how many ended since an instant, and how many attempts started."""
        (counts,) = self._all("count_bound", since=since)
        return list(counts)

    def unlogged_runs(self, since: int, created: Iterable[str], ended: Iterable[str]) -> list[int]:
        """Runs that were created or that ended since an instant without an event of these types; a few of them."""
        unplanned = self._column("unplanned_runs", since=since, types=self._texts(created))
        return unplanned or self._column("unlogged_runs", since=since, types=self._texts(ended))

    def check_store(self, store_id: str) -> None:
        """Raise StoreUnavailable when another store is in the place of the one with this id."""
        if self._value("meta", key="store_id") != store_id:
            hint = "Restore its data: Matins waits. To use the store that is there now, restart Matins."
            raise StoreUnavailable("Another store is in the place of the one that was opened.", hint=hint)

    def incarnation(self) -> str:
        """The id of a store; a store that was set back to an older copy gets another one."""
        return self._value("meta", key="incarnation")

    def renew_incarnation(self, old: str, new: str, now: int) -> bool:
        """Give the store a new incarnation. False when another process has done so."""
        if self._value("renew_incarnation", old=old, new=new) is None:
            return False
        self._all("set_meta", key="restored_at", value=str(now))
        self._all("delete_meta", key="copy_of")
        return True

    def copy_of(self) -> str | None:
        """The incarnation that a backup was made of, until an engine starts on the backup."""
        return self._value("meta", key="copy_of")

    def restored_at(self) -> int | None:
        """The time at which the store was last found to be an older copy."""
        value = self._value("meta", key="restored_at")
        return None if value is None else int(value)

    def has_event(self, head: ChainHead) -> bool:
        """Whether the store has, or had and pruned, an event that was committed to it."""
        found = self._value("link_hash", id=head.event_id)
        if found is not None:
            return bytes(found).hex() == head.hash
        return (self._value("pruned_until", writer=head.writer) or 0) >= head.seq

    # -- subscriptions and deliveries

    def subscriptions(self) -> list[Subscription]:
        found: list[Any] = self._rows(Subscription, "subscriptions")
        return [row._replace(target=orjson.loads(row.target), types=tuple(orjson.loads(row.types))) for row in found]

    def insert_subscription(self, subscription: Subscription) -> bool:
        """False when the name is in use."""
        values = subscription._asdict()
        values |= {name: orjson.dumps(values[name]).decode() for name in ("target", "types")}
        return bool(self._raised(self._all("insert_subscription", **values)))

    def set_types(self, name: str, types: Sequence[str]) -> None:
        self._all("set_types", name=name, types=orjson.dumps(types).decode())
        self._raise_policy_rev()

    def set_subscription(self, name: str, state: SubscriptionState, note: str | None) -> bool:
        """False when the subscription already has this state."""
        return bool(self._raised(self._all("set_subscription", name=name, state=state, note=note)))

    def delete_subscription(self, name: str) -> bool:
        self._all("delete_deliveries", name=name)
        return bool(self._raised(self._all("delete_subscription", name=name)))

    def lease_subscription(self, name: str, owner: str, now: int, until: int) -> int | None:
        """Take the lease and return the cursor; None when another process has the lease."""
        beyond = 2 * until - now  # a turn that started earlier and waited sees a lease that ends after its own
        return self._value("lease_subscription", name=name, owner=owner, now=now, until=until, beyond=beyond)

    def insert_deliveries(self, name: str, events: Iterable[StoredEvent], now: int) -> None:
        for event in events:
            values = {"event_id": event.id, "schedule_id": event.schedule_id or 0, "now": now}
            self._all("insert_delivery", name=name, **values)

    def queue_events(self, name: str, schedule_id: int, limit: int) -> list[tuple[int, StoredEvent]]:
        """(attempts, event) in the order of the events."""
        found = self._all("queue_events", name=name, schedule_id=schedule_id, limit=limit)
        return [(attempts, StoredEvent(*event)) for attempts, *event in found]

    def unblock_queues(self, name: str, now: int, latest: int) -> None:
        """Release events that wait without a cause: no event precedes them, or their time is too far in the future."""
        self._all("unblock_queues", name=name, now=now)
        self._all("advance_deliveries", name=name, now=now, latest=latest)

    def defer_delivery(self, name: str, event: StoredEvent, attempts: int, next_at: int, error: str | None) -> None:
        """Retry the delivery later, and then the events after it."""
        values = {"attempts": attempts, "next_at": next_at, "error": error, "state": "retrying"}
        self._all("defer_delivery", name=name, event_id=event.id, **values)
        self._all("defer_queue", name=name, schedule_id=event.schedule_id or 0, event_id=event.id)

    def discard_delivery(self, name: str, event: StoredEvent, attempts: int, error: str | None) -> None:
        values = {"attempts": attempts, "next_at": None, "error": error, "state": "discarded"}
        self._all("defer_delivery", name=name, event_id=event.id, **values)

    def redeliver(self, name: str, event: StoredEvent, now: int) -> None:
        """Retry the delivery now, and those before it."""
        queue = {"name": name, "schedule_id": event.schedule_id or 0, "now": now}
        self._all("redeliver", event_id=event.id, **queue)

    # -- threads

    def thread(self, thread_id: int) -> Thread | None:
        return next(map(_thread, self._all("thread", id=thread_id)), None)

    def lock_thread(self, thread_id: int) -> Thread | None:
        self._all("lock_thread", id=thread_id)
        return self.thread(thread_id)

    def channel_thread(self, agent: str, channel: str) -> Thread | None:
        return next(map(_thread, self._all("channel_thread", agent=agent, channel=channel)), None)

    def channel_session(self, agent: str, channel: str) -> tuple[str | None, str | None, str | None]:
        return next(iter(self._all("channel_session", agent=agent, channel=channel)), (None, None, None))

    def session_thread(self, agent: str, session: str) -> Thread | None:
        """The thread of a session, by the tool's id or by its name."""
        return next(map(_thread, self._all("session_thread", agent=agent, session=session)), None)

    def threads(self, before: int, limit: int) -> list[Thread]:
        return [_thread(row) for row in self._all("threads", before=before, limit=limit)]

    def set_thread(
        self, thread_id: int, state: str, now: int, session: str | None = None, usage: tuple[int, ...] | None = None
    ) -> None:
        text = None if usage is None else orjson.dumps(usage).decode()
        self._all("set_thread", id=thread_id, state=state, session=session, usage=text, now=now)

    def thread_assignment(self, run_id: int) -> ThreadAssignment | None:
        for number, how, *thread in self._all("thread_assignment", run_id=run_id):
            return ThreadAssignment(number, _thread(thread), how)
        return None

    # -- calls

    def insert_call(self, call: Call, now: int) -> int | None:
        """Add a call and return its id; None when its key is known."""
        return self._value("insert_call", at=now, **(call._asdict() | {"body": orjson.dumps(call.body).decode()}))

    def claim_signed(self, call: Call, now: int, since: int) -> str | None:
        """Note that what was signed arrived with the call's key. The key with which it arrived before, if that was
        after `since`; then nothing is noted."""
        what = {"source": call.source, "name": call.name, "digest": call.signed}
        if self._all("claim_signed", **what, key=call.key, at=now, since=since):
            return None
        return self._value("signed_key", **what)

    def set_listeners(self, schedule_id: int, listeners: Iterable[Listener]) -> None:
        self._all("delete_listeners", id=schedule_id)
        for listener in listeners:
            self._all("insert_listener", **listener._asdict())

    def prune_calls(self, bodies_before: int, before: int, signed_before: int) -> None:
        """Delete old bodies and old calls, except those of live runs."""
        self._all("prune_call_bodies", before=bodies_before)
        self._all("prune_calls", before=before)
        self._all("prune_call_runs")
        self._all("prune_signed", before=signed_before)

    # -- incidents

    @abstractmethod
    def insert_incidents(self, rows: Sequence[IncidentRow]) -> None: ...

    @abstractmethod
    def update_incidents(self, rows: Sequence[IncidentRow]) -> None:
        """Replace what changes in incidents."""

    @abstractmethod
    def insert_notices(self, rows: Sequence[NewNotice]) -> None: ...

    def take_held(self, now: int) -> list[HeldNotice]:
        """Delete and return the messages whose digest is due, the oldest first."""
        held = self._rows(HeldNotice, "held_notices", now=now)
        if held:
            self._all("delete_held", now=now)
        return held

    def prune_incidents(self, before: int, notices_before: int) -> None:
        """Delete incidents that were resolved before an instant, and old notes of messages."""
        self._all("prune_incidents", before=before)
        self._all("prune_notices", before=notices_before)

    # -- tokens, sessions of browsers, records of the file

    def insert_token(self, token: Token) -> None:
        self._all("insert_token", **(token._asdict() | {"rights": _rights_text(token)}))

    def token(self, token_id: str) -> Token | None:
        row = self._row(Token, "token", id=token_id)
        return None if row is None else _with_rights(row)

    def tokens(self) -> list[Token]:
        return [_with_rights(row) for row in self._rows(Token, "tokens")]

    def insert_session(self, session: BrowserSession) -> None:
        self._all("insert_session", **(session._asdict() | {"rights": _rights_text(session)}))

    def session(self, secret_hash: str) -> BrowserSession | None:
        row = self._row(BrowserSession, "browser_session", hash=secret_hash)
        return None if row is None else _with_rights(row)

    def sessions(self) -> list[BrowserSession]:
        return [_with_rights(row) for row in self._rows(BrowserSession, "sessions")]

    def file_entry(self, kind: str, name: str) -> FileEntry | None:
        return next(iter(self.file_entries_named(kind, [name])), None)

    def upsert_file_entries(self, entries: Iterable[FileEntry]) -> None:
        for entry in entries:
            self._all("upsert_file_entry", **entry._asdict())

    def delete_file_entries(self, keys: Iterable[tuple[str, str]]) -> None:
        for kind, name in keys:
            self._all("delete_file_entry", kind=kind, name=name)


def _rights_text(record: Token | BrowserSession) -> str | None:
    return None if record.rights is None else orjson.dumps(record.rights).decode()


def _with_rights(row: R) -> R:
    rights: Any = row.rights
    return row if rights is None else row._replace(rights=tuple(orjson.loads(rights)))


def _reserved(budget: str, subject: str, period: str, money: int, tokens: int) -> BudgetUsage:
    return BudgetUsage(budget, subject, period, 0, 0, money, tokens)


def _thread(row: Any) -> Thread:
    thread: Any = Thread(*row)
    return thread._replace(usage=tuple(orjson.loads(thread.usage)) if thread.usage else (0, 0, 0, 0))
