"""One sentence for each reason code: the state, a colon, the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from matins.engine.money import format_money, format_tokens, parse_money, parse_tokens
from matins.engine.when.durations import DAY_MS
from matins.engine.when.zones import load_zone
from matins.model.run import RunRecord, RunState

RESOLVED = "resolved_by_"
"""Prefix of a reason code; the rest names who resolved the run."""
_LIVE = {"ready": "about to start"}
_GATES = {
    "guard": "the guard",
    "pre_check": "the pre-check",
    "hook": "the hook",
    "file_hook": "the hook of all schedules",
}


class Tense(NamedTuple):
    """The verbs of a sentence about what happened, what would happen now, or what will happen."""

    was: str
    were: str
    still: str
    had: str
    needed: str
    state: str
    """What comes before "be skipped"."""


PAST = Tense("was", "were", "was still", "had", "needed", "")
NOW = Tense("is", "are", "is still", "has", "needs", "would")
FUTURE = Tense("will be", "will be", "will still be", "will have", "will need", "will")


@dataclass(frozen=True, slots=True)
class Told:
    """The evidence of a sentence, with its time zone and tense."""

    evidence: Mapping[str, Any]
    zone: str
    at: int | None
    """The instant of the sentence. A time less than a day after it has no date."""
    tense: Tense

    def __getitem__(self, key: str) -> Any:
        return self.evidence.get(key)

    def moment(self, key: str) -> str:
        at = self[key]
        return "some time" if at is None else moment(at, self.zone, self.at)

    def run(self, key: str = "run") -> str:
        """Name the run. Run 0 has no number yet: it is created in the same step, or only forecast."""
        number = self[key]
        return f"run {number} of this schedule" if number and number != "0" else "an earlier run of this schedule"

    def because(self, key: str) -> str:
        return f": {str(self[key]).rstrip('.')}" if self[key] else ""


def sentence(
    reason: str,
    evidence: Mapping[str, Any] | None,
    zone: str,
    *,
    state: RunState | None = None,
    at: int | None = None,
    tense: Tense = PAST,
) -> str:
    """The reason as a sentence; with `state`, that comes first: `Skipped: quiet hours "nights" were active until …`."""
    verbs = NOW if tense is PAST and state in (RunState.WAITING, RunState.QUEUED) else tense
    told = Told({"reason": reason, **(evidence or {})}, zone, at, verbs)
    code = RESOLVED if reason.startswith(RESOLVED) else reason
    cause = _CAUSES[code](told) if code in _CAUSES else f'the reason is "{reason}"'
    if state is None or code in _WHOLE:
        return f"{cause[0].upper()}{cause[1:]}."
    many = _many(told) if state is RunState.SKIPPED else ""
    return f"{_prefix(code, state, told, tense)}: {cause}{many}."


def story(run: RunRecord, zone: str) -> str:
    """The state of a run and its reason, in one sentence."""
    evidence = {
        **(run.evidence or {}),
        "attempt": run.attempt,
        "again": run.not_before,
        "error": _last_line(run.outcome),
        "slots": run.slots,
        "first": run.first_slot,
        "last": run.slot,
        "became": "it will be retried" if run.state is RunState.READY else run.state.label,
    }
    if run.reason is not None:
        return sentence(run.reason, evidence, zone, state=run.state, at=run.slot or run.planned_at)
    told = Told(evidence, zone, None, PAST)
    return f"{_PLAIN.get(run.state, _ended)(run, told)}{_many(told)}."


def moment(at: int, zone: str, beside: int | None = None) -> str:
    """`2026-03-28 07:00`, or `07:00` if it is less than a day after `beside`."""
    local = _local(at, zone)
    finer = f"{local:%H:%M}"
    if local.second or local.microsecond:
        finer = f"{local:%H:%M:%S}" + (f".{local.microsecond // 1000:03}" if local.microsecond else "")
    near = beside is not None and 0 <= at - beside < DAY_MS
    return finer if near else f"{local:%Y-%m-%d} {finer}"


def rfc3339(at: int, zone: str = "UTC") -> str:
    """An instant in RFC 3339, with the offset of a zone."""
    text = _local(at, zone).isoformat(timespec="milliseconds" if at % 1000 else "seconds")
    return text.removesuffix("+00:00") + "Z" if zone == "UTC" else text


def _local(at: int, zone: str) -> datetime:
    seconds, rest = divmod(at, 1000)
    return datetime.fromtimestamp(seconds, load_zone(zone).info).replace(microsecond=rest * 1000)


def _last_line(outcome: Any) -> str | None:
    match outcome:
        case {"error": str(error)}:
            return error.strip().rpartition("\n")[2][:500]
        case _:
            return None


def _prefix(code: str, state: RunState, told: Told, tense: Tense) -> str:
    if state is RunState.READY or (state is RunState.WAITING and code in _RETRIED):
        return f"Retrying at {told.moment('again')}" if told["again"] else "Retrying"
    if tense is PAST or code == "missed" or state not in _FORESEEN:
        return _STATES[state]
    return f"{tense.state.capitalize()} {_FORESEEN[state]}"


_STATES = {state: state.label.replace("_", " ").capitalize() for state in RunState} | {
    RunState.HELD: "Held until resolved",
    RunState.UNKNOWN: "Outcome unknown",
}
_FORESEEN = {
    RunState.WAITING: "wait",
    RunState.QUEUED: "be queued",
    RunState.SKIPPED: "be skipped",
    RunState.MISSED: "be missed",
    RunState.BLOCKED: "be blocked",
    RunState.OVER_BUDGET: "be over budget",
}


def _already_running(told: Told) -> str:
    label = told["state"]
    return f"{told.run()} {told.tense.still} {_LIVE.get(label, label or 'running')}"


def _quiet_hours(told: Told) -> str:
    over = told.at is not None and told["until"] is not None and told["until"] <= told.at
    were = PAST.were if over else told.tense.were
    return f'quiet hours "{told["policy"]}" {were} active until {told.moment("until")}'


def _throttled(told: Told) -> str:
    why = f" ({told['why']})" if told["why"] else ""
    return f'provider "{told["provider"]}" {told.tense.was} throttled until {told.moment("until")}{why}'


def _coalesced(told: Told) -> str:
    quiet = told["for"] == "quiet_hours"
    what = f'quiet hours "{told["policy"]}"' if quiet else f'provider "{told["provider"]}"'
    return f"{told.run()} {told.tense.still} waiting for {what} until {told.moment('until')} and covers this slot"


def _over_budget(told: Told) -> str:
    if told["budget"] is None:
        error = told["error"] or ""
        if error.startswith("It "):  # the error explains itself
            return f"it {error[3:].rstrip('.')}"
        return f"the run reached its limit{told.because('error')}"
    resets = f". It resets on {moment(told['resets_at'], told.zone)}" if told["resets_at"] is not None else ""
    left = f"{_left(told['limit'], told['used'])} left of {told['limit']}"
    return f'budget "{told["budget"]}" {told.tense.had} {left}; this run {told.tense.needed} {told["wanted"]}{resets}'


def _left(limit: str, used: str) -> str:
    if "$" not in limit:
        return format_tokens(max(0, parse_tokens(limit, "limit") - _signed(used)))
    return format_money(max(0, parse_money(limit, {}, "limit") - _signed(used)))


def _signed(amount: str) -> int:
    """Negative if more was granted than is spent."""
    size = amount.removeprefix("-")
    value = parse_money(size, {}, "used") if "$" in size else parse_tokens(size, "used")
    return -value if amount.startswith("-") else value


def _rejected(told: Told) -> str:
    gate = told["gate"] or told["reason"]
    return f"{_GATES.get(gate, gate)} rejected the run{told.because('said')}"


def _cancelling(told: Told) -> str:
    runs = [str(run) for run in told["runs"] or () if str(run) != "0"]
    replaced = f"run {' and run '.join(runs)}" if runs else "an earlier run"
    return f"{replaced} of this schedule must end first; this run replaces {'them' if len(runs) > 1 else 'it'}"


def _missed(told: Told) -> str:
    if (told["slots"] or 1) == 1 or told["first"] is None:
        return "no engine was running when the run was due"
    first, last = moment(told["first"], told.zone), moment(told["last"], told.zone)
    return f"no engine was running for {told['slots']} slots, from {first} to {last}"


def _question(told: Told) -> str:
    return f"approval {told['approval']}" if told["approval"] else "the approval"


def _place(told: Told) -> str:
    return told["target"] or "session"


def _cancelled(told: Told) -> str:
    """The evidence of a manual run may have `by` in another form: who started it."""
    by = told["by"]
    return f"cancelled by {by}" if isinstance(by, str) else "cancelled"


_CAUSES: dict[str, Callable[[Told], str]] = {
    "already_running": _already_running,
    "waiting_for": lambda told: f"{told.run()} must end first",
    "cancelling_other": _cancelling,
    "queue_full": lambda told: f"{told['queued']} runs {told.tense.were} queued, the maximum",
    "max_executions": lambda told: f"the schedule {told.tense.had} run {told['max_executions']} times, the maximum",
    "end_date": lambda told: f"the end date {told.moment('ends_at')} {told.tense.was} past",
    "quiet_hours": _quiet_hours,
    "coalesced": _coalesced,
    "throttled": _throttled,
    "over_budget": _over_budget,
    "at_capacity": lambda told: f"the concurrency limit {told.tense.was} reached",
    "guard": _rejected,
    "pre_check": _rejected,
    "hook": _rejected,
    "checking": lambda told: "the guard, the pre-check or a hook has not answered",
    "awaiting_approval": lambda told: "the run needs approval",
    "approval_expired": lambda told: f"{_question(told)} was not answered in time",
    "denied": lambda told: f"{_question(told)} was denied",
    "paused": lambda told: "the schedule is paused. The run continues when the schedule is resumed",
    "missed": _missed,
    "failed": lambda told: f"failed{told.because('error')}",
    "failed_attempt": lambda told: f"attempt {told['attempt'] or 1} failed{told.because('error')}",
    "timed_out": lambda told: "the run exceeded its timeout",
    "cancelled": _cancelled,
    "cancelled_by_newer": lambda told: "a newer run replaced it",
    "stopped": lambda told: "the engine stopped during the run",
    "schedule_paused": lambda told: "the schedule was paused at the same time",
    "schedule_removed": lambda told: "the schedule was deleted",
    "schedule_rejected": lambda told: "the schedule was rejected",
    "target_busy": lambda told: f"run {told['run']} is running in the target {_place(told)}",
    "waiting_for_target": lambda told: f"the target {_place(told)} is not available",
    "target_gone": lambda told: f"the target {_place(told)} no longer exists",
    "unknown": lambda told: "the attempt did not report its end",
    "worker_lost": lambda told: "the worker process is gone",
    "unreadable": lambda told: "the worker process is gone, and the settings of the run cannot be read",
    "woken": lambda told: "the wait is over, and the gates are checked again",
    RESOLVED: lambda told: f"resolved by {told['reason'].removeprefix(RESOLVED)}{told.because('became')}",
}
CODES = frozenset(_CAUSES)
_WHOLE = frozenset(["failed", "cancelled", RESOLVED])
"""Reasons that start with the state themselves."""
_RETRIED = frozenset(["guard", "pre_check", "hook", "target_busy", "waiting_for_target"])


def _ended(run: RunRecord, told: Told) -> str:
    if run.started_at is None or run.ended_at is None:
        return _STATES[run.state]
    at, took = moment(run.started_at, told.zone), (run.ended_at - run.started_at) / 1000
    return f"{_STATES[run.state]}: started at {at}, took {took:g} s"


_PLAIN: dict[RunState, Callable[[RunRecord, Told], str]] = {
    RunState.READY: lambda run, told: "Ready: waiting for capacity",
    RunState.STARTING: lambda run, told: f"Starting: sent to a worker at {moment(run.started_at or 0, told.zone)}",
    RunState.RUNNING: lambda run, told: f"Running since {moment(run.started_at or 0, told.zone)}",
}


def _many(told: Told) -> str:
    if (told["slots"] or 1) == 1 or told["first"] is None:
        return ""
    return f" ({told['slots']} slots from {told.moment('first')})"
