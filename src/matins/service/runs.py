"""Use cases on runs."""

from __future__ import annotations

import uuid
from typing import Any

from matins.engine.gates import Candidate, Facts, Verdict, judge
from matins.engine.planning import Birth
from matins.engine.transitions import BORN, FAIL, LOSE, RETRY, SUCCEED
from matins.errors import Conflict, InvalidInput
from matins.model.principal import Principal
from matins.model.records import NewEvent
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule
from matins.ports import Transaction
from matins.runtime import spending
from matins.runtime.births import new_run
from matins.runtime.catalog import Known
from matins.runtime.planner import live_runs
from matins.runtime.recorder import Change, apply, end_runs
from matins.runtime.rows import run_of
from matins.service.base import UseCases
from matins.service.rights import check_hand, check_own, needs
from matins.work.base import from_dict, open_source

_NEWEST = 1 << 62
_ENDS = {"succeeded": SUCCEED, "failed": FAIL, "unknown": LOSE, "retry": RETRY}


class Runs(UseCases):
    @needs("run")
    def run(self, principal: Principal, name: str, key: str | None = None, agent: str | None = None) -> Run:
        """Start it now, once per key: the same key gives the run that exists. Quiet hours and the schedule's end do not
        hold for what a person starts by hand; every other gate does. An agent starts nothing that is over."""
        now = self._clock.now_ms()
        key = _checked_key(key)
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)  # overlap and the key are decided under the lock
            check_hand(principal, schedule)
            _refuse_unapproved(schedule)
            if not principal.human:
                _refuse_over(schedule)
            existing = transaction.run_by_request(schedule.id, key)
            if existing is not None:
                return self._run(transaction, existing)
            known, held = self._known(transaction, schedule), schedule.state in ("paused", "broken")
            run_id = self._start(transaction, principal, known, key, now, held=held)
            run = self._run(transaction, run_id)
        self._changed()
        return run

    def _start(
        self, transaction: Transaction, principal: Principal, known: Known, key: str, now: int, *, held: bool
    ) -> int:
        verdict = self._verdict(transaction, principal, known, now)
        if held and (verdict is None or verdict.state is RunState.QUEUED):  # it goes on when its schedule does
            verdict = Verdict(RunState.PARKED, "paused", cancel=() if verdict is None else verdict.cancel)
        by = {"by": {"name": principal.name, "role": principal.role}}
        birth = Birth(None, None, 1, RunState.READY, None, by)
        if verdict is not None:
            evidence = {**(verdict.evidence or {}), **by}
            birth = Birth(None, None, 1, verdict.state, verdict.reason, evidence, verdict.until)
        (run_id,) = transaction.run_ids(1)
        transaction.insert_runs([new_run(run_id, known, birth, now, key)])
        if verdict is not None and verdict.cancel:
            end_runs(transaction, self._catalog, verdict.cancel, now, "cancelled_by_newer")
        data = {"by": principal.name, "reason": birth.reason}
        transaction.events.append(NewEvent(now, BORN[birth.state], known.schedule_id, run_id, data))
        return run_id

    def _verdict(self, transaction: Transaction, principal: Principal, known: Known, now: int) -> Verdict | None:
        policies = self._catalog.policies(transaction)
        live = live_runs(transaction, [known.schedule_id]).get(known.schedule_id, [])
        words = known.definition
        if principal.human and words.quiet_hours is not None and words.overlap != "cancel_other":
            # What sleeps is in nobody's way; where the newer one wins, it ends.
            asleep = {row.id for row in transaction.parked_for("quiet_hours")}
            live = [(run, state) for run, state in live if run not in asleep]
        short = spending.forecast(transaction, policies, known, now)
        facts = Facts(live, False, known.agent, policies, short, manual=principal.human)
        return judge(Candidate(known.definition, None, facts, 0, False, now))

    @needs("run")
    def cancel(self, principal: Principal, run_id: int, reason: str = "cancelled") -> Run:
        """End a run: at once when it has not started, otherwise as soon as its worker has ended it."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            run = self._run(transaction, run_id)
            check_own(principal, self._schedule(transaction, run.schedule_id))
            if not run.state.live:
                raise Conflict(f"Run {run_id} is over: {run.state.word}", value=run_id, field="run")
            end_runs(transaction, self._catalog, [run_id], now, reason, principal.name)
            run = self._run(transaction, run_id)
        self._changed()
        return run

    @needs("operate")
    def resolve(self, principal: Principal, run_id: int, end: str) -> Run:
        """Say what became of a run that is held because nobody knows: succeeded, failed, unknown, or retry it."""
        if end not in _ENDS:
            allowed = ", ".join(_ENDS)
            raise InvalidInput(f'"{end}" is no end', value=end, field="end", allowed=allowed, hint=f"one of: {allowed}")
        now = self._clock.now_ms()
        self._tell_source(run_id, end, principal.name, now)
        with self._store.transaction(now) as transaction:
            run, known = self._held(transaction, run_id)
            transition = _ENDS[end]
            not_before = now if transition is RETRY else None
            reason = f"resolved_by_{principal.name}"
            apply(transaction, [Change(run.id, run.epoch, run.slot, known, transition, now, not_before, reason)], now)
            run = self._run(transaction, run_id)
        self._changed()
        return run

    def _held(self, transaction: Transaction, run_id: int) -> tuple[Run, Known]:
        run = self._run(transaction, run_id)
        if run.state is not RunState.HELD:
            raise Conflict(f"Run {run_id} is not held: {run.state.word}", value=run_id, field="run")
        known = self._catalog.get(transaction, [(run.schedule_id, run.rev)])[run.schedule_id, run.rev]
        if not isinstance(known, Known):
            raise Conflict(f"What run {run_id} was to do cannot be read: {known}", value=run_id, hint="cancel it")
        return run, known

    def _tell_source(self, run_id: int, end: str, by: str, now: int) -> None:
        """What became of its work item. Before the run ends: a source that does not answer leaves both as they are,
        and may be told again."""
        with self._store.reading() as transaction:
            work = self._held(transaction, run_id)[1].definition.work
            definition = self._catalog.policies(transaction).work.get(work or "")
        if definition is None or end == "retry":
            return
        source, key = open_source(from_dict(definition), self._workdir), f"{self._store.store_id}-{run_id}"
        item = source.held(key, now)
        if item is not None:
            told = source.done if end == "succeeded" else source.failed
            told(item, key, f"Nobody saw how run {run_id} ended; {by} said: {end}.", now)

    @needs("read")
    def get_run(self, principal: Principal, run_id: int) -> Run:
        with self._store.reading() as transaction:
            return self._run(transaction, run_id)

    @needs("read")
    def runs(
        self, principal: Principal, name: str, agent: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[Run]:
        """A schedule's runs, the newest first."""
        with self._store.reading() as transaction:
            schedule = self._find(transaction, name, agent)
            rows = transaction.runs_of(schedule.id, _NEWEST if before is None else before, limit)
        return [run_of(row) for row in rows]

    @needs("read")
    def checks(self, principal: Principal, run_id: int) -> list[dict[str, Any]]:
        """What guards, pre-checks and hooks said about a run, with what they printed."""
        names = ("epoch", "gate", "at", "took_ms", "exit_code", "said", "output")
        with self._store.reading() as transaction:
            self._run(transaction, run_id)
            return [dict(zip(names, row, strict=True)) for row in transaction.checks(run_id)]


def _refuse_unapproved(schedule: Schedule) -> None:
    if schedule.state in ("pending", "rejected"):
        raise Conflict(
            f'"{schedule.name}" is {schedule.state}: nothing of it runs',
            value=schedule.state,
            field="state",
            hint="approve it first" if schedule.state == "pending" else "edit it to ask again",
        )


def _refuse_over(schedule: Schedule) -> None:
    """What an agent may run was approved for so long, and so many times."""
    if schedule.state in ("completed", "expired"):
        raise Conflict(
            f'"{schedule.name}" is over: {schedule.state}', value=schedule.state, field="state", hint="ask the owner"
        )


def _checked_key(key: str | None) -> str:
    if key is None:
        return str(uuid.uuid4())
    if not key or len(key) > 200 or not key.isprintable():
        raise InvalidInput('"key" must be a text of 1 to 200 printable characters', value=key[:60], field="key")
    return key
