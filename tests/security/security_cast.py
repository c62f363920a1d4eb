"""Who takes part in the attacks, and a bench that watches every start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from matins.api.results import Approval, Run
from matins.api.schedules import Api
from matins.engine.approvals import needs_approval
from matins.executors.job_context import JobContext
from matins.executors.registry import installed_jobs
from matins.model import policies as stored
from matins.model.access import Principal
from matins.runtime.approval_requests import content_digest
from matins.runtime.attempt import Attempt
from matins.runtime.catalog import schedule_record
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
OWNER = Principal("owner", "owner")
ADA, BOB, CYN = (Principal("operator", name) for name in ("ada", "bob", "cyn"))
VIC = Principal("viewer", "vic")
SCOUT, ROVER = Principal("agent", "scout"), Principal("agent", "rover")
ACTIONS = tuple(
    sorted(name for name in installed_jobs() if ("_" in name or name == "custom") and name != "expect_ping")
)
"""corvid's, as they are registered."""
JOBS = ("work", "deploy", "scheduled-task", *ACTIONS)
WAITING = {"when": "5 * * * *", "job": "work", "approval": "owner_approve"}
"""The words of a schedule that asks the owner at five past every hour."""


def at(clock: str, day: int = 27) -> str:
    """An instant of the days after the start: `09:30`."""
    return f"2026-03-{day:02}T{clock}{':00' * (clock.count(':') < 2)}Z"


class Watched(Sandbox):
    """Keeps what ran, and stops when something starts that nobody allowed."""

    def __init__(self, url: str = "sqlite://", *, clock: ManualClock | None = None, **settings: Any) -> None:
        super().__init__(url, clock=clock or ManualClock(START), **settings)
        self.ran: list[tuple[str, Any]] = []
        """(schedule, payload) of each start."""
        for name in JOBS:
            self.job(name)(self._work)
        self.executor.before = self._watch

    def last(self, name: str = "s") -> Run:
        return self.runs.list(schedule=name)[0]

    def asked(self, name: str = "s") -> Approval:
        """The one question about a schedule that is open."""
        (found,) = [approval for approval in self.approvals.list() if approval.schedule == name]
        return found

    def approval(self, approval_id: str) -> Approval:
        return self.approvals.get(approval_id)

    def states(self, name: str = "s") -> list[str]:
        """What became of the questions about a schedule, the oldest first."""
        every = ("pending", "approved", "used", "denied", "expired", "void")
        found = [
            approval for state in every for approval in self.approvals.list(state=state) if approval.schedule == name
        ]
        return [approval.state for approval in sorted(found, key=lambda approval: int(approval.id))]

    def told(self, *types: str) -> list[dict[str, Any]]:
        """The data of the events of these types, in their order."""
        with self._store.reading() as transaction:
            found = sorted(transaction.logged(0, 10**9))
        return [orjson.loads(event.data or "{}") for event in found if event.type in types]

    def told_types(self) -> set[str]:
        """The types of all events."""
        with self._store.reading() as transaction:
            return {event.type for event in transaction.logged(0, 10**9)}

    def _work(self, run: JobContext) -> None:
        self.ran.append((run.schedule, run.payload))

    def _watch(self, work: Attempt) -> None:
        with self._store.reading() as transaction:
            row = transaction.schedule(work.compiled.schedule_id)
            approvals = transaction.approvals_of_run(work.run_id)
        assert row is not None
        schedule = schedule_record(row)
        assert schedule.state not in ("pending", "rejected"), f"{work} started though nobody wants it"
        if needs_approval(work.compiled.definition):
            self._check_leave(work, approvals)
        if schedule.creator_role == "agent":
            self._check_words(work)

    def _check_leave(self, work: Attempt, approvals: list[stored.Approval]) -> None:
        words = content_digest(work.compiled, self._loader.policies())
        good = [a for a in approvals if a.digest == words and a.state == "used"]
        assert len(good) == 1, f"{work} started without leave: {approvals}"
        if work.number == 1:
            given = self._given_at(good[0])
            assert self.clock.now_ms() - given <= work.compiled.definition.approval_timeout_ms, (
                f"{work} started on an old leave"
            )

    def _check_words(self, work: Attempt) -> None:
        """What an agent wrote runs only as a person has seen it, unless the owner's rule lets it through."""
        with self._store.reading() as transaction:
            authors = transaction.authors(work.compiled.schedule_id, work.compiled.rev)
            used = transaction.approvals_in("used", 0, 10_000)
        by_person = bool(authors) and authors[0][1] != "agent"
        digest = content_digest(work.compiled, self._loader.policies())
        seen = any(approval.digest == digest for approval in used)
        unasked = self.agent_rules.get(work.compiled.agent).auto_approve_one_shots
        assert by_person or seen or unasked, f"{work} started with words that nobody has seen"

    def _given_at(self, approval: stored.Approval) -> int:
        """When people said yes, by the chained events: the row itself says when it was used."""
        with self._store.reading() as transaction:
            events = sorted(transaction.logged(0, 10**9))
        for event in events:
            data = orjson.loads(event.data or "{}")
            if event.type == "approval.expired" and data["approval"] == str(approval.id):
                assert data["default"] == "approve"
                return event.at
            if event.type == "approval.approved" and data["approval"] == str(approval.id):
                votes = [vote for vote in approval.votes if vote.vote == "approve" and vote.digest == approval.digest]
                assert len(votes) >= approval.needed
                return event.at
        raise AssertionError(f"nobody said yes to {approval}")


Open = Callable[..., Watched]
"""What opens a bench on a store."""


def propose(bench: Watched, name: str = "s", agent: Principal = SCOUT, **words: Any) -> Api:
    """What an agent proposes and the owner approves; the agent's own view of the use cases."""
    acting = bench.acting_as(agent)
    acting.add(name, **{"when": "5 * * * *", "job": "work", **words})
    if bench.get(name, agent=agent.name).state == "pending":
        bench.approvals.approve(bench.asked(name).id)
    return acting
