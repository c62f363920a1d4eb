"""Use cases on runs and threads.

`Replies`: what a person says in a thread becomes a run there. `SpeakingRuns`: what an agent asks and reports about its
own run.
"""

from __future__ import annotations

import builtins
import re
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from matins.api.results import CallerContext, Check, LimitLeft, Message, Run, SentMessage, Snapshot, ThreadAssignment
from matins.api.results import Thread as ThreadResult
from matins.api.runs import ReportedOutcome, RunOutcome
from matins.config.reader import FILE_NAME
from matins.engine.answers import FAILED, answer_text, destinations_of, digest_of, message_recipients
from matins.engine.audit import revision_fingerprint
from matins.engine.gates import Candidate, Facts, Verdict, judge
from matins.engine.inputs import check_input, encode_given, free_texts, read_given
from matins.engine.jobs import AGENT_JOB, as_scheduled, converses, decided_by, full_prompt
from matins.engine.money import format_money
from matins.engine.policies import Policies
from matins.engine.prompts import check_prompt_text, first_name, has_input, inputs_in
from matins.engine.reasons import CAUSES, local_time, rfc3339
from matins.engine.schedules import UNREADABLE, decode, encode, schedule_settings, texts_of
from matins.engine.settings import ParseContext
from matins.engine.steps import of_step
from matins.engine.transitions import FAIL, MARK_UNKNOWN, RETRY, SUCCEED
from matins.engine.validation import check_name, nearest
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, Example, InvalidInput, NotAllowed, NotFound
from matins.executors.agent_checks import check_model
from matins.executors.endpoint_requests import redacted_text
from matins.executors.isolation import account_of
from matins.executors.registry import JobRegistry
from matins.executors.secrets import known_secrets
from matins.executors.work_items import open_source
from matins.model import run as model
from matins.model.access import Principal
from matins.model.agent import Agent, Target
from matins.model.destination import FINAL, NOBODY, THREAD, AnswerRow
from matins.model.job import JobType
from matins.model.rows import NewEvent
from matins.model.run import Given, RunRecord, RunState, StepId, Thread
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.runtime import spending
from matins.runtime.agent_folders import folder_of
from matins.runtime.attempt import stored_run_key
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.clearance import Floors
from matins.runtime.planner import NO_RUNS, insert_requested_run, met_runs
from matins.runtime.run_changes import RunChange, apply, chat_place, end_runs, event_type
from matins.runtime.spending import SpendingLimit, spending_limits
from matins.service.backfills import instant_of
from matins.service.core import LEASE_MS, MAX_ID, Core
from matins.service.drafts import check_note
from matins.service.output import part_of, state_folder
from matins.service.permissions import check_own, check_reach, rights_of
from matins.service.proposals import unknown_record
from matins.service.run_views import check_results, whole_result
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class Threads:
    core: Core

    def list(self, principal: Principal, *, before: int | None = None, limit: int = 100) -> builtins.list[ThreadResult]:
        with self.core.store.reading() as transaction:
            found = transaction.threads(MAX_ID if before is None else before, limit)
        return [thread_result(thread) for thread in found]

    def messages(
        self, principal: Principal, thread_id: int, *, after: int | None = None, limit: int = 100
    ) -> builtins.list[Message]:
        with self.core.store.reading() as transaction:
            if transaction.thread(thread_id) is None:
                raise NotFound(f"There is no thread {thread_id}.", value=thread_id, field="thread")
            found = transaction.messages(thread_id, after or 0, limit)
        return [_message_result(message) for message in found]


def thread_result(thread: model.Thread) -> ThreadResult:
    return ThreadResult(
        id=str(thread.id),
        agent=thread.agent,
        channel=thread.channel,
        session=thread.session,
        session_name=thread.session_name,
        state=thread.state,
        tokens=list(thread.usage[:3]),
        created_at=to_datetime(thread.created_at),
        updated_at=to_datetime(thread.updated_at),
    )


def _message_result(message: model.Message) -> Message:
    return Message(
        id=str(message.id),
        thread_id=str(message.thread_id),
        run_id=None if message.run_id is None else str(message.run_id),
        role=message.role,
        text=message.text,
        at=to_datetime(message.at),
    )


_OUTCOMES = {"succeeded": SUCCEED, "failed": FAIL, "unknown": MARK_UNKNOWN, "retry": RETRY}
_MAX_KEY_LENGTH = 200


@dataclass(frozen=True)
class Runs:
    core: Core

    def run(
        self, principal: Principal, name: str, *, input: Any = None,  # noqa: A002 - the word of every surface
        model: str | None = None, effort: str | None = None, slot: int | str | None = None, key: str | None = None,
        at: int | None = None, agent: str | None = None,
    ) -> Run:  # fmt: skip
        """Start a run now, or `at` an instant. An agent cannot run a completed or expired schedule."""
        now, core = self.core.clock.now_ms(), self.core
        key = _checked_key(key)
        if input is not None:
            check_input(input)
        with core.store.transaction(now) as transaction:
            schedule = core.schedule_for(transaction, principal, name, agent)  # overlap and key: under its lock
            _check_startable(principal, schedule)
            if (existing := transaction.run_by_request(schedule.id, key)) is not None:
                return self._result(transaction, existing)
            compiled = core.compiled(transaction, schedule)
            if not principal.is_human:
                _check_floor(transaction, compiled, core.catalog.policies(transaction), now)
            if at is not None and compiled.definition.overlap != "allow":
                raise _holds_up(schedule.name, compiled.definition.overlap)
            given = _given(principal, compiled, core.jobs.registry, input, now)
            if model is not None or effort is not None:
                policies = core.catalog.policies(transaction)
                given = given._replace(**_chosen(principal, compiled, policies, model, effort))
            for_slot = None if slot is None else _past_slot(compiled, slot, now)
            made = self.start(transaction, principal, schedule, compiled, key, now, encode_given(given), for_slot, at)
            result = self._result(transaction, made)
        core.notify()
        return result

    def retry(
        self, principal: Principal, run_id: int | StepId, *, from_step: str | None = None, key: str | None = None
    ) -> Run:
        """Repeat an ended run. The retry of a step repeats its run from that step on."""
        now, core, key = self.core.clock.now_ms(), self.core, _checked_key(key)
        with core.store.transaction(now) as transaction:
            run = core.run(transaction, run_id)
            if run.parent is not None:
                run, from_step = core.run(transaction, run.parent), from_step or str(run.step)
            transaction.lock_due([run.schedule_id])  # overlap is checked under the lock
            run, schedule = core.run(transaction, run.id), core.schedule(transaction, run.schedule_id)
            check_own(principal, schedule)
            if schedule.state == "removed":  # its runs are history, and nothing of it starts again
                hint = "Add it again, then start a run."
                raise Conflict(
                    f'"{schedule.name}" is deleted and cannot run.', value=schedule.name, field="run", hint=hint
                )
            _check_startable(principal, schedule)
            if (existing := transaction.run_by_request(schedule.id, key)) is not None:
                return self._result(transaction, existing)
            compiled = core.compiled_at(transaction, schedule, run.rev)
            start = _check_retry(transaction, run, compiled, from_step)
            given = None if run.given is None else encode_given(run.given)
            for_slot = run.for_slot if run.slot is None else run.slot
            made = self.start(transaction, principal, schedule, compiled, key, now, given, for_slot)
            transaction.set_retry(made, run.id, start)
            for call in transaction.calls_of_run(run.id, 1):
                transaction.link_call(call.id, made, None)
            result = self._result(transaction, made)
        core.notify()
        return result

    def start_with(
        self,
        transaction: Transaction,
        principal: Principal,
        schedule: ScheduleRecord,
        definition: str,
        key: str | None,
        now: int,
    ) -> Run:
        """Start a run of a locked schedule with settings of its own, once per key."""
        key = _checked_key(key)
        _check_approved(schedule)
        if (existing := transaction.run_by_request(schedule.id, key)) is not None:
            return self._result(transaction, existing)
        rev = transaction.last_revision(schedule.id) + 1
        transaction.insert_run_revision(schedule.id, rev, definition)
        compiled = self.core.compiled_at(transaction, schedule, rev)
        run_id = self.start(transaction, principal, schedule, compiled, key, now)
        digest = revision_fingerprint(transaction.bound_revision(schedule.id, rev))
        data = {"rev": rev, **principal.signed, "fingerprint": digest}
        transaction.events.append(NewEvent(now, "run.varied", schedule.id, run_id, data))
        return self._result(transaction, run_id)

    def _result(self, transaction: Transaction, run_id: int | StepId) -> Run:
        return whole_result(transaction, self.core.catalog, self.core.run(transaction, run_id))

    def start(
        self,
        transaction: Transaction,
        principal: Principal,
        schedule: ScheduleRecord,
        compiled: CompiledSchedule,
        key: str,
        now: int,
        given: str | None = None,
        for_slot: int | None = None,
        at: int | None = None,
    ) -> int:
        """Insert a run in the state that the gates decide, in a transaction."""
        check_reach(principal, schedule.agent, compiled.definition)
        verdict = self._verdict(transaction, principal, compiled, now)
        held = schedule.state in ("paused", "broken")
        if held and (verdict is None or verdict.state is RunState.QUEUED):  # continues when its schedule is resumed
            verdict = Verdict(RunState.WAITING, "paused", cancel=() if verdict is None else verdict.cancel)
        by = principal.as_requester
        catalog = self.core.catalog
        return insert_requested_run(transaction, catalog, compiled, verdict, key, by, now, given, for_slot, at=at)

    def _verdict(
        self, transaction: Transaction, principal: Principal, compiled: CompiledSchedule, now: int
    ) -> Verdict | None:
        policies = self.core.catalog.policies(transaction)
        live, backfill = met_runs(transaction, [compiled.schedule_id]).get(compiled.schedule_id, NO_RUNS)
        definition = compiled.definition
        if principal.is_human and definition.quiet_hours is not None and definition.overlap != "cancel_other":
            # Runs that wait for quiet hours do not block a manual run; with cancel_other they end.
            waiting = {row.id for row in transaction.waiting_for("quiet_hours")}
            live = [(run, state) for run, state in live if run not in waiting]
        short = None if compiled.steps else spending.expected_charge(transaction, policies, compiled, now)
        facts = Facts(live, False, compiled.agent, policies, short, manual=principal.is_human, backfill=backfill)
        return judge(Candidate(compiled.definition, None, facts, 0, False, now), compiled.levels)

    def cancel(self, principal: Principal, run_id: int | StepId, *, reason: str = "cancelled") -> Run:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            self.end(transaction, principal, run_id, reason, now)
            result = self._result(transaction, run_id)
        self.core.notify()
        return result

    def end(self, transaction: Transaction, principal: Principal, run_id: int | StepId, reason: str, now: int) -> None:
        """Cancel a run, in a transaction."""
        run = self.core.run(transaction, run_id)
        check_own(principal, self.core.schedule(transaction, run.schedule_id))
        if not run.state.live:
            message, hint = f"Run {run_id} is over: {run.state.label}.", f"Show it: matins runs show {run_id}"
            raise Conflict(message, value=run_id, field="run", hint=hint)
        code, note = (reason, None) if reason in CAUSES else ("cancelled", reason)
        end_runs(transaction, self.core.catalog, [run.id], now, code, principal.who, note)

    def resolve(self, principal: Principal, run_id: int | StepId, outcome: RunOutcome) -> Run:
        now = self.core.clock.now_ms()
        self._report_work(run_id, outcome, principal.name, now)
        with self.core.store.transaction(now) as transaction:
            run, compiled = self._resolvable(transaction, run_id)
            transition = _OUTCOMES[outcome]
            not_before = now if transition is RETRY else None
            reason = f"resolved_by_{principal.name}"
            change = RunChange(run.id, run.epoch, run.slot, compiled, transition, now, not_before, reason)
            apply(transaction, [change], now)
            result = self._result(transaction, run_id)
        self.core.notify()
        return result

    def _resolvable(self, transaction: Transaction, run_id: int | StepId) -> tuple[RunRecord, CompiledSchedule]:
        run = self.core.run(transaction, run_id)
        if run.state is not RunState.HELD and not self._lost(transaction, run):
            raise Conflict(f"Run {run_id} is not held: {run.state.label}.", value=run_id, field="run")
        compiled = self.core.catalog.find(transaction, (run.schedule_id, run.rev, run.step))
        if not isinstance(compiled, CompiledSchedule):
            raise Conflict(f"The settings of run {run_id} cannot be read: {compiled}", value=run_id, hint="Cancel it.")
        return run, compiled

    def _lost(self, transaction: Transaction, run: RunRecord) -> bool:
        """Whether a run has started, but its worker is gone."""
        if run.state not in (RunState.STARTING, RunState.RUNNING):
            return False
        worker, store = transaction.owner_of(run.id), self.core.store
        if worker is None:
            return any(row.id == run.id for row in transaction.orphans())
        if not store.shared:
            return not store.engines(LEASE_MS)
        return abs(self.core.clock.now_ms() - worker.beat) > LEASE_MS

    def _report_work(self, run_id: int | StepId, outcome: RunOutcome, by: str, now: int) -> None:
        """Report the outcome to the work source, before the run ends. If the source does not answer, nothing changes,
        and the call can be repeated."""
        with self.core.store.reading() as transaction:
            run, compiled = self._resolvable(transaction, run_id)
            key = stored_run_key(transaction, compiled, run.id)
            sources = self.core.catalog.policies(transaction).work_sources
            definition = sources.get(compiled.definition.work_source or "")
        if definition is None or outcome == "retry":
            return
        source = open_source(definition, self.core.workdir)
        item = source.held(key, now)
        if item is not None:
            report = source.done if outcome == "succeeded" else source.failed
            report(item, key, f"The outcome of run {run_id} was unknown; {by} set it: {outcome}.", now)

    def deliver(self, principal: Principal, run_id: int | StepId, *, to: builtins.list[str] | None = None) -> Run:
        now, core = self.core.clock.now_ms(), self.core
        with core.store.transaction(now) as transaction:
            run = core.run(transaction, run_id)
            compiled = core.catalog.find(transaction, (run.schedule_id, run.rev, run.step))
            policies = core.catalog.policies(transaction)
            _check_answer(run)
            definition = compiled.definition if isinstance(compiled, CompiledSchedule) else UNREADABLE
            agent = compiled.agent if isinstance(compiled, CompiledSchedule) else ""
            place = chat_place(transaction, policies, run.id, definition).place
            usual = [name for name in destinations_of(definition, agent, policies) if name != NOBODY]
            service = None if place is None else place.service
            there = [_destination(name, policies, service) for name in (usual if to is None else to)]
            if not there:
                hint = f"Name one: matins runs deliver {run_id} --to {next(iter(policies.destinations), 'phone')}"
                raise InvalidInput(f"The answers of {run.schedule} go nowhere.", field="to", hint=hint)
            known = {row.destination: row for row in transaction.answers_of(run.id) if row.number == FINAL}
            digest = digest_of(answer_text(run.outcome))
            for name in dict.fromkeys(there):
                new = AnswerRow(run.id, FINAL, name, run.schedule_id, "queued", None, digest, now, now)
                if name in known:
                    transaction.renew_answer(new)
                else:
                    transaction.insert_answer(new)
            data = {"destinations": there, **principal.signed}
            transaction.events.append(NewEvent(now, "answer.requested", run.schedule_id, run.id, data))
            result = self._result(transaction, run_id)
        core.notify()
        return result

    def get(self, principal: Principal, run_id: int | StepId) -> Run:
        with self.core.store.reading() as transaction:
            return self._result(transaction, run_id)

    def checks(self, principal: Principal, run_id: int | StepId) -> builtins.list[Check]:
        with self.core.store.reading() as transaction:
            return check_results(transaction, self.core.run(transaction, run_id).id)

    def thread(self, principal: Principal, run_id: int | StepId) -> ThreadAssignment | None:
        with self.core.store.reading() as transaction:
            assignment = transaction.thread_assignment(self.core.run(transaction, run_id).id)
        if assignment is None:
            return None
        return ThreadAssignment(str(assignment.run_id), thread_result(assignment.thread), assignment.how)

    def snapshot(self, principal: Principal, run_id: int | StepId) -> Snapshot:
        with self.core.store.reading() as transaction:
            run = self.core.run(transaction, run_id)
            (row,) = transaction.definitions([(run.schedule_id, run.rev)])
            compiled = self.core.catalog.of_run(transaction, run)
        then = decode(row.definition)
        agent = row.agent
        if run.step:
            agent, then = then.steps[run.step - 1].agent or agent, of_step(then, run.step)
        if isinstance(compiled, CompiledSchedule):
            then = compiled.definition
        return Snapshot(
            run_id=str(run.id),
            schedule_id=str(run.schedule_id),
            schedule=row.name,
            agent=agent,
            rev=run.rev,
            job=then.job,
            prompt=full_prompt(then),
            payload=then.payload,
            input=compiled.input if isinstance(compiled, CompiledSchedule) else None,
            settings=schedule_settings(then),
        )


def _check_answer(run: RunRecord) -> None:
    """Raise unless the run has an answer to send."""
    if run.state.live or run.step:
        message = f"Run {run.id} is a step." if run.step else f"Run {run.id} is not over: {run.status}."
        raise Conflict(
            message, value=str(run.id), field="run", hint="Name the run that it is part of, when it is over."
        )
    if run.state not in FAILED and not answer_text(run.outcome):
        hint = f"Show it: matins runs show {run.id}"
        raise Conflict(f"Run {run.id} has no answer: it has no text.", value=str(run.id), field="run", hint=hint)


def _destination(name: str, policies: Policies, service: str | None) -> str:
    if name == THREAD and service is not None:
        return f"{THREAD}:{service}"
    if name not in policies.destinations:
        names = [*policies.destinations, *([THREAD] if service else [])]
        raise unknown_record("destination", "destinations", "to", name, names)
    return name


def _given(principal: Principal, compiled: CompiledSchedule, jobs: JobRegistry, value: Any, now: int) -> Given:
    """What a run is started with, checked by its declared inputs, the types of its jobs, and what its prompts need."""
    trusted, inputs = _may_change(principal), compiled.definition.inputs
    if value is not None and not (inputs or trusted):
        hint = 'Ask its owner to declare it: {"inputs": …}.'
        message = f'"{compiled.name}" declares no inputs, and you may not change its payload.'
        raise NotAllowed(message, value=principal.role, field="input", hint=hint)
    if inputs:
        value = read_given(compiled.name, inputs, compiled.definition.payload, value) or None
    fenced = () if trusted else free_texts(inputs, value)
    run, prompts = compiled if value is None else compiled.with_given(Given(value)), dict[str, str]()
    for number in range(1, len(run.steps) + 1) if run.steps else (0,):
        part = run.step_of(number) if number else run
        job = jobs.get(part.definition.job)
        if value is not None and job is not None and not part.shared.own_payload:
            prompt = _prompt_with(job, part.definition.payload, now)
            if prompt is not None and fenced:
                message = f'The job "{job.name}" writes "{fenced[0]}" into its prompt, and you may not change that.'
                raise NotAllowed(message, value=fenced[0], field=f"input.{fenced[0]}", hint="Ask the owner.")
            if prompt is not None:
                prompts[str(number)] = prompt
        _check_complete(compiled.name, part)
    return Given(value, fenced, prompts)


def _holds_up(name: str, overlap: str) -> Conflict:
    """The error for a run at a later time of a schedule whose runs do not overlap."""
    message = f'"{name}" runs one at a time (overlap: {overlap}): a run for later would hold up its others.'
    hint = "Set overlap to allow, or add a schedule for that time."
    return Conflict(message, value=name, field="at", hint=hint)


def _past_slot(compiled: CompiledSchedule, slot: int | str, now: int) -> int:
    """The past slot that a run makes up for."""
    times = compiled.timetable
    zone = compiled.definition.trigger.timezone
    at = instant_of("slot", slot, zone)
    if at > now:
        raise InvalidInput('"slot" is to come.', value=slot, field="slot", hint="Name a past slot, or omit it.")
    if not times.elapsed and not times.trigger.count(at, at + 1):
        near = [one for one in (times.trigger.prev_ms(at), times.trigger.next_ms(at)) if one is not None]
        nearest = " and ".join(local_time(one, zone) for one in near)
        message = f'"{compiled.name}" has no slot at {local_time(at, zone)}.'
        raise InvalidInput(message, value=slot, field="slot", hint=f"The nearest: {nearest}." if nearest else None)
    return at


def _chosen(
    principal: Principal, compiled: CompiledSchedule, policies: Policies, model: str | None, effort: str | None
) -> dict[str, Any]:
    """Model and effort of one run. Who may not change the schedule keeps those that it has."""
    if not _may_change(principal):
        message = "Only those who may change a schedule choose the model and the effort of its runs."
        raise NotAllowed(message, value=principal.role, field="model" if model else "effort", hint="Omit it.")
    parts = [compiled.step_of(number) for number in range(1, len(compiled.steps) + 1)] or [compiled]
    asked = [part for part in parts if converses(part.definition)]
    if not asked:
        message = f'"{compiled.name}" has no agent, so it has no model and no effort.'
        raise InvalidInput(message, value=model or effort, field="model" if model else "effort", hint="Omit it.")
    model = None if model is None else check_name("model", model)
    for part in asked:
        check_model(policies.agents.get(part.agent), replace(part.definition, model=model, effort=effort))
    return {"model": model, "effort": effort}


def _check_complete(name: str, part: CompiledSchedule) -> None:
    """Raise if a prompt needs an input that the run does not have."""
    for path in (path for text in texts_of(part.definition) for path in inputs_in(text)):
        if not has_input(path, part.input):
            message, hint = f'"{name}" needs the input "{path.removeprefix("input.")}".', {first_name(path): "…"}
            raise InvalidInput(message, value=path, field=path, hint=Example({"input": hint}))


def _may_change(principal: Principal) -> bool:
    """Whether the principal decides about the settings of schedules. What an agent changes, a person approves."""
    return principal.is_human and "change" in rights_of(principal)


def _prompt_with(job: JobType, value: Any, now: int) -> str | None:
    try:
        return decided_by(job, value, ParseContext(now))[0]
    except InvalidInput as error:
        error.field = (error.field or "payload").replace("payload", "input", 1)
        raise


def _check_floor(transaction: Transaction, compiled: CompiledSchedule, policies: Policies, now: int) -> None:
    """Raise if an agent would start what it made sooner than the shortest interval allows."""
    free_at = Floors().free_at(transaction, compiled, policies, now)
    if free_at > now:
        hint = f"Start it again at {rfc3339(free_at)}, or ask the owner."
        message = f'"{compiled.name}" or what belongs to it has just run: the minimum interval for agents applies.'
        raise NotAllowed(message, value=compiled.name, field="min_interval", hint=hint)


def _check_retry(
    transaction: Transaction, run: RunRecord, compiled: CompiledSchedule, from_step: str | None
) -> int | None:
    """The number of the step to start from; None for all that did not succeed. Raises if there is nothing to repeat."""
    if run.state.live:
        message = f"Run {run.id} is not over: {run.status}."
        raise Conflict(message, value=str(run.id), field="run", hint="Wait for its end, or cancel it.")
    start = None if from_step is None else _step_number(run, compiled, from_step)
    if start is None and (run.state is RunState.SUCCEEDED or _is_done(transaction, run)):
        hint = "Name the step to start from." if compiled.steps else f"Start a new run: matins run {run.schedule}"
        raise Conflict(f"Run {run.id} succeeded: nothing is left to retry.", value=str(run.id), field="run", hint=hint)
    return start


def _is_done(transaction: Transaction, run: RunRecord) -> bool:
    """Whether all steps of the run succeeded: it was cancelled while the last one ended."""
    states = {step.state for step in transaction.steps_of(run.id)}
    return states == {RunState.SUCCEEDED}


def _step_number(run: RunRecord, compiled: CompiledSchedule, step: str) -> int:
    titles = [one.title for one in compiled.steps]
    if step in titles:
        return titles.index(step) + 1
    if step.isascii() and step.isdigit() and 1 <= int(step) <= len(titles):
        return int(step)
    hint = nearest(step, titles) if titles else "Omit it."
    raise InvalidInput(f'Run {run.id} has no step "{step}".', value=step, field="from_step", hint=hint)


def _check_approved(schedule: ScheduleRecord) -> None:
    if schedule.state in ("pending", "rejected"):
        message = f'"{schedule.name}" is {schedule.state} and cannot run.'
        hint = "Approve it first." if schedule.state == "pending" else "Edit it to request approval again."
        raise Conflict(message, value=schedule.state, field="state", hint=hint)


def _check_startable(principal: Principal, schedule: ScheduleRecord) -> None:
    _check_approved(schedule)
    if not principal.is_human and schedule.state in ("completed", "expired"):
        message = f'"{schedule.name}" is {schedule.state} and cannot run.'
        raise Conflict(message, value=schedule.state, field="state", hint="Ask the owner.")


def _checked_key(key: str | None) -> str:
    if key is None:
        return str(uuid.uuid4())
    if not key or len(key) > _MAX_KEY_LENGTH or not key.isprintable():
        message = f'"key" must be text of 1 to {_MAX_KEY_LENGTH} printable characters.'
        raise InvalidInput(message, value=key[:60], field="key", hint="Shorten it, or omit it.")
    return key


_FIELD = re.compile(r"\{(?=\{)")


@dataclass(frozen=True)
class Replies:
    core: Core
    runs: Runs

    def reply(self, principal: Principal, thread_id: int, text: str, *, key: str | None = None) -> Run:
        prompt = _FIELD.sub("{ ", check_prompt_text(text, "text"))  # what people say has no placeholders
        now, core = self.core.clock.now_ms(), self.core
        with core.store.transaction(now) as transaction:
            thread, schedule = self._spoken_to(transaction, thread_id)
            definition = replace(
                schedule.definition,
                job=AGENT_JOB,
                prompt=prompt,
                prompt_prefix=False,
                payload=None,
                steps=(),
                work_source=None,
                on=(),
                overlap="queue",
                target=Target("thread", thread.channel, thread=thread.id),
                job_prompt=None,
                harmless=schedule.definition.harmless and schedule.definition.job == AGENT_JOB,
                step_jobs=(),
            )
            result = self.runs.start_with(transaction, principal, schedule, encode(definition), key, now)
        core.notify()
        return result

    def _spoken_to(self, transaction: Transaction, thread_id: int) -> tuple[Thread, ScheduleRecord]:
        """The thread, and the schedule of the last run in it, with its cursor locked."""
        thread, last = transaction.thread(thread_id), transaction.last_run_in(thread_id)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}.", value=thread_id, field="thread")
        if last is None:
            message, hint = f"No run has happened in thread {thread_id}.", "Speak after the first answer."
            raise Conflict(message, value=thread_id, field="thread", hint=hint)
        run = self.core.run(transaction, last)
        transaction.lock_due([run.schedule_id])
        schedule = self.core.schedule(transaction, run.schedule_id)
        if schedule.state == "removed" or schedule.agent != thread.agent:
            message = f'The schedule "{schedule.name}" of thread {thread_id} was deleted.'
            raise Conflict(
                message, value=thread_id, field="thread", hint="Add a schedule with this thread as its target."
            )
        return thread, schedule


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
            text, policies = transaction.applied_text(FILE_NAME), self.core.catalog.policies(transaction)
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
            slot=to_datetime((run.slot or run.for_slot) if run.parent is None else transaction.nominal_slot(run.id)),
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

    def send(
        self,
        principal: Principal,
        text: str,
        *,
        to: builtins.list[str] | None = None,
        title: str | None = None,
        files: builtins.list[str] | None = None,
    ) -> SentMessage:
        if principal.run_id is None:
            hint = "Call it with the token of the run."
            raise Conflict("Only an agent in a run sends messages.", field="run", hint=hint)
        for field, value, most in (("text", text, _MAX_MESSAGE), ("title", title, _MAX_TITLE)):
            if value is not None and not 0 < len(value.strip()) <= most:
                allowed = f"text of 1 to {most:,} characters"
                raise InvalidInput(f'"{field}" must be {allowed}.', value=value[:60], field=field, allowed=allowed)
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            speaker = self._speaker(transaction, principal.run_id)
            names = message_recipients(speaker.definition, speaker.agent.name, speaker.policies, to)
            _sent_before(transaction, speaker)  # before files are copied
        secrets = known_secrets(speaker.agent)
        if not files:
            return self._sent(principal, names, text, title, secrets, None, now)
        from matins.executors.attachments import copies_folder, discard

        folder, run = str(state_folder(self.core.store, self.core.local.state_folder)), speaker.run
        copies = copies_folder(folder, run.id, f"{run.epoch}-{uuid.uuid4().hex[:12]}")
        try:
            attached = self._attached(speaker, files, secrets, copies)
            return self._sent(principal, names, text, title, secrets, attached, now)
        except BaseException:
            discard(copies)
            raise

    def _sent(
        self, principal: Principal, names: Sequence[str], text: str, title: str | None, secrets: tuple[str, ...],
        attached: str | None, now: int,
    ) -> SentMessage:  # fmt: skip
        assert principal.run_id is not None
        with self.core.store.transaction(now) as transaction:
            speaker = self._speaker(transaction, principal.run_id)
            run, (whole, sent, most) = speaker.run, _sent_before(transaction, speaker)
            message, number = redacted_text(text.strip(), secrets), sent + 1
            for name in names:
                row = AnswerRow(
                    whole, number, name, run.schedule_id, "queued", None, digest_of(message), now, now,
                    None if title is None else redacted_text(title.strip(), secrets), message, attached,
                )  # fmt: skip
                transaction.insert_answer(row)
            data = {"number": number, "to": list(names), "digest": digest_of(message), **principal.signed}
            transaction.events.append(NewEvent(now, "run.message", run.schedule_id, whole, data))
        self.core.wake_here()
        return SentMessage(str(whole), number, list(names), most - number)

    def _speaker(self, transaction: Transaction, run_id: int) -> _Speaker:
        """The run that calls, with its settings. Raises when it has ended."""
        run = self.core.run(transaction, run_id)
        if run.state not in (RunState.STARTING, RunState.RUNNING):
            raise Conflict(f"Run {run.id} is over: {run.state.label}.", value=run.id, field="run")
        key, policies = (run.schedule_id, run.rev, run.step), self.core.catalog.policies(transaction)
        compiled = self.core.catalog.compiled(transaction, [key])[key]
        agent = None if isinstance(compiled, Exception) else policies.agents.get(compiled.agent)
        if isinstance(compiled, Exception) or agent is None:
            raise Conflict(f"The agent of run {run.id} was deleted.", value=run.id, field="run")
        key = stored_run_key(transaction, compiled, run.id)
        host = part_of(transaction.worker_of(run.id, run.epoch), "host")
        return _Speaker(run, compiled.definition, as_scheduled(agent, compiled.definition), policies, key, host)

    def _attached(self, speaker: _Speaker, files: builtins.list[str], secrets: tuple[str, ...], copies: Path) -> str:
        """The files of a message as its row has them. One that cannot be sent is refused: the agent can do something
        about it."""
        from matins.executors.attachments import MAX_FILES, attach
        from matins.executors.preparation import errand_of

        allowed = f"at most {MAX_FILES} paths of at most {_MAX_PATH} characters"
        if len(files) > MAX_FILES or any(len(name) > _MAX_PATH for name in files):
            hint = "Put several files into an archive."
            raise InvalidInput(f'"files" must be {allowed}.', field="files", allowed=allowed, hint=hint)
        if speaker.host not in (None, socket.gethostname()):  # a path means another file here
            message = f"Run {speaker.run.id} is on {speaker.host}, and its files are there."
            hint = "Send the text without them. Files that the schedule attaches go with the answer."
            raise Conflict(message, value=speaker.run.id, field="files", hint=hint)
        agent, account, definition = speaker.agent, account_of(speaker.agent), speaker.definition
        base, job = self.core.workdir or ".", self.core.jobs.registry.get(definition.job)
        errand = errand_of(definition, agent, job, speaker.key, base, speaker.run.started_at or 0)
        workdir = folder_of(agent, base) if errand is None or errand.folder is None else errand.folder
        uid = None if account is None else account.uid
        found = attach(files, workdir, uid, 0, secrets, copies, agent.hidden)
        if found.left_out or len(found.files) < len(files):
            why = found.left_out[0] if found.left_out else f"not all of them are files below {workdir}"
            hint = "Name files below your directory."
            raise InvalidInput(f"The files cannot be sent: {why}.", value=files, field="files", hint=hint)
        return orjson.dumps(found.files).decode()


_MAX_MESSAGE, _MAX_TITLE, _MAX_PATH = 32_000, 200, 1_000


class _Speaker(NamedTuple):
    run: RunRecord
    definition: ScheduleDefinition
    agent: Agent
    policies: Policies
    key: str
    host: str | None
    """The machine of the run."""


def _sent_before(transaction: Transaction, speaker: _Speaker) -> tuple[int, int, int]:
    """The run whose messages are counted, how many it has sent, and how many it may send. Raises after the last."""
    whole = speaker.run.id if speaker.run.parent is None else speaker.run.parent
    sent = max((row.number for row in transaction.answers_of(whole)), default=0)
    most = speaker.policies.rules_for(speaker.agent.name).max_messages
    if sent >= most:
        message = f"This run has sent {sent} of at most {most} messages." if most else "Agents may not send."
        hint = "Put the rest into your answer. The owner can allow more: agent_rules, max_messages."
        raise NotAllowed(message, field="max_messages", hint=hint)
    return whole, sent, most


def _left(limit: SpendingLimit) -> LimitLeft:
    money = None if limit.money is None else format_money(max(0, limit.money))
    return LimitLeft(limit.of, money, None if limit.tokens is None else max(0, limit.tokens))
