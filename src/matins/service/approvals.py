"""Use cases on approvals: requests and their answers."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from matins.api.results import Approval, Run
from matins.api.results import Vote as VoteResult
from matins.engine.approvals import approval_request, authors, eligible_count, refusal_reason, tally
from matins.engine.audit import approval_digest, revision_fingerprint
from matins.engine.gates.state import BY_BUDGET
from matins.engine.jobs import AGENT_JOB
from matins.engine.policies import Policies
from matins.engine.schedules import SETTINGS, encode
from matins.engine.transitions import DENY
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound, Stale
from matins.executors.isolation import NOT_ISOLATED
from matins.model import policies as model
from matins.model.access import Principal, name_of, signed
from matins.model.job import JobTypes
from matins.model.policies import ApprovalState, BudgetUsage, Vote
from matins.model.rows import NewEvent, ScheduleRow
from matins.model.run import RunState, StepId
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.runtime import approval_requests
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.pausing import resume
from matins.runtime.planner import live_runs
from matins.runtime.spending import others_waiting
from matins.runtime.timers import answer_run, reject
from matins.runtime.zone_changes import note_zones
from matins.service.core import Core
from matins.service.drafts import changes_trigger, check_note
from matins.service.proposals import Proposals
from matins.service.record_changes import Edit, until_unmoved
from matins.service.run_views import whole_result
from matins.service.schedule_changes import listen
from matins.store.transaction import Transaction

EDITED_SINCE = "The schedule was {} since. This request is for the run as it was planned, with what is shown here."


@dataclass(frozen=True)
class Approvals:
    core: Core
    proposals: Proposals

    def list(
        self,
        principal: Principal,
        *,
        state: ApprovalState = "pending",
        newest: bool = False,
        after: int | None = None,
        limit: int = 100,
    ) -> builtins.list[Approval]:
        with self.core.store.reading() as transaction:
            found = transaction.approvals_in(state, after or 0, limit, newest=newest)
            return approval_results(self.core, transaction, found)

    def get(self, principal: Principal, approval_id: int) -> Approval:
        with self.core.store.reading() as transaction:
            return self._result(_get(transaction.approval(approval_id), approval_id))

    def _result(self, approval: model.Approval) -> Approval:
        with self.core.store.reading() as transaction:
            return approval_results(self.core, transaction, [approval])[0]

    def approve(
        self,
        principal: Principal,
        approval_id: int,
        *,
        note: str | None = None,
        digest: str | None = None,
        edits: Mapping[str, Any] | None = None,
    ) -> Approval:
        return self._result(self._answer(principal, approval_id, "approve", note, digest, edits))

    def deny(
        self, principal: Principal, approval_id: int, *, note: str | None = None, digest: str | None = None
    ) -> Approval:
        return self._result(self._answer(principal, approval_id, "deny", note, digest, None))

    def answer(
        self, principal: Principal, run_id: int | StepId, approved: bool, *, digest: str | None = None
    ) -> Run | None:
        with self.core.store.reading() as transaction:
            if isinstance(run_id, StepId):
                run_id = self.core.run(transaction, run_id).id
            asked = [a for a in transaction.approvals_of_run(run_id) if a.state == "pending" and a.kind == "run"]
        if not asked:
            return None
        self._answer(principal, asked[0].id, "approve" if approved else "deny", None, digest, None)
        with self.core.store.reading() as transaction:
            return whole_result(transaction, self.core.catalog, self.core.run(transaction, run_id))

    def _answer(
        self,
        principal: Principal,
        approval_id: int,
        vote: Literal["approve", "deny"],
        note: str | None,
        digest: str | None,
        edits: Mapping[str, Any] | None,
    ) -> model.Approval:
        check_note(note)
        now = self.core.clock.now_ms()
        if not edits:
            return self._answered(principal, approval_id, vote, note, digest, None, now)
        jobs = self.core.jobs.names()

        def edited() -> model.Approval:
            edit = self._prepare(principal, approval_id, digest, edits, jobs, now)
            return self._answered(principal, approval_id, vote, note, digest, edit, now)

        return until_unmoved(edited, f"Approval {approval_id}")

    def _answered(
        self, principal: Principal, approval_id: int, vote: Literal["approve", "deny"], note: str | None,
        digest: str | None, edit: Edit | None, now: int,
    ) -> model.Approval:  # fmt: skip
        with self.core.store.transaction(now) as transaction:
            asked = _get(transaction.approval(approval_id), approval_id)
            others = others_waiting(transaction, self.core.catalog.policies(transaction), asked, now)
            transaction.lock_due({asked.schedule_id, *others})  # cursors are locked before anything else
            asked = _get(transaction.lock_approval(approval_id), approval_id)
            self._check_answer(transaction, asked, principal, digest, now)
            renewed = None if edit or vote == "deny" else self._renewed(transaction, asked, now)
            if edit:
                asked = self._with_edits(transaction, asked, principal, edit, now)
            if renewed is not None:  # nobody has seen what would run now
                asked = renewed
            elif (
                self._refusal(transaction, asked, principal) is None
            ):  # otherwise the principal, as editor, cannot approve it
                self._vote(transaction, asked, principal, Vote(principal.who, vote, now, note, asked.digest))
            asked = _get(transaction.approval(asked.id), asked.id)
        self.core.notify()
        return asked

    def _renewed(self, transaction: Transaction, asked: model.Approval, now: int) -> model.Approval | None:
        """The request that replaces one of a proposal whose agent or files changed; None when they did not."""
        if asked.kind != "schedule":
            return None
        schedule = self.core.schedule(transaction, asked.schedule_id)
        compiled, policies = self.core.compiled(transaction, schedule), self.core.catalog.policies(transaction)
        same = compiled.rev != asked.rev or approval_requests.content_digest(compiled, policies) == asked.digest
        if same or schedule.state != "pending":
            return None
        number = approval_requests.renew_schedule_request(transaction, asked, compiled, policies, now)
        return _get(transaction.approval(number), number)

    def _vote(self, transaction: Transaction, asked: model.Approval, principal: Principal, vote: Vote) -> None:
        transaction.upsert_vote(asked.id, vote)
        asked = _get(transaction.approval(asked.id), asked.id)
        ballot = {"vote": vote.vote, **signed(vote.voter), "note": vote.note, "digest": vote.digest}
        data = {"approval": str(asked.id), **ballot}
        transaction.events.append(NewEvent(vote.at, "approval.voted", asked.schedule_id, asked.run_id, data))
        outcome = tally(asked)
        if outcome != "pending":
            self._decide(transaction, asked, outcome == "approved", principal, vote.at)

    def _check_answer(
        self, transaction: Transaction, asked: model.Approval, principal: Principal, digest: str | None, now: int
    ) -> None:
        if asked.run_id is not None and asked.kind == "run":
            run = self.core.run(transaction, asked.run_id)
            if not run.state.live:
                raise Conflict(
                    f"Run {run.id} is over: {run.state.label}.", value=run.id, field="run", hint="No answer is needed."
                )
        if asked.state != "pending" or asked.expires_at <= now:
            state = "expired" if asked.state == "pending" else asked.state
            raise Conflict(f"Approval {asked.id} is {state}.", value=asked.id, field="approval", hint=_HINTS.get(state))
        reason = self._refusal(transaction, asked, principal)
        if reason is not None:
            raise NotAllowed(
                f"{principal.name} cannot answer approval {asked.id}: {reason}.",
                value=principal.name,
                field="principal",
            )
        if digest is not None and digest != asked.digest:
            message = f"Approval {asked.id} has changed since you read it."
            raise Stale(message, value=digest, field="digest", hint="Read it again, then answer.")

    def _refusal(self, transaction: Transaction, asked: model.Approval, principal: Principal) -> str | None:
        people = self.core.catalog.policies(transaction).people.values()
        others = any(each.role == "owner" and each.name != principal.person for each in people)
        return refusal_reason(asked, principal, sole_owner=principal.person is None or not others)

    def _decide(
        self, transaction: Transaction, asked: model.Approval, granted: bool, principal: Principal, now: int
    ) -> None:
        if not transaction.set_approval_state(asked.id, "pending", "approved" if granted else "denied", now):
            raise Conflict(
                f"Approval {asked.id} was answered by someone else at the same time.",
                value=asked.id,
                hint="Read it again, then answer.",
            )
        event = "approval.approved" if granted else "approval.denied"
        voters = [v.voter for v in asked.votes]
        data = {
            "approval": str(asked.id),
            "by": [name_of(who) for who in voters],
            "who": voters,
            "digest": asked.digest,
        }
        transaction.events.append(NewEvent(now, event, asked.schedule_id, asked.run_id, data))
        if asked.kind == "run":
            answer_run(transaction, self.core.catalog, asked, granted, now, "denied", DENY)
            if granted and asked.request.get("changed") and principal.role == "owner":
                policies: Policies = self.core.catalog.policies(transaction)
                transaction.lock_policies()
                approval_requests.approve_hook_files(transaction, asked, policies, principal, now)
                approval_requests.release_unchanged(transaction, self.core.catalog, now)
        elif asked.kind == "schedule":
            self._decide_schedule(transaction, asked, granted, principal, now)
        elif granted:
            self._grant_budget(transaction, asked, principal, now)
        if granted and asked.kind != "run":  # the approval has taken effect
            transaction.set_approval_state(asked.id, "approved", "used", now)

    def _decide_schedule(
        self, transaction: Transaction, asked: model.Approval, granted: bool, principal: Principal, now: int
    ) -> None:
        schedule = self.core.schedule(transaction, asked.schedule_id)
        compiled = self.core.compiled(transaction, schedule)
        policies: Policies = self.core.catalog.policies(transaction)
        if schedule.state != "pending" or approval_requests.content_digest(compiled, policies) != asked.digest:
            raise Conflict(
                f'"{schedule.name}" has changed since the request.',
                value=schedule.name,
                hint="Read it again, then answer.",
            )
        if granted:
            resume(transaction, schedule, compiled, now, principal.who)
        else:
            reject(transaction, self.core.catalog, asked, now, "denied", principal.who)

    def _grant_budget(self, transaction: Transaction, asked: model.Approval, principal: Principal, now: int) -> None:
        """Resume all schedules that wait for this budget, and grant its amount again for this period."""
        place = asked.request
        policies: Policies = self.core.catalog.policies(transaction)
        for schedule_id in (asked.schedule_id, *others_waiting(transaction, policies, asked, now)):
            schedule = self.core.schedule(transaction, schedule_id)
            if schedule.state == "paused" and schedule.paused_by == BY_BUDGET:  # a pause by a person stays
                resume(transaction, schedule, self.core.compiled(transaction, schedule), now, principal.who)
        transaction.lock_policies()  # budget usage is locked last
        for budget in policies.budgets:
            if budget.name == place.get("budget"):
                amount = (-(budget.max_cost or 0), -(budget.max_tokens or 0), 0, 0)
                transaction.add_budget_usage(BudgetUsage(budget.name, place["whose"], place["period"], *amount))

    def _prepare(
        self, principal: Principal, approval_id: int, digest: str | None, edits: Mapping[str, Any], jobs: JobTypes,
        now: int,
    ) -> Edit:  # fmt: skip
        """The parsed edit of what is asked for."""
        with self.core.store.reading() as transaction:
            asked = _get(transaction.approval(approval_id), approval_id)
            self._check_answer(transaction, asked, principal, digest, now)
            if asked.kind == "budget":
                raise InvalidInput("A budget request has nothing to edit.", field="edits", hint="Omit it.")
            if asked.run_id is not None and transaction.parents_of([asked.run_id]):
                hint = "Deny the request, edit the schedule, then retry the run."
                raise InvalidInput("A step cannot be edited: its run has started.", field="edits", hint=hint)
            given = self.proposals.check_settings(principal, edits, editing=True)
            for name in given:
                if changes_trigger([name]):
                    hint = "Deny the request, then edit the schedule."
                    raise InvalidInput(f'"{name}" belongs to the schedule.', field=name, hint=hint)
            schedule = self.core.schedule(transaction, asked.schedule_id)
            compiled = self.core.catalog.find(transaction, (schedule.id, asked.rev, 0))
            if not isinstance(compiled, CompiledSchedule):
                raise Conflict(
                    f'The settings of "{schedule.name}" cannot be read.', value=schedule.name, hint="Deny the request."
                )
            base = replace(schedule, rev=asked.rev, definition=compiled.definition)
            policies = self.core.catalog.policies(transaction)
        return self.proposals.prepare(principal, policies, base, given, jobs, now)

    def _with_edits(
        self, transaction: Transaction, asked: model.Approval, principal: Principal, edit: Edit, now: int
    ) -> model.Approval:
        """Void the request and create one for the edited settings, with its own digest."""
        schedule = self.core.schedule(transaction, asked.schedule_id)
        policies: Policies = self.core.catalog.policies(transaction)
        edit.check_same((schedule.id, asked.rev), policies.rates)
        definition, trigger = edit.definition, edit.trigger
        definition = self.proposals.check_edit(transaction, principal, schedule, definition, trigger, now)
        transaction.set_approval_state(asked.id, "pending", "void", now)
        compiled = self._revised(transaction, schedule, asked, definition, principal, now)
        new = _requested_again(asked, compiled, policies, principal, now)
        if principal.role != "owner" and eligible_count(new) < new.needed:
            raise NotAllowed(
                "Too few approvers would be left: you cannot approve your own change.",
                value=principal.name,
                field="edits",
                hint="Deny the request, or ask the owner to edit the schedule.",
            )
        number = transaction.insert_approval(new)
        data: dict[str, Any] = {
            "approval": str(number),
            "instead_of": str(asked.id),
            **principal.signed,
            "settings": sorted(edit.given),
        }
        data["record"] = approval_digest(new)
        data["rev"] = compiled.rev
        data["fingerprint"] = revision_fingerprint(transaction.bound_revision(schedule.id, compiled.rev))
        transaction.events.append(NewEvent(now, "approval.edited", schedule.id, asked.run_id, data))
        return _get(transaction.approval(number), number)

    def _revised(
        self,
        transaction: Transaction,
        schedule: ScheduleRecord,
        asked: model.Approval,
        definition: ScheduleDefinition,
        principal: Principal,
        now: int,
    ) -> CompiledSchedule:
        """Create a revision: of the run for a request about a run, otherwise of the schedule."""
        rev = transaction.last_revision(schedule.id) + 1
        if asked.run_id is not None:
            transaction.insert_run_revision(schedule.id, rev, encode(definition))
            transaction.set_run_revision(asked.run_id, rev)
        else:
            transaction.insert_revision(schedule.id, rev, encode(definition), now)
            transaction.set_author(schedule.id, rev, principal.who, principal.role, now)
            transaction.replace_cursor(schedule.id, schedule.next_slot, None, rev, paused=True)
            _move_waiting_runs(transaction, schedule.id, asked.rev, rev)
            listen(self.core, transaction, [schedule.id])
        run = None if asked.run_id is None else transaction.run(asked.run_id)
        key = (schedule.id, rev, 0)
        compiled = self.core.catalog.of_run(transaction, run) if run else self.core.catalog.find(transaction, key)
        assert isinstance(compiled, CompiledSchedule)
        note_zones(transaction, [compiled.timetable.trigger])
        return compiled


def _move_waiting_runs(transaction: Transaction, schedule_id: int, old: int, new: int) -> None:
    """Give runs that wait with the requested settings the edited ones: nobody approves the former."""
    live = live_runs(transaction, [schedule_id]).get(schedule_id, [])
    for row in transaction.live_runs([run_id for run_id, state in live if state <= RunState.READY]):
        if row.attempt == 0 and row.rev == old:
            transaction.set_run_revision(row.id, new)


def _requested_again(
    asked: model.Approval, compiled: CompiledSchedule, policies: Policies, principal: Principal, now: int
) -> model.Approval:
    """The request that replaces one whose settings were edited."""
    describes = compiled.timetable.trigger.describe()
    changed = approval_request(compiled.agent, compiled.name, compiled.definition, asked.request.get("slot"), describes)
    gone = {name: None for name in asked.request if name in SETTINGS and name not in changed}
    editor = {"edited_by": principal.name, "involved": [*authors(asked), (principal.who, principal.role)]}
    about: dict[str, Any] = {"files": {}, "outside": [], **approval_requests.about_agent(compiled, policies)}
    request = {**asked.request, **gone, **changed, **about, **editor, "instead_of": str(asked.id)}
    item: dict[str, Any] | None = asked.request.get("work_item")
    if item is not None and item["source"] != (compiled.definition.work_source or item["source"]):
        item = None  # the run claims another, and approval is requested again
        del request["work_item"]
    digest = approval_requests.content_digest(compiled, policies, item)
    return asked._replace(rev=compiled.rev, digest=digest, requested_at=now, request=request)


_HINTS = {
    "expired": "It was not answered in time. The next run requests approval again.",
    "void": "Its subject has changed. Look for the newer request.",
}


def _get(approval: model.Approval | None, approval_id: int) -> model.Approval:
    if approval is None:
        raise NotFound(f"There is no approval {approval_id}.", value=approval_id, field="approval")
    return approval


def _readable(request: dict[str, Any]) -> dict[str, Any]:
    """The request with names of principals that people read."""
    if "involved" not in request:
        return request
    return {**request, "involved": [(name_of(who), role) for who, role in request["involved"]]}


def _with_later_edit(approval: model.Approval, schedule: ScheduleRow | None) -> model.Approval:
    """The request about a run that has not started, and says so if the schedule has other settings by now."""
    if schedule is None or (schedule.rev <= approval.rev and schedule.name == approval.schedule):
        return approval
    verb = "edited" if schedule.rev > approval.rev else f'renamed to "{schedule.name}"'
    return approval._replace(request={**approval.request, "edited": EDITED_SINCE.format(verb)})


def approval_results(core: Core, transaction: Transaction, found: Sequence[model.Approval]) -> builtins.list[Approval]:
    """The requests as people read them: whether the schedule was edited since, and whether the agent is isolated."""
    waiting = {one.schedule_id for one in found if one.kind == "run" and one.state in ("pending", "approved")}
    schedules = {row.id: row for row in transaction.schedules_with(waiting)} if waiting else {}
    return [_result(_with_isolation(core, _with_later_edit(one, schedules.get(one.schedule_id)))) for one in found]


def _with_isolation(core: Core, approval: model.Approval) -> model.Approval:
    """The request, and whether its agent is isolated on this machine."""
    prompted = approval.request.get("job") == AGENT_JOB
    agent = core.policies().agents.get(approval.request["agent"]) if prompted else None
    isolation = core.local.isolation
    refusal = None if agent is None or isolation is None else isolation.refusal(agent)
    if refusal is None:
        return approval
    return approval._replace(request={**approval.request, "isolation": f"{NOT_ISOLATED}: {refusal}"})


def _result(approval: model.Approval) -> Approval:
    return Approval(
        id=str(approval.id),
        kind=approval.kind,
        schedule_id=str(approval.schedule_id),
        schedule=approval.schedule,
        run_id=None if approval.run_id is None else str(approval.run_id),
        rev=approval.rev,
        digest=approval.digest,
        policy=approval.policy,
        approvers=list(approval.approvers),
        required=approval.needed,
        default=approval.default,
        requested_by=name_of(approval.requested_by),
        requester_role=approval.requester_role,
        requested_at=to_datetime(approval.requested_at),
        expires_at=to_datetime(approval.expires_at),
        state=approval.state,
        decided_at=to_datetime(approval.decided_at),
        request=_readable(approval.request),
        votes=[VoteResult(name_of(v.voter), v.vote, to_datetime(v.at), v.note, v.digest) for v in approval.votes],
    )
