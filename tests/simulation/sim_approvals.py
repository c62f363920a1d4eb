"""Invariant 10 where people are asked: nothing starts that they did not allow, and nobody is asked in vain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from sim_gates import InForce
from sim_rows import Commit, CursorRow, Reader, RunRow
from sim_violation import require

from matins.model.run import RunState

_APPROVAL = """SELECT id, kind, schedule_id, run_id, rev, digest, approvers, needed, requested_by, expires_at, state,
  request FROM approvals"""
_NEXT = {
    "pending": {"approved", "used", "denied", "expired", "void"},
    "approved": {"used", "void"},
}
_OWNER = "owner"
STRANGERS = ("vera", "ann", "bob")
"""A viewer and two agents: they approve nothing."""
_VOTERS = {"owner": "owner", "person:ada": "ada", "person:grace": "grace"}
"""Who may approve at all, as they sign, by the names of approvers."""


class ApprovalRow(NamedTuple):
    id: int
    kind: str
    schedule_id: int
    run_id: int | None
    rev: int
    digest: str
    approvers: str
    needed: int
    requested_by: str
    expires_at: int
    state: str
    request: str


class ApprovalRules:
    def __init__(self, reader: Reader, in_force: InForce) -> None:
        self._reader = reader
        self._in_force = in_force
        self._known: dict[int, ApprovalRow] = {}
        self._decided: dict[int, int] = {}
        """When each was approved."""
        self._by_default: set[int] = set()
        """Those that nobody answered, and that say that this means yes."""
        self._shown: dict[str, tuple[int, int]] = {}
        """What each digest stands for, since it was first seen."""
        self._proposed: set[tuple[int, int]] = set()
        """Schedules at revisions that somebody must approve before anything of them runs."""

    def check(self, commit: Commit, cursors: Mapping[int, CursorRow], runs: Mapping[int, RunRow]) -> None:
        granted = [data["approval"] for _, data in commit.data("approval.expired") if data["default"] == "approve"]
        self._by_default.update(map(int, granted))
        asked = self._check_states(commit)
        for event, data in commit.data("schedule.created") + commit.data("schedule.updated"):
            assert event.schedule_id is not None
            self._note_words(cursors[event.schedule_id], data)
        for _, new in commit.claims:
            self._check_claim(new, commit.now)
            wanted = cursors[new.schedule_id].state not in ("pending", "rejected")
            require(10, wanted, f"nobody wants what was started: {new} of {cursors[new.schedule_id]}")
        asked |= {new.id for _, new in commit.runs}
        for run_id in sorted(asked):
            self._check_asked(run_id, runs.get(run_id))

    def _note_words(self, cursor: CursorRow, data: dict[str, Any]) -> None:
        """What a schedule says from now on: an agent only proposes it, unless a rule lets one-shots through."""
        if cursor.state == "pending":
            self._proposed.add((cursor.schedule_id, cursor.rev))
        elif data["by"] in STRANGERS:
            once = self._reader.whole(cursor.schedule_id, cursor.rev).once
            require(10, once and self._in_force.auto_approve_one_shots, f"{data['by']} was not asked to wait: {cursor}")

    def _check_states(self, commit: Commit) -> set[int]:
        """From one state to the next and never back; the runs whose questions changed."""
        changed = commit.rows("approvals")
        rows = [ApprovalRow(*row) for row in self._reader.numbered(_APPROVAL, changed)] if changed else []
        for row in rows:
            old = self._known.get(row.id)
            if old is None or old.digest != row.digest:
                self._check_digest(row)
            if old is not None and old.state != row.state:
                may = row.state in _NEXT.get(old.state, set())
                require(10, may, f"an approval cannot go that way: {old} became {row}")
            if row.state in ("approved", "used") and (old is None or old.state == "pending"):
                self._check_votes(row)
                self._decided[row.id] = commit.now
            if row.state == "used" and row.kind == "run":
                started = row.run_id in {new.id for _, new in commit.claims}
                require(10, started or old == row, f"leave was used without a start: {row}")
            self._known[row.id] = row
        for gone in changed - {row.id for row in rows}:
            self._known.pop(gone, None)
        return {row.run_id for row in rows if row.run_id is not None}

    def _check_digest(self, asked: ApprovalRow) -> None:
        """What people saw is of one schedule and one revision. (Steps that say the same may share it.)"""
        if asked.kind == "budget":
            return
        shown = asked.schedule_id, asked.rev
        other = self._shown.setdefault(asked.digest, shown)
        require(10, other == shown, f"one digest stands for {other} and for {shown}: {asked}")

    def _check_votes(self, asked: ApprovalRow) -> None:
        if asked.id in self._by_default:
            return
        votes = self._reader.query("SELECT voter, vote, digest FROM votes WHERE approval_id = ?", asked.id)
        named = orjson.loads(asked.approvers)
        agreed = {voter for voter, vote, of in votes if vote == "approve" and of == asked.digest}
        agreed -= {who for who, role in orjson.loads(asked.request).get("involved", ()) if role != "owner"}
        may = {_VOTERS[voter] for voter in agreed if voter in _VOTERS} & ({*named} if named else {_OWNER})
        require(10, len(may) >= asked.needed, f"approved by {votes}, of whom {may} may: {asked}")

    def _check_claim(self, run: RunRow, now: int) -> None:
        words = self._reader.words(run)
        used = [row for row in self._of(run) if row.state == "used" and row.rev == run.rev]
        if (run.schedule_id, run.rev) in self._proposed:
            allowed = any(row.kind == "schedule" for row in used)
            require(10, allowed, f"no approval for what its schedule says at revision {run.rev}: {run}")
        if words.needs_approval:
            mine = [row for row in used if row.kind == "run" and row.run_id == run.id]
            require(10, bool(mine), f"started without an approval of its words: {run}")
            age = now - max(self._decided[row.id] for row in mine)
            fresh = age <= words.approval_timeout_ms or run.attempt > 1
            require(10, fresh, f"started {age} ms after its approval: {run}")

    def _of(self, run: RunRow) -> list[ApprovalRow]:
        return [row for row in self._known.values() if row.schedule_id == run.schedule_id]

    def _check_asked(self, run_id: int, run: RunRow | None) -> None:
        """A run waits for people exactly while one question about it is open."""
        rows = [row for row in self._known.values() if row.run_id == run_id and row.kind == "run"]
        pending = [row for row in rows if row.state == "pending"]
        waits = run is not None and run.state == RunState.WAITING and run.reason == "awaiting_approval"
        require(11, len(pending) == waits, f"{len(pending)} open questions: {pending}, and the run is {run}")

    def open_questions(self) -> list[ApprovalRow]:
        return [row for row in self._known.values() if row.state == "pending"]
