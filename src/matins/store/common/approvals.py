"""Requests for approval, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from matins.model.policy import Approval, Vote


class Approvals:
    """Part of a transaction. The store implements `_common`, which runs a named query."""

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        raise NotImplementedError

    def insert_approval(self, approval: Approval) -> int:
        values = {name: getattr(approval, name) for name in _INSERTED}
        rows = self._common(
            "insert_approval",
            now=approval.requested_at,
            unanswered=approval.default,
            approvers=orjson.dumps(approval.approvers).decode(),
            request=orjson.dumps(approval.request).decode(),
            **values,
        )
        return rows[0][0]

    def approval(self, approval_id: int) -> Approval | None:
        return self._one_of(self._common("approval", id=approval_id))

    def locked_approval(self, approval_id: int) -> Approval | None:
        self._common("lock_approval", id=approval_id)
        return self.approval(approval_id)

    def approvals_in(self, state: str, after: int, limit: int) -> list[Approval]:
        return self._all_of(self._common("approvals_in", state=state, after=after, limit=limit))

    def approvals_of_run(self, run_id: int) -> list[Approval]:
        return self._all_of(self._common("approvals_of_run", run_id=run_id))

    def approvals_open(self, schedule_id: int) -> list[Approval]:
        """Requests that can still have an effect."""
        return self._all_of(self._common("approvals_open", schedule_id=schedule_id))

    def approvals_past(self, now: int, limit: int) -> list[Approval]:
        return self._all_of(self._common("approvals_past", now=now, limit=limit))

    def settle_approval(self, approval_id: int, was: str, state: str, now: int) -> bool:
        """Change the state; False when it is no longer `was`."""
        return bool(self._common("settle_approval", id=approval_id, was=was, state=state, now=now))

    def put_vote(self, approval_id: int, vote: Vote) -> None:
        values = {"voter": vote.voter, "vote": vote.vote, "now": vote.at, "note": vote.note, "digest": vote.digest}
        self._common("put_vote", id=approval_id, **values)

    def agent_schedules(self, name: str) -> int:
        return self._common("agent_schedules", name=name)[0][0]

    def last_revision(self, schedule_id: int) -> int:
        return self._common("last_revision", id=schedule_id)[0][0]

    def set_author(self, schedule_id: int, rev: int, author: str, role: str) -> None:
        self._common("set_author", id=schedule_id, rev=rev, author=author, role=role)

    def authors(self, schedule_id: int, rev: int) -> list[tuple[str, str]]:
        """Who changed the settings to this revision, the last first; empty for the first revision."""
        return self._common("authors", id=schedule_id, rev=rev)

    def put_revision(self, schedule_id: int, rev: int, definition: str) -> None:
        """Store settings for one run, which its schedule does not have."""
        self._common("put_revision", id=schedule_id, rev=rev, definition=definition)

    def revise_run(self, run_id: int, rev: int) -> None:
        """Give a run that has not started another revision; it must pass its gates again."""
        self._common("revise_run", run_id=run_id, rev=rev)

    def _one_of(self, rows: Sequence[tuple[Any, ...]]) -> Approval | None:
        found = self._all_of(rows)
        return found[0] if found else None

    def _all_of(self, rows: Sequence[tuple[Any, ...]]) -> list[Approval]:
        return [self._approval_of(row) for row in rows]

    def _approval_of(self, row: tuple[Any, ...]) -> Approval:
        values = list(row)
        values[8], values[17] = tuple(orjson.loads(values[8])), orjson.loads(values[17])
        votes = tuple(Vote(*vote) for vote in self._common("votes", id=values[0]))
        return Approval(*values, votes=votes)


_INSERTED = ("kind", "schedule_id", "run_id", "rev", "digest", "policy", "needed", "requested_by", "requester_role",
             "expires_at")  # fmt: skip
