"""Requests for approval, in SQL that both stores share."""

from __future__ import annotations

from typing import Any

import orjson

from matins.model.approval import Approval, Vote
from matins.store.common.statements import Statements


class ApprovalQueries(Statements):
    def insert_approval(self, approval: Approval) -> int:
        values = {name: getattr(approval, name) for name in _INSERTED}
        return self._value(
            "insert_approval",
            now=approval.requested_at,
            unanswered=approval.default,
            approvers=orjson.dumps(approval.approvers).decode(),
            request=orjson.dumps(approval.request).decode(),
            **values,
        )

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
        return self._approvals("open_approvals", schedule_id=schedule_id)

    def granted_approvals(self, schedule_id: int, limit: int) -> list[Approval]:
        return self._approvals("granted_approvals", schedule_id=schedule_id, limit=limit)

    def expired_approvals(self, now: int, limit: int) -> list[Approval]:
        return self._approvals("expired_approvals", now=now, limit=limit)

    def set_approval_state(self, approval_id: int, was: str, state: str, now: int) -> bool:
        return bool(self._all("set_approval_state", id=approval_id, was=was, state=state, now=now))

    def upsert_vote(self, approval_id: int, vote: Vote) -> None:
        values = {"voter": vote.voter, "vote": vote.vote, "now": vote.at, "note": vote.note, "digest": vote.digest}
        self._all("upsert_vote", id=approval_id, **values)

    def count_agent_schedules(self, name: str) -> int:
        return self._value("count_agent_schedules", name=name)

    def last_revision(self, schedule_id: int) -> int:
        return self._value("last_revision", id=schedule_id)

    def set_author(self, schedule_id: int, rev: int, author: str, role: str) -> None:
        self._all("set_author", id=schedule_id, rev=rev, author=author, role=role)

    def authors(self, schedule_id: int, rev: int) -> list[tuple[str, str]]:
        return self._all("authors", id=schedule_id, rev=rev)

    def insert_run_revision(self, schedule_id: int, rev: int, definition: str) -> None:
        self._all("insert_run_revision", id=schedule_id, rev=rev, definition=definition)

    def set_run_revision(self, run_id: int, rev: int) -> None:
        self._all("set_run_revision", run_id=run_id, rev=rev)

    def _approvals(self, query: str, /, **values: Any) -> list[Approval]:
        rows = [Approval(*row) for row in self._all(query, **values)]
        votes: dict[int, list[Vote]] = {row.id: [] for row in rows}
        for approval_id, *vote in self._all("votes", ids=self._integers(votes)) if rows else ():
            votes[approval_id].append(Vote(*vote))
        return [_completed(row, votes[row.id]) for row in rows]


def _completed(row: Approval, votes: list[Vote]) -> Approval:
    raw: Any = row
    approvers, request = tuple(orjson.loads(raw.approvers)), orjson.loads(raw.request)
    return row._replace(approvers=approvers, request=request, votes=tuple(votes))


_INSERTED = ("kind", "schedule_id", "run_id", "rev", "digest", "policy", "needed", "requested_by", "requester_role",
             "expires_at")  # fmt: skip
