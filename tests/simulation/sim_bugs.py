"""Bugs to plant: each is a change that a hasty hand could make, and that the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from matins.engine import gates, planning, steps
from matins.engine.gates import BITS, quiet_hours
from matins.model.policies import BudgetUsage
from matins.model.run import Usage
from matins.model.schedule import ScheduleDefinition
from matins.runtime import approval_requests, catalog, pausing, run_changes, spending
from matins.runtime.capacity import BoundedCapacity, Placement
from matins.runtime.checks import CheckedRun
from matins.runtime.clearance import Clearance
from matins.runtime.engine import Engine
from matins.runtime.recorder import Reaper
from matins.service import approvals, proposals
from matins.store.sqlite.transaction import SQL, SqliteTransaction

Planted = AbstractContextManager[Any]


@contextmanager
def _sql(name: str, old: str, new: str) -> Generator[None]:
    """One statement, otherwise as it is."""
    assert old in SQL[name], f"{name} no longer says {old!r}: plant this bug anew"
    with patch.dict(SQL, {name: SQL[name].replace(old, new)}):
        yield


def no_epoch_check() -> Planted:
    """Outcomes are taken from whoever brings them."""
    return _sql("change_states", "epoch = ?2", "?2 = ?2")


def cursor_before_records() -> Planted:
    """The cursor is made durable before the records of the slots that it passes."""
    advance = SqliteTransaction.advance

    def early(self: SqliteTransaction, cursors: Any) -> set[int]:
        moved = advance(self, cursors)
        self._connection.execute("COMMIT")
        self._connection.execute("BEGIN IMMEDIATE")
        return moved

    return patch.object(SqliteTransaction, "advance", early)


def start_before_commit() -> Planted:
    """Runs are handed over while their attempts are not durable yet."""
    transact = Engine._transact

    def hasty(self: Engine, now: int) -> Any:
        plan = self.planner.plan

        def plan_and_start(*arguments: Any) -> Any:
            planned = plan(*arguments)
            self.executor.submit(planned.start)
            return planned._replace(start=[])

        with patch.object(self.planner, "plan", plan_and_start):
            return transact(self, now)

    return patch.object(Engine, "_transact", hasty)


def permits_kept() -> Planted:
    """Runs that are over keep their permits."""
    return patch.object(SqliteTransaction, "release_permits", lambda self, run_ids: None)


def permit_taken_twice() -> Planted:
    """A permit is taken whether it is free or not."""
    return _sql("take_permits", " AND run_id IS NULL)", ")")


def promoted_past_others() -> Planted:
    """A queued run is promoted whatever else is live."""
    return _sql("promote", "o.state > 1 AND", "o.state > 1 AND 0 AND")


def window_forgotten() -> Planted:
    """Each tick grants a missed window its cap anew."""
    return _sql("advance", "window_used = ?6", "window_used = 0 * ?6")


@contextmanager
def lost_answer_ignored() -> Generator[None]:
    """What was claimed in a commit whose answer was lost is forgotten, and nobody compares store and executor."""
    forgotten = patch.object(Engine, "_still_ours", lambda self, transaction, claimed: [])
    with forgotten, patch.object(Reaper, "_check_runs", lambda self, now, executor: None):
        yield


def never_comes_back() -> Planted:
    """Whom others took for dead stays so, although it lives."""
    return patch.object(Engine, "_enlist_again", lambda self, now: None)


def history_overlooked() -> Planted:
    """After the clock went back, slots that have their records are planned again."""
    return patch.object(SqliteTransaction, "covered", lambda self, schedule_id, since: [])


# -- steps


def first_of_several_is_enough() -> Planted:
    """A step starts when one of those that it waits for has succeeded."""
    advance = steps.advance

    def early(after: Any, states: Any) -> Any:
        following = advance(after, states)
        may = {n for n, s in states.items() if s.pending and any(steps._succeeded(states[m]) for m in after[n - 1])}
        return following._replace(ready=tuple(sorted(may - following.skipped.keys())))

    return patch.object(run_changes, "advance", early)


def all_steps_at_once() -> Planted:
    """No step waits for another when a run unfolds."""
    return patch.object(run_changes, "_waiting", lambda step: step)


def dependants_left_behind() -> Planted:
    """What waits for a step that did not succeed waits for ever."""
    return patch.object(run_changes, "_skipped", _nothing)


def joined_too_early() -> Planted:
    """A run is over as soon as one of its steps has failed."""
    outcome = steps._outcome
    return patch.object(
        steps, "_outcome", lambda states: steps.RunState.FAILED if steps.RunState.FAILED in states else outcome(states)
    )


def former_rounds_count() -> Planted:
    """The steps of former rounds count as those of the last."""
    return _sql("steps_of", "AND r.round = (SELECT max(round)", "AND r.round = (SELECT min(round)")


def only_the_run_is_cancelled() -> Planted:
    """Who cancels a run leaves its steps alone."""
    return patch.object(SqliteTransaction, "live_steps", lambda self, run_ids: [])


@contextmanager
def hold_ignored_by_steps() -> Generator[None]:
    """A step without a word of its own does not hear that its schedule holds what is unknown."""
    of_step = catalog.of_step

    def deaf(definition: ScheduleDefinition, number: int) -> ScheduleDefinition:
        own = definition.steps[number - 1].on_unknown
        return replace(of_step(definition, number), on_unknown=own)

    catalog._remembered.cache_clear()  # compiled settings are shared, also with worlds that have no bug
    with patch.object(catalog, "of_step", deaf):
        yield
    catalog._remembered.cache_clear()


def _nothing(row: Any, item: Any, whole: Any, other: int, now: int) -> Any:
    """A change that nobody can make: of an epoch that never was."""
    return run_changes.RunChange(row.id, -1, None, item, run_changes.SKIP, now)


# -- gates


def nobody_asked() -> Planted:
    """What needs approval is claimed like everything else."""
    return patch.multiple(Clearance, _is_approved=lambda *arguments: True, consume_approval=lambda *arguments: None)


def leave_used_early() -> Planted:
    """Leave is used when it is looked at, whether the run finds a place or not."""
    approved = Clearance._is_approved

    def hasty(self: Clearance, transaction: Any, row: Any, item: Any, now: int) -> bool:
        good = approved(self, transaction, row, item, now)
        if good:
            self.consume_approval(transaction, row, item, now)
        return good

    return patch.object(Clearance, "_is_approved", hasty)


def question_never_put() -> Planted:
    """A run waits for people whom nobody has asked."""
    return patch.object(approval_requests, "request_run_approval", lambda *arguments: 0)


def one_vote_is_enough() -> Planted:
    """The first vote decides, however many are needed."""
    return patch.object(approvals, "tally", lambda approval: "approved")


def anybody_may_answer() -> Planted:
    """Who may vote at all may vote on everything."""
    return patch.object(approvals, "refusal_reason", lambda approval, principal: None)


def agents_do_as_they_please() -> Planted:
    """What an agent adds is active at once."""
    return patch.object(proposals, "needs_no_approval", lambda *arguments, **options: True)


def pause_half_done() -> Planted:
    """A schedule that is paused makes no more runs, but those that it has start."""
    return patch.object(SqliteTransaction, "suspend_runs", lambda self, schedule_id: [])


def unchecked() -> Planted:
    """Nobody is sent to a pre-check or a hook."""
    return patch.object(Clearance, "_checked", lambda *arguments: True)


def any_verdict_clears() -> Planted:
    """A check that was made is taken for one that was passed."""
    return patch.object(CheckedRun, "refusal", None)


def verdict_taken_twice() -> Planted:
    """A verdict, and whatever comes after it, go by the epoch of the check."""
    return _sql("change_states", "epoch = epoch + ?12", "epoch = epoch + 0 * ?12")


def throttle_ignored() -> Planted:
    """A provider's limit holds for what is planned, but not for what is ready."""
    answered = Clearance._answered

    def unheard(self: Clearance, transaction: Any, row: Any, item: Any, verdict: Any, now: int) -> bool:
        return verdict.reason == "throttled" or answered(self, transaction, row, item, verdict, now)

    return patch.object(Clearance, "_answered", unheard)


def quiet_hours_ignored() -> Planted:
    """Nobody keeps quiet."""
    return patch.object(quiet_hours, "quiet_until", lambda policy, at_ms: None)


def hooks_left_out() -> Planted:
    """By the mask of a turn, the hook of all schedules stops no run."""
    return _left_out("_ACTIVE", "hook")


def overlap_left_out() -> Planted:
    """By the mask of a run, no other is in its way."""
    return _left_out("_TOUCHED", "overlap")


def _left_out(predicates: str, gate: str) -> Planted:
    kept = [(bit, predicate) for bit, predicate in getattr(gates, predicates) if bit != BITS[gate]]
    return patch.object(gates, predicates, kept)


def quiet_slots_made_up() -> Planted:
    """What nobody was there for is made up for, also where it would have been skipped."""
    return patch.object(planning, "skipping_hours", lambda definition, policies: None)


def budget_ignored() -> Planted:
    """There is always room in a purse."""
    return patch.object(spending, "shortage", lambda *arguments: None)


def nothing_given_back() -> Planted:
    """What was set aside for a run stays so when it is over."""
    return patch.object(SqliteTransaction, "take_reservations", lambda self, run_id: [])


def spent_twice() -> Planted:
    """What a run spent is written down where it was set aside, and once more."""
    settled = spending._settle

    def twice(transaction: Any, policies: Any, spender: Any, held: Any, now: int) -> None:
        settled(transaction, policies, spender, held, now)
        usage = spender.usage or Usage()
        for purse in held:
            transaction.add_budget_usage(BudgetUsage(*purse[:3], usage.money, usage.tokens, 0, 0))

    return patch.object(spending, "_settle", twice)


def never_woken() -> Planted:
    """Nobody looks at what has waited long enough."""
    return patch.object(SqliteTransaction, "waiting_due", lambda self, now, limit: [])


def not_uncounted() -> Planted:
    """What a gate turned down counts as an execution."""
    return patch.object(SqliteTransaction, "uncount_execution", lambda self, schedule_id, run_id: None)


def turned_down_for_good() -> Planted:
    """A schedule whose last execution did not happen has ended all the same."""
    return patch.object(run_changes, "continue_schedule", lambda *arguments: None)


def slot_lost_at_pause() -> Planted:
    """What is due in the moment of an automatic pause has no record."""
    return patch.object(pausing, "_skip_due", lambda transaction, row, slot, now: slot)


def needs_ignored() -> Planted:
    """Engines claim runs whose needs they do not have."""

    def batch(self: Placement, transaction: Any) -> list[int]:
        return sorted({0, *self._needs})

    return patch.object(Placement, "batch", batch)


def maximum_ignored() -> Planted:
    """Nodes take more runs than their maximum."""
    return patch.object(BoundedCapacity, "take", lambda self, item: None)


def _named(*bugs: Callable[[], Planted]) -> dict[str, Callable[[], Planted]]:
    return {bug.__name__: bug for bug in bugs}


CORE_BUGS = _named(
    no_epoch_check,
    cursor_before_records,
    start_before_commit,
    permits_kept,
    permit_taken_twice,
    promoted_past_others,
    window_forgotten,
    lost_answer_ignored,
    never_comes_back,
    history_overlooked,
    needs_ignored,
    maximum_ignored,
)
STEP_BUGS = _named(
    first_of_several_is_enough,
    all_steps_at_once,
    dependants_left_behind,
    joined_too_early,
    former_rounds_count,
    only_the_run_is_cancelled,
    hold_ignored_by_steps,
)
GATE_BUGS = _named(
    nobody_asked,
    leave_used_early,
    question_never_put,
    one_vote_is_enough,
    anybody_may_answer,
    agents_do_as_they_please,
    pause_half_done,
    unchecked,
    any_verdict_clears,
    verdict_taken_twice,
    throttle_ignored,
    quiet_hours_ignored,
    hooks_left_out,
    overlap_left_out,
    quiet_slots_made_up,
    budget_ignored,
    nothing_given_back,
    spent_twice,
    never_woken,
    not_uncounted,
    turned_down_for_good,
    slot_lost_at_pause,
)
BUGS = CORE_BUGS | STEP_BUGS | GATE_BUGS
