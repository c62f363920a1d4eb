"""Between ready and started: `Clearance` sends each run through the gates that are judged then.

`Floors`: the shortest interval between runs that agents made. It counts for a schedule and all that descends from it,
whether a slot, a start, a retry or catch-up makes the run.

`assign_target`: the thread in which a run happens.
"""

from __future__ import annotations

import platform
from typing import Any, Literal

from matins.engine.approvals import needs_approval
from matins.engine.catch_up import grace_of
from matins.engine.gates import BITS, GATES, Candidate, Facts, Mask, Surroundings, Verdict, active_gates, choose, mask
from matins.engine.gates.limits import BUDGET
from matins.engine.jobs import as_scheduled
from matins.engine.placement import SESSION
from matins.engine.policies import AFTER_RUN, BEFORE_RUN, NO_POLICIES, Policies
from matins.engine.targets import (
    BY_SESSION_ID,
    SESSION_GONE,
    Resolved,
    TargetState,
    Wait,
    ends_conversations,
    kept_in,
    resolve_target,
    used_up,
)
from matins.engine.transitions import (
    AFTER_VERDICT,
    BLOCK,
    CHECK,
    DEFER,
    MARK_READY,
    MISS,
    REQUEST_APPROVAL,
    SKIP,
    SUSPEND,
)
from matins.model.access import name_of
from matins.model.agent import FRESH, Agent, Target
from matins.model.policies import Approval
from matins.model.rows import CheckRow, NewEvent, ReadyRun
from matins.model.run import GatesPassed, Thread, ThreadAssignment
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Once
from matins.runtime import approval_requests, spending
from matins.runtime.agent_folders import checkout_of
from matins.runtime.attempt import stored_run_key
from matins.runtime.capacity import GONE_AFTER_MS, Placement, run_needs
from matins.runtime.catalog import NO_LIMITS, CompiledSchedule
from matins.runtime.checks import Check, CheckCommand, CheckedRun, CheckResult, ItemClaim
from matins.runtime.pausing import is_held
from matins.runtime.run_changes import RunChange, apply, event_type
from matins.store.transaction import Transaction

ELSEWHERE = "elsewhere "
"""No name of a node: the session is on another one that runs."""
_TOLERANCE_MS = 1_000
"""A start may be late by this much without delaying the next one."""


class Floors:
    """The starts of one turn, beside those in the store."""

    def __init__(self) -> None:
        self._started: dict[int, int] = {}

    def begin(self) -> None:
        self._started.clear()

    def free_at(self, transaction: Transaction, item: CompiledSchedule, policies: Policies, now: int) -> int:
        """When the next run of this schedule may start: `now`, or later."""
        if item.creator is None or item.step:  # the steps of a run are one run
            return now
        floor = policies.rules_for(name_of(item.creator)).min_interval_ms - _TOLERANCE_MS
        chain = transaction.last_chain_start(item.schedule_id, now - floor, now)
        root = chain.root or item.schedule_id
        last = max(chain.started_at or 0, self._started.get(root, 0))
        if last + floor > now:
            return last + floor
        self._started[root] = now
        return now


_BUSY_MS, _GONE_MS, _MAX_GONE_MS = 2_000, 30_000, 900_000


def assign_target(
    transaction: Transaction, row: ReadyRun, item: CompiledSchedule, default: Target, now: int, lost: str | None = None
) -> bool:
    """Whether the run has a thread now. If not, it waits or is skipped. `lost`: the node that had the session, if it is
    gone."""
    definition = item.definition
    target = definition.target or default
    already, waited = transaction.thread_assignment(row.id), now - row.planned_at
    found = _target_state(transaction, item.agent, target, row.id, already)
    if lost is not None and found.thread is not None:
        if target.kind in ("fresh", "channel"):
            transaction.clear_session(found.thread.id, found.thread.state)
        else:
            found = TargetState(None, session_gone=True)
    place = resolve_target(
        target, found, definition.fallback, definition.final_fallback, waited, definition.fallback_timeout_ms
    )
    if isinstance(place, Resolved):
        if already is None and place.thread is not None and not target.session and ends_conversations(definition):
            place = _continued(transaction, row, definition, place, place.thread)
        if already is not None and place.thread is not None and already.how not in (SESSION_GONE, BY_SESSION_ID):
            place = place._replace(how=already.how)
        if lost is not None:
            place = place._replace(how=f"{place.how} (its conversation was on {lost}, which is gone)")
        thread_id = place.thread.id if place.thread else _open(transaction, item, target, place.how, now)
        transaction.set_thread(thread_id, "running", now)
        transaction.assign_thread(row.id, thread_id, place.how)
        kind, data = event_type(item, "run.thread_assigned"), {"thread": str(thread_id), "how": place.how}
        transaction.events.append(NewEvent(now, kind, item.schedule_id, row.id, data))
        return True
    gone = target.session_name or target.session or target.thread
    note = f'"{item.name}" was skipped: its target {target.kind}{f" {gone}" if gone else ""} no longer exists.'
    evidence = {"target": target.kind, "run": None, "note": note}
    change = RunChange(row.id, row.epoch, row.slot, item, SKIP, now, None, "target_gone", None, evidence)
    if isinstance(place, Wait):
        del evidence["note"]
        evidence["run"] = None if place.run is None else str(place.run)
        delay = _BUSY_MS
        if place.reason != "target_busy":  # later the longer the run has waited, but not after the deadline
            left = max(1, definition.fallback_timeout_ms - waited)
            delay = min(max(_GONE_MS, min(waited // 2, _MAX_GONE_MS)), left)
        change = change._replace(transition=DEFER, reason=place.reason, not_before=now + delay)
        if found.session_gone and lost is None:  # the tool looks for the session again
            transaction.unassign_thread(row.id)
    apply(transaction, [change], now)
    return False


def _continued(
    transaction: Transaction, row: ReadyRun, definition: ScheduleDefinition, place: Resolved, thread: Thread
) -> Resolved:
    """The place of a run whose conversation may have ended: then another one begins in the same thread.

    With `keep`, the prompt of the last run says what to write down; if it did not, that of the next."""
    ended = used_up(definition, *transaction.session_use(thread.id, row.id))
    if definition.keep is None:
        if ended is None:
            return place
        transaction.start_afresh(thread.id, row.id, None)
        return place._replace(how=f"{place.how}: {ended}")
    answer = None if thread.closing_run is None else transaction.answer_in(thread.id, thread.closing_run)
    if answer is not None:
        transaction.start_afresh(thread.id, row.id, kept_in(answer))
        return place._replace(how=f"{place.how}: {ended or 'fresh'}")
    runs, tokens = transaction.session_use(thread.id, row.id)
    if used_up(definition, runs + 1, tokens) is not None:
        transaction.close_conversation(thread.id, row.id)
    return place


def _target_state(
    transaction: Transaction, agent: str, target: Target, run_id: int, already: ThreadAssignment | None
) -> TargetState:
    if already is not None and already.how == SESSION_GONE:
        if target.kind not in ("fresh", "channel"):
            return TargetState(None, session_gone=True)
        transaction.clear_session(already.thread.id, already.thread.state)
    thread = _thread(transaction, agent, target, already)
    busy = None if thread is None else transaction.run_in_thread(thread.id, run_id)
    return TargetState(thread, busy)


def _thread(transaction: Transaction, agent: str, target: Target, already: ThreadAssignment | None) -> Thread | None:
    if already is not None:  # a further attempt continues in the same thread
        return transaction.lock_thread(already.thread.id)
    if target.kind == "channel" and target.channel is not None:
        return transaction.channel_thread(agent, target.channel)
    if target.kind == "session":
        return transaction.session_thread(agent, target.session or target.session_name or "")
    if target.kind != "thread" or not isinstance(target.thread, int):
        return None
    thread = transaction.lock_thread(target.thread)
    # A tool does not know the sessions of other tools.
    return thread if thread is not None and thread.agent == agent else None


def _open(transaction: Transaction, item: CompiledSchedule, target: Target, how: str, now: int) -> int:
    """A new thread; in a channel it continues the channel's session."""
    session, name, host = None, None, None
    if target.kind == "channel" and target.channel is not None:
        session, name, host = transaction.channel_session(item.agent, target.channel)
    elif how == BY_SESSION_ID:
        session, name = target.session, target.session_name
    return transaction.insert_thread(item.agent, target.channel, session, name, host, now)


_MARGIN_MS, _SOON_MS = 20_000, 1_000
_RETRY_MS, _MAX_RETRY_MS = 60_000, 900_000
_TO_START = mask("start", "claim")
_BY_AGENT = 1 << 60
"""Beside the bits of the gates: what agents made has a shortest interval, and the files that were approved."""
_RUNS_FILES = 1 << 61
"""A command runs after it, which no gate starts: its files are checked before the start."""
_ASKING = sum(BITS[gate.name] for gate in GATES if gate.asks) | _BY_AGENT | _RUNS_FILES
_REASONS = {"guard": "guard", "pre_check": "pre_check", "hook": "hook", "file_hook": "hook"}


class Clearance:
    """Sends ready runs through their gates. A run that has passed all of them may be claimed."""

    def __init__(self) -> None:
        self.policies: Policies = NO_POLICIES
        self.guarded = False
        self.node = ""
        self.placement: Placement | None = None
        """The places, where several nodes run; None: conversations are all here."""
        self.gates: Mask = 0
        """The gates that may stop a run of any schedule in this turn."""
        self.capacity = 0
        """How many more checks can start now."""
        self._floors = Floors()
        self._entered: dict[str, int] = {}
        """The checkouts that runs of this turn work in."""
        self._leaves: dict[int, Approval] = {}
        """The approvals of runs that may start in this turn."""
        self.checks: list[Check] = []
        """Checks to start when this turn is committed."""

    def begin(self, policies: Policies, *, guarded: bool, capacity: int) -> None:
        self.capacity = capacity
        if policies is not self.policies or guarded != self.guarded:
            self.policies, self.guarded = policies, guarded
            self.gates = active_gates(Surroundings(policies, guarded))
            if AFTER_RUN in policies.hooks:  # its files are checked before every start
                self.gates |= _RUNS_FILES
        self._floors.begin()
        self._entered.clear()
        self._leaves.clear()

    def take_checks(self) -> list[Check]:
        checks, self.checks = self.checks, []
        return checks

    def gates_to_start(self, item: CompiledSchedule) -> Mask:
        """The gates between ready and started that may stop a run of this schedule; mostly there are none."""
        commands = not item.step and (item.definition.after_run is not None or AFTER_RUN in self.policies.hooks)
        commands = commands or item.definition.command is not None
        of_files = (0 if item.creator is None else _BY_AGENT) | (_RUNS_FILES if commands else 0)
        return (item.gates | self.gates) & item.levels & _TO_START | of_files

    def asks(self, item: CompiledSchedule) -> bool:
        """Whether code, a command, a person or a record must be asked before a run of this schedule starts."""
        return bool(self.gates_to_start(item) & _ASKING)

    def may_start(self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int) -> bool:
        """Whether the run may start now. If not, it has been sent to its next gate."""
        gates = self.gates_to_start(item)
        if not gates:
            return True
        files = approval_requests.command_files(item, self.policies)
        # The scripts of commands are those that a person set or approved, before a check runs one of them.
        changed = approval_requests.changed_files(transaction, item, self.policies, files)
        if changed and not self._is_approved(transaction, row, item, now, {"changed": changed}):
            return False
        called = row.slot is None and transaction.is_called(row.id)
        manual = row.slot is None and not called
        facts = Facts((), False, item.agent, self.policies, manual=manual, called=called, guarded=self.guarded)
        candidate = Candidate(item.definition, row.slot, facts, 0, True, now)
        verdicts = (gate.judge(candidate) for gate in choose("start", gates))
        if not all(
            verdict is None or self._answered(transaction, row, item, verdict, now, files) for verdict in verdicts
        ):
            return False
        free_at = self._floors.free_at(transaction, item, self.policies, now)
        if free_at > now:  # the chain of an agent's schedule may not have a run before
            transaction.defer_run(row.id, row.epoch, free_at)
        return free_at <= now

    def _answered(
        self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, verdict: Verdict, now: int,
        files: dict[str, str],
    ) -> bool:  # fmt: skip
        """Whether the run passes this gate: its check, approval or target is settled. If not, the run waits or ends."""
        match verdict.reason:
            case "checking":
                return self._checked(transaction, row, item, now, files)
            case "awaiting_approval":
                return self._is_approved(transaction, row, item, now)
            case "waiting_for_target":
                agent = self.policies.agents.get(item.agent)
                target = agent.target if agent else FRESH
                lost = None if agent is None else self._lost_host(transaction, row, item, agent, now)
                return lost != ELSEWHERE and assign_target(transaction, row, item, target, now, lost)
            case "checkout_busy":
                return self._enters_checkout(transaction, row, item, now)
            case _:
                return _refused(transaction, row, item, verdict, now)

    def _lost_host(
        self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, agent: Agent, now: int
    ) -> str | None:
        """None if this node has the session of the run's conversation, or there is none. The node that had it, if that
        is gone. ELSEWHERE if it runs: then the run has moved there."""
        target = item.definition.target or agent.target
        if self.placement is None or agent.session_store == "shared":
            return None
        thread = _thread(transaction, item.agent, target, transaction.thread_assignment(row.id))
        if thread is None or thread.session is None or thread.host in (None, self.node):
            return None
        if transaction.is_live_node(thread.host, now - GONE_AFTER_MS) is None:
            return thread.host
        needs = {need for need in run_needs(transaction, row.id) if not need.startswith(SESSION)}
        place = self.placement.number(transaction, frozenset([*needs, f"{SESSION}{thread.host}"]))
        transaction.set_place(row.id, place)
        return ELSEWHERE

    def _enters_checkout(self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int) -> bool:
        """Whether no other run works in the git checkout of the agent. If one does, the run waits."""
        agent = self.policies.agents.get(item.agent)
        woken = None if agent is None else as_scheduled(agent, item.definition)
        folder = None if woken is None else checkout_of(woken, self.policies.workdir or "")
        if folder is None:
            return True
        host = platform.node()
        last = transaction.lock_checkout(host, folder, row.id)
        # A statement of its own: after the lock it sees what the run's engine has committed.
        busy = self._entered.get(folder) or (last if last != row.id and transaction.is_running(last) else None)
        if busy is None:
            transaction.set_checkout(host, folder, row.id)
            self._entered[folder] = row.id
            return True
        evidence = {"run": str(busy), "checkout": folder}
        apply(transaction, [_change(row, item, DEFER, now, "checkout_busy", now + _BUSY_MS, evidence)], now)
        return False

    def reserve_budget(self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int) -> bool:
        """Reserve the cost of the run in every budget. If one is too small, return False; the run ends or waits."""
        if not self.gates & item.levels & BITS[BUDGET.name] and item.run_limits == NO_LIMITS:
            return True
        lacking = spending.reserve(transaction, self.policies, item, row.id, now)
        verdict = BUDGET.judge(Candidate(item.definition, row.slot, Facts(shortage=lacking), 0, True, now))
        return verdict is None or _refused(transaction, row, item, verdict, now)

    def _commands(self, item: CompiledSchedule) -> tuple[CheckCommand, ...]:
        definition, found = item.definition, list[CheckCommand]()
        if definition.pre_check is not None:
            found.append(CheckCommand("pre_check", definition.pre_check, definition.check_timeout_ms))
        if (hook := self.policies.hooks.get(BEFORE_RUN)) is not None:
            found.append(CheckCommand("file_hook", hook.command, hook.timeout_ms))
        if definition.before_run is not None:
            found.append(CheckCommand("hook", definition.before_run, definition.check_timeout_ms))
        return tuple(found)

    def _checked(
        self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int, files: dict[str, str]
    ) -> bool:
        """Whether the run has passed its checks. If not, all of them are queued to start, with the files as they are
        now: if one changes until its check starts, the check does not run."""
        if row.cleared & GatesPassed.CHECKED:
            return True
        if self.capacity <= 0:  # deferred, so that runs without checks can start
            transaction.defer_run(row.id, row.epoch, now + _SOON_MS)
            return False
        self.capacity -= 1
        commands = self._commands(item)
        last_run = transaction.last_started(item.schedule_id, row.id)
        context = _context(row, item, now, last_run)
        check = Check(row.id, row.epoch + 1, row.slot, item, self.policies, commands, context, last_run, files)
        # If this process dies without a verdict, another one checks the run again.
        deadline = now + check.max_duration_ms + _MARGIN_MS
        change = _change(row, item, CHECK, now, "checking", deadline)._replace(renewed=True)
        if apply(transaction, [change], now):
            self.checks.append(check)
        return False

    def _is_approved(
        self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int,
        evidence: dict[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        # An approval is for the present settings, and not expired at the first attempt.
        for approval in transaction.approvals_of_run(row.id) if row.cleared & GatesPassed.APPROVED else ():
            fresh = now <= (approval.decided_at or 0) + item.definition.approval_timeout_ms
            good = approval.state in ("approved", "used") if fresh else approval.state == "used" and row.attempt > 0
            if good and approval.kind == "run" and approval_requests.is_for(approval, item, self.policies):
                self._leaves[row.id] = approval
                return True
        if approval_requests.takes_work(item):
            self._claim_item(transaction, row, item, now, evidence or {})
        elif apply(transaction, [_change(row, item, REQUEST_APPROVAL, now, "awaiting_approval", None, evidence)], now):
            approval_requests.request_run_approval(transaction, item, self.policies, row.id, row.slot, now)
        return False

    def _claim_item(
        self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int, evidence: dict[str, Any]
    ) -> None:
        """Queue the claim of a work item, with which approval is requested. It is a request to a file or a server."""
        if self.capacity <= 0:
            transaction.defer_run(row.id, row.epoch, now + _SOON_MS)
            return
        self.capacity -= 1
        shown = [asked.request.get("work_item") for asked in transaction.approvals_of_run(row.id)]
        former = next((found["source"] for found in shown if found), None)
        key = stored_run_key(transaction, item, row.id)
        claim = ItemClaim(key, former, tuple(evidence.get("changed", ())))
        check = Check(row.id, row.epoch + 1, row.slot, item, self.policies, (), {}, None, {}, claim)
        deadline = now + check.max_duration_ms + _MARGIN_MS
        change = _change(row, item, CHECK, now, "checking", deadline)._replace(renewed=True)
        if apply(transaction, [change], now):
            self.checks.append(check)

    def consume_approval(self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int) -> None:
        """Mark the approval of a claimed run as used. Until then, a change of the agent voids it and it can expire."""
        leave = self._leaves.pop(row.id, None)  # not looked for again: a file may change from one look to the next
        assert leave is not None or not needs_approval(item.definition), row
        if leave is not None and transaction.set_approval_state(leave.id, "approved", "used", now):
            data = {"approval": str(leave.id), "digest": leave.digest}
            transaction.events.append(NewEvent(now, "approval.used", item.schedule_id, row.id, data))


def record_checks(transaction: Transaction, checked: list[CheckedRun], now: int) -> None:
    """Record the verdicts, and let the run continue or end."""
    for item in checked:
        check, against = item.check, item.refusal
        for result in item.results:
            row = CheckRow(
                check.run_id,
                check.epoch,
                result.kind,
                now,
                result.duration_ms,
                result.exit_code,
                result.verdict,
                result.reason,
                result.output,
            )
            transaction.insert_check(row)
        # A new epoch, so that a verdict is used once, even if the result of this commit is lost.
        change = RunChange(
            check.run_id,
            check.epoch,
            check.slot,
            check.compiled,
            MARK_READY,
            now,
            now,
            cleared=GatesPassed.CHECKED,
            renewed=True,
        )
        if check.claim is not None:
            _record_claim(transaction, item, check.claim, change, now)
            continue
        if against is not None and against.verdict == "changed":  # the run passes its gates again, and waits there
            change = change._replace(cleared=0)
        elif against is not None:
            change = _check_refused(change, against, now)
        elif is_held(transaction, check.compiled.schedule_id):
            change = change._replace(transition=SUSPEND, reason="paused")
        apply(transaction, [change], now)


def _record_claim(transaction: Transaction, found: CheckedRun, claim: ItemClaim, change: RunChange, now: int) -> None:
    """Request approval with the claimed item. A run without work is skipped without a request."""
    change = change._replace(cleared=0)
    if found.refusal is not None and found.refusal.verdict == "again":
        return  # the source is asked again at the deadline
    if found.refusal is not None:
        evidence = {"work_source": change.compiled.definition.work_source}
        apply(
            transaction, [change._replace(transition=SKIP, not_before=None, reason="no_work", evidence=evidence)], now
        )
    elif is_held(transaction, change.compiled.schedule_id):
        apply(transaction, [change._replace(transition=SUSPEND, reason="paused")], now)
    else:
        evidence = {"changed": list(claim.changed)} if claim.changed else None
        change = change._replace(transition=REQUEST_APPROVAL, not_before=None, reason="awaiting_approval")
        if apply(transaction, [change._replace(evidence=evidence)], now):
            approval_requests.request_run_approval(
                transaction, change.compiled, found.check.policies, change.run_id, change.slot, now, found.item
            )


def _check_refused(change: RunChange, result: CheckResult, now: int) -> RunChange:
    """The change for a failed check. A one-shot is retried until its grace ends; others continue at the next slot."""
    reason = _REASONS[result.kind]
    evidence: dict[str, Any] = {"gate": result.kind, "message": result.reason}
    if result.exit_code is not None:
        evidence["exit_code"] = result.exit_code
    change = change._replace(reason=reason, evidence=evidence, cleared=0, not_before=None)
    definition, slot = change.compiled.definition, change.slot
    if slot is None or not isinstance(definition.trigger.when, Once):
        return change._replace(transition=BLOCK if result.verdict == "block" else SKIP)
    again = now + min(max(_RETRY_MS, (now - slot) // 2), _MAX_RETRY_MS)
    if again <= slot + grace_of(definition, slot, None):
        return change._replace(transition=DEFER, not_before=again)
    return change._replace(transition=MISS)


def _refused(
    transaction: Transaction, row: ReadyRun, item: CompiledSchedule, verdict: Verdict, now: int
) -> Literal[False]:
    transition = AFTER_VERDICT[verdict.state]
    apply(transaction, [_change(row, item, transition, now, verdict.reason, verdict.until, verdict.evidence)], now)
    return False


def _change(
    row: ReadyRun, item: CompiledSchedule, transition: Any, now: int, reason: str, until: int | None,
    evidence: dict[str, Any] | None = None,
) -> RunChange:  # fmt: skip
    return RunChange(row.id, row.epoch, row.slot, item, transition, now, until, reason, None, evidence)


def _context(row: ReadyRun, item: CompiledSchedule, now: int, last_run: int | None) -> dict[str, Any]:
    """The input of a hook, as JSON on its standard input."""
    return {
        "event": BEFORE_RUN,
        "schedule": item.name,
        "schedule_id": str(item.schedule_id),
        "agent": item.agent,
        "run_id": str(row.id),
        "slot": row.slot,
        "now": now,
        "last_run": last_run,
        "attempt": row.attempt + 1,
        "job": item.definition.job,
        "payload": item.definition.payload,
        "input": item.input,
    }
