"""From ready to started: what stands between them, and what each of those says."""

from __future__ import annotations

from typing import Any

from matins.engine.approvals import needs_approval
from matins.engine.catch_up import grace_of
from matins.engine.gates import Candidate, Facts, budget, still_quiet, throttle
from matins.engine.policies import BEFORE, NONE, Policies
from matins.engine.transitions import ASK, BLOCK, CHECK, CLEAR, DEFER, MISS, REFUSE, SKIP, SUSPEND
from matins.model.agent import FRESH
from matins.model.policy import Approval
from matins.model.records import NewEvent, Ready
from matins.model.run import APPROVED, CHECKED
from matins.model.trigger import Once
from matins.ports import Transaction
from matins.runtime import asking, spending
from matins.runtime.catalog import Known
from matins.runtime.checks import Check, CheckCommand, Checked, Said
from matins.runtime.landing import landed
from matins.runtime.recorder import Change, apply

_MARGIN_MS, _SOON_MS = 20_000, 1_000
_AGAIN_MS, _AGAIN_MOST_MS = 60_000, 900_000
_REASONS = {"guard": "guard", "pre_check": "pre_check", "hook": "hook", "file_hook": "hook"}


class Clearance:
    """What is ready and has a gate before it is sent there; what has passed them all may be claimed."""

    def __init__(self) -> None:
        self.policies: Policies = NONE
        self.guarded = False
        self.room = 0
        """How many more can be checked now."""
        self.checks: list[Check] = []
        """What this turn sends to be checked, once it is committed."""

    def begin(self, policies: Policies, *, guarded: bool, room: int) -> None:
        self.policies, self.guarded, self.room = policies, guarded, room

    def take_checks(self) -> list[Check]:
        checks, self.checks = self.checks, []
        return checks

    def open_road(self, item: Known) -> bool:
        """Whether nothing stands between ready and started: most of all runs."""
        policies = self.policies
        return not (item.gated or self.guarded or policies.budgets or policies.throttles or BEFORE in policies.hooks)

    def passes(self, transaction: Transaction, row: Ready, item: Known, now: int) -> bool:
        """Whether it may start now; if not, it has been sent where it must go."""
        if self.open_road(item):
            return True
        facts = Facts((), False, item.agent, self.policies, manual=row.slot is None)
        candidate = Candidate(item.definition, row.slot, facts, 0, False, now)
        verdict = still_quiet(candidate) or throttle(candidate)
        if verdict is not None:
            change = _change(row, item, DEFER, now, verdict.reason, verdict.until, verdict.evidence)
            apply(transaction, [change], now)
            return False
        if not row.cleared & CHECKED and (commands := self._commands(item)) is not None:
            self._check(transaction, row, item, commands, now)
            return False
        return self._approved(transaction, row, item, now) and self._landed(transaction, row, item, now)

    def _landed(self, transaction: Transaction, row: Ready, item: Known, now: int) -> bool:
        agent = self.policies.agents.get(item.agent)
        return not item.talks or landed(transaction, row, item, agent.target if agent else FRESH, now)

    def afforded(self, transaction: Transaction, row: Ready, item: Known, now: int) -> bool:
        """Whether every budget has room for it, and has set it aside; if not, the run is over, or waits."""
        if not self.policies.budgets:
            return True
        lacking = spending.reserve(transaction, self.policies, item, row.id, now)
        verdict = budget(Candidate(item.definition, row.slot, Facts(shortage=lacking), 0, False, now))
        if verdict is None:
            return True
        transition = REFUSE if verdict.until is None else DEFER
        apply(transaction, [_change(row, item, transition, now, verdict.reason, verdict.until, verdict.evidence)], now)
        return False

    def _commands(self, item: Known) -> tuple[CheckCommand, ...] | None:
        words, found = item.definition, list[CheckCommand]()
        if words.pre_check is not None:
            found.append(CheckCommand("pre_check", words.pre_check, words.check_ms))
        if BEFORE in self.policies.hooks:
            found.append(CheckCommand("file_hook", *self.policies.hooks[BEFORE]))
        if words.before is not None:
            found.append(CheckCommand("hook", words.before, words.check_ms))
        return tuple(found) if found or self.guarded else None

    def _check(
        self, transaction: Transaction, row: Ready, item: Known, commands: tuple[CheckCommand, ...], now: int
    ) -> None:
        if self.room <= 0:  # out of the way of those that need no check
            transaction.put_off(row.id, row.epoch, now + _SOON_MS)
            return
        self.room -= 1
        last_run = transaction.last_started(item.schedule_id, row.id)
        check = Check(row.id, row.epoch + 1, row.slot, item, commands, _context(row, item, now, last_run), last_run)
        # Should its verdict never come, because this process is gone, somebody checks it again.
        deadline = now + check.longest_ms + _MARGIN_MS
        change = _change(row, item, CHECK, now, "checking", deadline)._replace(renewed=True)
        if apply(transaction, [change], now):
            self.checks.append(check)

    def _approved(self, transaction: Transaction, row: Ready, item: Known, now: int) -> bool:
        if not needs_approval(item.definition) or self._leave(transaction, row, item, now) is not None:
            return True
        if apply(transaction, [_change(row, item, ASK, now, "awaiting_approval", None)], now):
            asking.ask_about_run(transaction, item, self.policies, row.id, row.slot, now)
        return False

    def use_leave(self, transaction: Transaction, row: Ready, item: Known, now: int) -> None:
        """It has been claimed: the yes that it starts on is used up. Till then an edit voids it, and it grows old."""
        if not needs_approval(item.definition):
            return
        leave = self._leave(transaction, row, item, now)
        assert leave is not None, row
        if transaction.settle_approval(leave.id, "approved", "used", now):
            data = {"approval": str(leave.id), "digest": leave.digest}
            transaction.events.append(NewEvent(now, "approval.used", item.schedule_id, row.id, data))

    def _leave(self, transaction: Transaction, row: Ready, item: Known, now: int) -> Approval | None:
        """The yes that a run may start on: to these very words, and not too long ago for its first attempt."""
        digest = asking.run_digest(item, self.policies)
        for approval in transaction.approvals_of_run(row.id) if row.cleared & APPROVED else ():
            fresh = now <= (approval.decided_at or 0) + item.definition.approval_ms
            good = approval.state in ("approved", "used") if fresh else approval.state == "used" and row.attempt > 0
            if good and approval.kind == "run" and approval.digest == digest:
                return approval
        return None


def record_checks(transaction: Transaction, checked: list[Checked], now: int) -> None:
    """What was said is kept, and the run goes on, or not."""
    for item in checked:
        check, against = item.check, item.against
        for said in item.said:
            transaction.insert_check(
                check.run_id, check.epoch, said.kind, now, said.took_ms, said.exit_code, said.reason or said.saying,
                said.output,
            )  # fmt: skip
        # Under a new epoch, so that a verdict is taken once, also when the answer to this commit is lost.
        change = Change(
            check.run_id, check.epoch, check.slot, check.known, CLEAR, now, now, cleared=CHECKED, renewed=True
        )
        if against is not None:
            change = _turned_down(change, against, now)
        elif is_paused(transaction, check.known.schedule_id):
            change = change._replace(transition=SUSPEND, reason="paused")
        apply(transaction, [change], now)


def is_paused(transaction: Transaction, schedule_id: int) -> bool:
    """Whether what waits of it is held back: also while people are asked about it, or it cannot be read."""
    row = transaction.schedule(schedule_id)
    return row is not None and row[3] in ("paused", "pending", "rejected", "broken")


def _turned_down(change: Change, said: Said, now: int) -> Change:
    """A recurring schedule goes on to its next slot. A one-shot has none: it is tried again until its grace ends."""
    reason = _REASONS[said.kind]
    evidence: dict[str, Any] = {"gate": said.kind, "said": said.reason}
    if said.exit_code is not None:
        evidence["exit_code"] = said.exit_code
    change = change._replace(reason=reason, evidence=evidence, cleared=0, not_before=None)
    definition, slot = change.known.definition, change.slot
    if slot is None or not isinstance(definition.trigger.when, Once):
        return change._replace(transition=BLOCK if said.saying == "block" else SKIP)
    again = now + min(max(_AGAIN_MS, (now - slot) // 2), _AGAIN_MOST_MS)
    if again <= slot + grace_of(definition, slot, None):
        return change._replace(transition=DEFER, not_before=again)
    return change._replace(transition=MISS)


def _change(
    row: Ready, item: Known, transition: Any, now: int, reason: str, until: int | None,
    evidence: dict[str, Any] | None = None,
) -> Change:  # fmt: skip
    return Change(row.id, row.epoch, row.slot, item, transition, now, until, reason, None, evidence)


def _context(row: Ready, item: Known, now: int, last_run: int | None) -> dict[str, Any]:
    """What a hook is told, as JSON on its standard input."""
    return {
        "event": BEFORE,
        "schedule": item.name,
        "schedule_id": str(item.schedule_id),
        "agent": item.agent,
        "run_id": str(row.id),
        "slot": row.slot,
        "now": now,
        "last_run": last_run,
        "attempt": row.attempt + 1,
        "do": item.definition.do,
        "payload": item.definition.payload,
    }
