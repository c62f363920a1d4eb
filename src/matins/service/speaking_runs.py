"""Use cases of an agent about the run that it speaks from: its context, and its own word on the outcome."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from matins.api.results import CallerContext, LimitLeft
from matins.api.runs import ReportedOutcome
from matins.engine.money import format_money
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict
from matins.model.access import Principal
from matins.model.rows import NewEvent
from matins.model.run import RunRecord, RunState
from matins.runtime.run_change import event_type
from matins.runtime.spending import SpendingLimit, spending_limits
from matins.service.core import Core
from matins.service.drafts import check_note
from matins.service.file.plan import applied_text
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class SpeakingRuns:
    core: Core

    def context(self, principal: Principal) -> CallerContext:
        if principal.run_id is None:
            return CallerContext(principal.role, principal.name, self._profile(principal))
        with self.core.store.reading() as transaction:
            return self._context(transaction, principal, self.core.run(transaction, principal.run_id))

    def _profile(self, principal: Principal) -> str:
        if principal.role == "agent":
            return principal.name
        file = self.core.local.file
        with self.core.store.reading() as transaction:
            text, policies = applied_text(transaction), self.core.catalog.policies(transaction)
        named = None if file is None or text is None else file.format.default_agent(file.parse(text))
        return named or policies.default_agent

    def _context(self, transaction: Transaction, principal: Principal, run: RunRecord) -> CallerContext:
        policies = self.core.catalog.policies(transaction)
        schedule = self.core.schedule(transaction, run.schedule_id)
        agent, assignment = policies.agents.get(principal.name), transaction.thread_assignment(run.id)
        thread = None if assignment is None else assignment.thread
        key = (run.schedule_id, run.rev, run.step)
        compiled = self.core.catalog.compiled(transaction, [key])[key]
        limits: list[SpendingLimit] = []
        if not isinstance(compiled, Exception):
            limits = spending_limits(transaction, policies, compiled, run.id, self.core.clock.now_ms())
        reported = transaction.reported_outcome(run.id, run.epoch)
        return CallerContext(
            role=principal.role,
            name=principal.name,
            profile=principal.name,
            run_id=str(run.id),
            schedule=schedule.name,
            agent=principal.name,
            runner=None if agent is None else agent.runner,
            slot=to_datetime(run.slot if run.parent is None else transaction.nominal_slot(run.id)),
            attempt=run.attempt,
            workdir=None if agent is None else agent.workdir,
            thread=None if thread is None else str(thread.id),
            channel=None if thread is None else thread.channel,
            session=None if thread is None else thread.session,
            session_name=None if thread is None else thread.session_name,
            limits=[_left(limit) for limit in limits],
            reported=orjson.loads(reported)["outcome"] if reported else None,
        )

    def report_outcome(self, principal: Principal, outcome: ReportedOutcome, *, reason: str | None = None) -> bool:
        check_note(reason, "reason")
        if principal.run_id is None:
            message, hint = "Only an agent in a run reports an outcome.", "Call it with the token of the run."
            raise Conflict(message, field="outcome", hint=hint)
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            run = self.core.run(transaction, principal.run_id)
            if run.state not in (RunState.STARTING, RunState.RUNNING):
                raise Conflict(f"Run {run.id} is over: {run.state.label}.", value=run.id, field="run")
            said = {"outcome": outcome, "reason": reason}
            transaction.report_outcome(run.id, run.epoch, orjson.dumps(said).decode())
            key = (run.schedule_id, run.rev, run.step)
            compiled = self.core.catalog.compiled(transaction, [key])[key]
            kind = "run.reported" if isinstance(compiled, Exception) else event_type(compiled, "run.reported")
            data = {**said, **principal.signed}
            transaction.events.append(NewEvent(now, kind, run.schedule_id, run.id, data))
        return True


def _left(limit: SpendingLimit) -> LimitLeft:
    money = None if limit.money is None else format_money(max(0, limit.money))
    return LimitLeft(limit.of, money, None if limit.tokens is None else max(0, limit.tokens))
