"""Use cases on approvals: what people are asked, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from matins.engine.approvals import able, hands, tally, told, why_not
from matins.engine.given import check_choice
from matins.engine.policies import Policies
from matins.engine.schedules import encode
from matins.engine.transitions import DENY
from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound, Stale
from matins.model.policy import Approval, ApprovalState, Purse, Vote
from matins.model.principal import Principal
from matins.model.records import NewEvent
from matins.model.run import Run
from matins.model.schedule import Schedule, ScheduleDefinition
from matins.ports import Transaction
from matins.runtime import asking
from matins.runtime.catalog import Known
from matins.runtime.pausing import BY_BUDGET, resume
from matins.runtime.spending import stopped_with
from matins.runtime.timers import answer_run, reject
from matins.service.definitions import check_note, edited
from matins.service.proposals import Proposals
from matins.service.rights import needs

_TRIGGER_WORDS = ("when", "timezone", "dst_gap", "dst_overlap", "anchor", "first", "strict")


class Approvals(Proposals):
    @needs("read")
    def approvals(
        self, principal: Principal, state: str = "pending", after: int = 0, limit: int = 100
    ) -> list[Approval]:
        """Questions to people, the oldest first."""
        check_choice("state", state, get_args(ApprovalState))
        with self._store.reading() as transaction:
            return transaction.approvals_in(state, after, limit)

    @needs("read")
    def get_approval(self, principal: Principal, approval_id: int) -> Approval:
        with self._store.reading() as transaction:
            return _found(transaction.approval(approval_id), approval_id)

    @needs("approve")
    def approve(
        self,
        principal: Principal,
        approval_id: int,
        note: str | None = None,
        digest: str | None = None,
        edits: Mapping[str, Any] | None = None,
    ) -> Approval:
        """Say yes to what was asked, or to what it becomes with `edits`: then the others are asked, unless it is the
        owner who says so. `digest`: what was looked at; an answer to something else is refused."""
        return self._answer(principal, approval_id, "approve", note, digest, edits)

    @needs("approve")
    def deny(
        self, principal: Principal, approval_id: int, note: str | None = None, digest: str | None = None
    ) -> Approval:
        return self._answer(principal, approval_id, "deny", note, digest, None)

    @needs("approve")
    def resolve_approval(
        self, principal: Principal, run_id: int, approved: bool, digest: str | None = None
    ) -> Run | None:
        """Answer what is asked about a run; None when nothing is. `digest`: what was looked at, as for `approve`."""
        with self._store.reading() as transaction:
            asked = [a for a in transaction.approvals_of_run(run_id) if a.state == "pending" and a.kind == "run"]
        if not asked:
            return None
        (self.approve if approved else self.deny)(principal, asked[0].id, digest=digest)
        with self._store.reading() as transaction:
            return self._run(transaction, run_id)

    def _answer(
        self,
        principal: Principal,
        approval_id: int,
        vote: Literal["approve", "deny"],
        note: str | None,
        digest: str | None,
        edits: Mapping[str, Any] | None,
    ) -> Approval:
        check_note(note)
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            asked = _found(transaction.approval(approval_id), approval_id)
            others = stopped_with(transaction, self._catalog.policies(transaction), asked, now)
            transaction.due_rows({asked.schedule_id, *others})  # cursors are locked before anything else
            asked = _found(transaction.locked_approval(approval_id), approval_id)
            self._refuse_answer(transaction, asked, principal, digest, now)
            if edits:
                asked = self._with_edits(transaction, asked, principal, edits, now)
            if why_not(asked, principal) is None:  # else these are their own words now
                self._vote(transaction, asked, principal, Vote(principal.name, vote, now, note, asked.digest))
            asked = _found(transaction.approval(asked.id), asked.id)
        self._changed()
        return asked

    def _vote(self, transaction: Transaction, asked: Approval, principal: Principal, vote: Vote) -> None:
        transaction.put_vote(asked.id, vote)
        asked = _found(transaction.approval(asked.id), asked.id)
        told = {"vote": vote.vote, "by": vote.voter, "note": vote.note, "digest": vote.digest}
        data = {"approval": str(asked.id), **told}
        transaction.events.append(NewEvent(vote.at, "approval.vote", asked.schedule_id, asked.run_id, data))
        outcome = tally(asked)
        if outcome != "pending":
            self._decide(transaction, asked, outcome == "approved", principal, vote.at)

    def _refuse_answer(
        self, transaction: Transaction, asked: Approval, principal: Principal, digest: str | None, now: int
    ) -> None:
        if asked.run_id is not None and asked.kind == "run":
            run = self._run(transaction, asked.run_id)
            if not run.state.live:
                raise Conflict(
                    f"Run {run.id} is over: {run.state.word}", value=run.id, field="run", hint="nothing to do"
                )
        if asked.state != "pending" or asked.expires_at <= now:
            word = "expired" if asked.state == "pending" else asked.state
            raise Conflict(f"Approval {asked.id} is {word}", value=asked.id, field="approval", hint=_HINTS.get(word))
        reason = why_not(asked, principal)
        if reason is not None:
            raise NotAllowed(f"{principal.name} may not answer this: {reason}", value=principal.name, field="principal")
        if digest is not None and digest != asked.digest:
            message = f"Approval {asked.id} is about something else by now"
            raise Stale(message, value=digest, field="digest", hint="look again")

    def _decide(self, transaction: Transaction, asked: Approval, granted: bool, principal: Principal, now: int) -> None:
        if not transaction.settle_approval(asked.id, "pending", "approved" if granted else "denied", now):
            raise Conflict(f"Approval {asked.id} was answered at the same moment", value=asked.id, hint="look again")
        word = "approval.approved" if granted else "approval.denied"
        data = {"approval": str(asked.id), "by": [v.voter for v in asked.votes], "digest": asked.digest}
        transaction.events.append(NewEvent(now, word, asked.schedule_id, asked.run_id, data))
        if asked.kind == "run":
            answer_run(transaction, self._catalog, asked, granted, now, "denied", DENY)
        elif asked.kind == "schedule":
            self._decide_schedule(transaction, asked, granted, principal, now)
        elif granted:
            self._grant_budget(transaction, asked, principal, now)
        if granted and asked.kind != "run":  # what it allowed has happened
            transaction.settle_approval(asked.id, "approved", "used", now)

    def _decide_schedule(
        self, transaction: Transaction, asked: Approval, granted: bool, principal: Principal, now: int
    ) -> None:
        schedule = self._schedule(transaction, asked.schedule_id)
        known = self._known(transaction, schedule)
        if schedule.state != "pending" or asking.digest_of(known) != asked.digest:
            raise Conflict(f'"{schedule.name}" says something else by now', value=schedule.name, hint="look again")
        if granted:
            resume(transaction, schedule, known, now, principal.name)
        else:
            reject(transaction, self._catalog, asked, now, "denied", principal.name)

    def _grant_budget(self, transaction: Transaction, asked: Approval, principal: Principal, now: int) -> None:
        """Go on, all who draw on it: the same amount again for this period."""
        place = asked.request
        policies: Policies = self._catalog.policies(transaction)
        for schedule_id in (asked.schedule_id, *stopped_with(transaction, policies, asked, now)):
            schedule = self._schedule(transaction, schedule_id)
            if schedule.state == "paused" and schedule.paused_by == BY_BUDGET:  # what a person paused stays so
                resume(transaction, schedule, self._known(transaction, schedule), now, principal.name)
        transaction.lock_policies()  # purses come last
        for budget in policies.budgets:
            if budget.name == place.get("budget"):
                amount = (-(budget.money or 0), -(budget.tokens or 0), 0, 0)
                transaction.fill_purse(Purse(budget.name, place["whose"], place["period"], *amount))

    def _with_edits(
        self, transaction: Transaction, asked: Approval, principal: Principal, edits: Mapping[str, Any], now: int
    ) -> Approval:
        """What was asked is void; what it becomes is asked, with a digest and a record of its own."""
        given = self._checked_edits(principal, asked, edits)
        schedule = self._schedule(transaction, asked.schedule_id)
        policies: Policies = self._catalog.policies(transaction)
        base = self._as_asked(transaction, schedule, asked)
        definition, trigger = edited(base, given, now, policies.rates)
        definition = self._bounded(transaction, principal, schedule, definition, trigger, now)
        transaction.settle_approval(asked.id, "pending", "void", now)
        known = self._revised(transaction, schedule, asked, definition, principal, now)
        new = _asked_anew(asked, known, policies, principal, now)
        _refuse_unanswerable(new, principal)
        number = transaction.insert_approval(new)
        data = {"approval": str(number), "instead_of": str(asked.id), "by": principal.name, "words": sorted(edits)}
        transaction.events.append(NewEvent(now, "approval.edited", schedule.id, asked.run_id, data))
        return _found(transaction.approval(number), number)

    def _checked_edits(self, principal: Principal, asked: Approval, edits: Mapping[str, Any]) -> Mapping[str, Any]:
        if asked.kind == "budget":
            raise InvalidInput("There is nothing to edit in a question about money", field="edits", hint="leave it out")
        given = self._checked_words(principal, edits, changing=True)
        for word in _TRIGGER_WORDS:
            if word in given:
                hint = "deny it, then edit the schedule"
                raise InvalidInput(f'"{word}" belongs to the schedule', field=word, hint=hint)
        return given

    def _revised(
        self,
        transaction: Transaction,
        schedule: Schedule,
        asked: Approval,
        definition: ScheduleDefinition,
        principal: Principal,
        now: int,
    ) -> Known:
        """A new revision: of the run alone, where one is asked about; else of its schedule."""
        rev = transaction.last_revision(schedule.id) + 1
        if asked.run_id is not None:
            transaction.put_revision(schedule.id, rev, encode(definition))
            transaction.revise_run(asked.run_id, rev)
        else:
            transaction.insert_revision(schedule.id, rev, encode(definition), now)
            transaction.set_author(schedule.id, rev, principal.name, principal.role)
            transaction.replace_cursor(schedule.id, schedule.next_slot, None, rev, paused=True)
        known = self._catalog.get(transaction, [(schedule.id, rev)])[schedule.id, rev]
        assert isinstance(known, Known)
        return known

    def _as_asked(self, transaction: Transaction, schedule: Schedule, asked: Approval) -> Schedule:
        known = self._catalog.get(transaction, [(schedule.id, asked.rev)])[schedule.id, asked.rev]
        if not isinstance(known, Known):
            raise Conflict(f'What "{schedule.name}" said cannot be read', value=schedule.name, hint="deny it")
        return replace(schedule, definition=known.definition)


def _asked_anew(asked: Approval, known: Known, policies: Policies, principal: Principal, now: int) -> Approval:
    """The question that takes the place of one whose words were changed."""
    describes = known.rule.trigger.describe()
    changed = told(known.agent, known.name, known.definition, asked.request.get("slot"), describes)
    gone = {word: None for word in asked.request if word in ScheduleDefinition.__slots__ and word not in changed}
    hand = {"edited_by": principal.name, "involved": [*hands(asked), (principal.name, principal.role)]}
    request = {**asked.request, **gone, **changed, **hand, "instead_of": str(asked.id)}
    digest = asking.run_digest(known, policies) if asked.kind == "run" else asking.digest_of(known)
    return asked._replace(rev=known.rev, digest=digest, requested_at=now, request=request)


def _refuse_unanswerable(asked: Approval, principal: Principal) -> None:
    if principal.role != "owner" and able(asked) < asked.needed:
        raise NotAllowed(
            "Nobody would be left to approve these words: whoever changes them does not answer for them",
            value=principal.name,
            field="edits",
            hint="deny it, or ask the owner to edit the schedule",
        )


_HINTS = {
    "expired": "nobody answered in time; the next run asks again",
    "void": "what it was about has changed: look for the newer question",
}


def _found(approval: Approval | None, approval_id: int) -> Approval:
    if approval is None:
        raise NotFound(f"There is no approval {approval_id}", value=approval_id, field="approval")
    return approval
