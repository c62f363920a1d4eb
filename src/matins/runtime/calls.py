"""Calls: one way in from outside. A call and its runs are written in one transaction, once per key."""

from __future__ import annotations

from typing import NamedTuple

from matins.engine.calls import MAX_HOPS, Match, listening, match_call
from matins.engine.gates import ALL, BITS, Candidate, Facts, Verdict, judge
from matins.engine.gates.state import ENDED, PAUSED
from matins.engine.when.durations import DAY_MS
from matins.model.access import name_of, signed
from matins.model.call import ANY_CHANNEL, Call, CallOutcome
from matins.model.rows import NewEvent
from matins.model.run import RunState
from matins.model.schedule import ScheduleRecord
from matins.runtime import spending
from matins.runtime.catalog import Catalog, CompiledSchedule, schedule_record
from matins.runtime.planner import NO_RUNS, insert_requested_run, met_runs
from matins.store.transaction import Transaction

DEBOUNCING = "debouncing"
MAX_DEBOUNCED = 10
"""A run waits again after each of this many calls. Further calls join it until it starts."""
SIGNED_MS = DAY_MS
"""How long a call is known by what was signed. Keys are known for as long as calls are kept."""
_NOT_LISTENING = ("pending", "rejected", "removed")
_AT_ONCE = BITS[PAUSED.name] | BITS[ENDED.name]
"""The gates that are judged before a run waits for further calls. The others are judged after the wait."""
_PREFIXES = {"webhook": "in", "chat": "chat"}


class Fired(NamedTuple):
    """The effect of a call."""

    call_id: int
    duplicate: bool


def fire(
    transaction: Transaction, catalog: Catalog, call: Call, now: int, by: str, ignored: str | None = None
) -> Fired:
    """Record the call, and a run for each schedule that it concerns. A known key changes nothing. The same
    signed content within a day changes nothing either: a repeat may have another key.

    `by` is who fired it. `ignored` is the reason why the call concerns no schedule, if that is known before.
    """
    first = None if call.signed is None else transaction.claim_signed(call, now, now - SIGNED_MS)
    call_id = transaction.insert_call(call, now) if first is None else None
    if call_id is None:  # another transaction with this key, or with what was signed, has committed
        known = transaction.call_by_key(call.source, call.name, first or call.key)
        assert known is not None, call.key
        return Fired(known.id, True)
    reasons = [ignored] if ignored else []
    runs: list[int] = []
    if call.hops > MAX_HOPS:
        reasons = [f"The chain of calls has more than {MAX_HOPS} schedules."]
    for listener in [] if reasons else _listening(transaction, call):
        answer = _Reply(transaction, catalog, call, call_id, listener, now).answer()
        if isinstance(answer, str):
            reasons.append(f"{listener.name}: {answer}")
        else:
            runs.append(answer)
    outcome: CallOutcome = "accepted" if runs else "ignored"
    reason = None if runs else " ".join(reasons)[:500] or "No schedule listens to this call."
    transaction.set_call_outcome(call_id, outcome, reason)
    data = {"call": str(call_id), "source": call.source, "name": call.name, "key": call.key, "outcome": outcome,
            "reason": reason, "runs": [str(run) for run in runs], **signed(by)}  # fmt: skip
    transaction.events.append(NewEvent(now, "call.received", None, None, data))
    return Fired(call_id, False)


def _listening(transaction: Transaction, call: Call) -> list[ScheduleRecord]:
    """The schedules that listen to the call, with their cursors locked."""
    agent, _, name = call.name.partition("/") if call.source == "schedule" else ("", "", call.name)
    names = (name, ANY_CHANNEL) if call.source == "chat" else (name,)
    ids = sorted({number for one in names for number in transaction.listeners(call.source, one, agent)})
    if not ids:
        return []
    transaction.lock_due(ids)
    rows = [transaction.schedule(number) for number in ids]  # read after the lock
    found = [schedule_record(row) for row in rows if row is not None]
    return [schedule for schedule in found if schedule.state not in _NOT_LISTENING]


class _Reply(NamedTuple):
    """A schedule's reply to a call."""

    transaction: Transaction
    catalog: Catalog
    call: Call
    call_id: int
    schedule: ScheduleRecord
    now: int

    def answer(self) -> int | str:
        """The run of the call, or why the call does not concern the schedule."""
        transaction, schedule = self.transaction, self.schedule
        compiled = self.catalog.find(transaction, (schedule.id, schedule.rev, 0))
        if not isinstance(compiled, CompiledSchedule):
            return f"Its settings cannot be read: {compiled}"
        match = self._match(compiled)
        if isinstance(match, str):
            return match
        call = self.call
        key = f"after:{call.key}" if call.source == "schedule" else f"{_PREFIXES[call.source]}:{call.name}:{call.key}"
        run_id = transaction.run_by_request(schedule.id, key)  # of a call that is no longer kept
        if run_id is None:
            run_id = self._joined(match) or self._started(compiled, match, key)
        transaction.link_call(self.call_id, run_id, match.group)
        return run_id

    def _match(self, compiled: CompiledSchedule) -> Match | str:
        reasons: list[str] = []
        for trigger in compiled.definition.on:
            source, name = listening(trigger)
            if source == self.call.source and (source == "schedule" or name in (self.call.name, ANY_CHANNEL)):
                match = match_call(trigger, self.call)
                if isinstance(match, Match):
                    return match
                reasons.append(match)
        return " ".join(reasons) or "It listens no longer."

    def _joined(self, match: Match) -> int | None:
        """The run that waits for further calls, and now has this one too."""
        if match.group is None:
            return None
        run_id = self.transaction.debouncing_run(self.schedule.id, match.group)
        until = self.now + match.debounce_ms
        joined = run_id is not None and self.transaction.debounce_run(run_id, until, MAX_DEBOUNCED)
        return run_id if joined else None

    def _started(self, compiled: CompiledSchedule, match: Match, key: str) -> int:
        verdict = self._verdict(compiled, _AT_ONCE if match.debounce_ms else ALL)
        if verdict is None and match.debounce_ms:
            verdict = Verdict(RunState.WAITING, DEBOUNCING, {}, until=self.now + match.debounce_ms)
        by = {"kind": self.call.source, "name": self.call.name, "call": str(self.call_id)}
        run_id = insert_requested_run(self.transaction, self.catalog, compiled, verdict, key, by, self.now)
        if verdict is None or verdict.state < RunState.SUCCEEDED:
            self.transaction.count_execution(self.schedule.id)
        return run_id

    def _verdict(self, compiled: CompiledSchedule, gates: int) -> Verdict | None:
        transaction, schedule, now = self.transaction, self.schedule, self.now
        policies = self.catalog.policies(transaction)
        if schedule.creator_role == "agent":
            least = policies.rules_for(name_of(schedule.created_by)).min_interval_ms
            last = transaction.last_planned(schedule.id, now - least)
            if last is not None:
                return Verdict(RunState.SKIPPED, "min_interval", {"until": last + least})
        live, backfill = met_runs(transaction, [schedule.id]).get(schedule.id, NO_RUNS)
        short = spending.expected_charge(transaction, policies, compiled, now)
        stopped = schedule.state in ("paused", "broken")
        facts = Facts(live, False, compiled.agent, policies, short, called=True, paused=stopped, backfill=backfill)
        return judge(
            Candidate(compiled.definition, None, facts, schedule.executions, False, now), gates & compiled.levels
        )
