"""Reasons in words: for each code one sentence for tired people, filled from the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from matins.engine.money import format_money, format_tokens, parse_money, parse_tokens
from matins.engine.when.zones import load_zone
from matins.model.run import Run, RunState

RESOLVED = "resolved_by_"
"""What comes after it is who resolved the run."""
_DAY_MS = 86_400_000
_STANDING = {"parked": "waiting", "queued": "waiting its turn", "ready": "about to start"}
_GATES = {"guard": "The guard", "pre_check": "Its pre-check", "hook": "Its hook", "file_hook": "The hook for all"}


class Tense(NamedTuple):
    """Told of what happened, of what would happen now, or of what will."""

    was: str
    were: str
    still: str
    had: str
    served: str
    wanted: str
    be: str
    wait: str


PAST = Tense("was", "were", "was still", "had", "served", "wanted", "was", "waits")
NOW = Tense("is", "are", "is still", "has", "serves", "wants", "would be", "would wait")
FUTURE = Tense("will be", "will be", "will still be", "will have", "will serve", "will want", "will be", "will wait")


@dataclass(frozen=True, slots=True)
class Told:
    """What a sentence is made from."""

    evidence: Mapping[str, Any]
    zone: str
    at: int | None
    """The instant that it is about: times of the same day need no date."""
    tense: Tense

    def __getitem__(self, key: str) -> Any:
        return self.evidence.get(key)

    def moment(self, key: str) -> str:
        at = self[key]
        return "some time" if at is None else moment(at, self.zone, self.at)

    def run(self, key: str = "run") -> str:
        """Run 0 is made in the same step, or only foreseen: it has no number."""
        number = self[key]
        return f"Run {number} of this schedule" if number and number != "0" else "An earlier run of this schedule"

    def because(self, key: str) -> str:
        return f": {self[key]}" if self[key] else ""


def sentence(
    reason: str,
    evidence: Mapping[str, Any] | None,
    zone: str,
    *,
    state: RunState | None = None,
    at: int | None = None,
    tense: Tense = PAST,
) -> str:
    """Why it came to this; with its `state`, what became of it too."""
    told = Told({"reason": reason, **(evidence or {})}, zone, at, tense)
    code = RESOLVED if reason.startswith(RESOLVED) else reason
    cause = _CAUSES[code](told) if code in _CAUSES else f'The reason is "{reason}"'
    end = None if state is None or code in _WHOLE else _ending(code, state, told)
    return f"{cause}; {end}." if end else f"{cause}."


def story(run: Run, zone: str) -> str:
    """What became of a run, in one sentence."""
    evidence = {
        **(run.evidence or {}),
        "attempt": run.attempt,
        "again": run.not_before,
        "error": _last_line(run.outcome),
        "slots": run.covered,
        "first": run.covered_from,
        "last": run.slot,
        "became": "it is tried again" if run.state is RunState.READY else run.state.word,
    }
    if run.reason is not None:
        return sentence(run.reason, evidence, zone, state=run.state, at=run.slot or run.planned_at)
    told = Told(evidence, zone, None, PAST)
    return f"{_PLAIN.get(run.state, _ended)(run, told)}{_many(told)}."


def moment(at: int, zone: str, beside: int | None = None) -> str:
    """`2026-03-28 07:00`, or `07:00` where it is less than a day after what it is told beside."""
    local = _local(at, zone)
    finer = f"{local:%H:%M}"
    if local.second or local.microsecond:
        finer = f"{local:%H:%M:%S}" + (f".{local.microsecond // 1000:03}" if local.microsecond else "")
    near = beside is not None and 0 <= at - beside < _DAY_MS
    return finer if near else f"{local:%Y-%m-%d} {finer}"


def iso(at: int, zone: str = "UTC") -> str:
    """An instant for programs, with the offset of a zone."""
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


def _ending(code: str, state: RunState, told: Told) -> str | None:
    again = f"it is tried again at {told.moment('again')}" if told["again"] else "it is tried again"
    if state is RunState.PARKED and code in _TRIED_AGAIN:
        return again
    return {
        RunState.PARKED: f"it {told.tense.wait} until then",
        RunState.QUEUED: f"it {told.tense.wait} its turn",
        RunState.READY: again,
        RunState.HELD: "it is held until somebody says what became of it",
        RunState.SKIPPED: f"{'this one' if code == 'already_running' else 'it'} {told.tense.be} skipped{_many(told)}",
        RunState.BLOCKED: f"it {told.tense.be} blocked",
        RunState.MISSED: f"it {told.tense.be} missed",
        RunState.CANCELLED: "it was ended",
        RunState.UNKNOWN: None if code == "unknown" else "nobody knows how it ended",
    }.get(state)


def _already_running(told: Told) -> str:
    word = told["state"]
    return f"{told.run()} {told.tense.still} {_STANDING.get(word, word or 'running')}"


def _quiet_hours(told: Told) -> str:
    over = told.at is not None and told["until"] is not None and told["until"] <= told.at
    were = PAST.were if over else told.tense.were
    return f'Quiet hours "{told["policy"]}" {were} on until {told.moment("until")}'


def _throttled(told: Told) -> str:
    why = f" ({told['why']})" if told["why"] else ""
    return f'Provider "{told["provider"]}" {told.tense.served} nobody until {told.moment("until")}{why}'


def _coalesced(told: Told) -> str:
    quiet = told["for"] == "quiet_hours"
    what = f'quiet hours "{told["policy"]}"' if quiet else f'provider "{told["provider"]}"'
    return f"{told.run()} {told.tense.still} waiting for {what} until {told.moment('until')}, for this one too"


def _over_budget(told: Told) -> str:
    if told["budget"] is None:
        whole = (told["error"] or "").startswith("It ")  # who ended it has said why
        return told["error"] if whole else f"It had spent what one run may{told.because('error')}"
    opens = f". It opens again on {moment(told['resets_at'], told.zone)}" if told["resets_at"] is not None else ""
    left = f"{_left(told['limit'], told['used'])} left of {told['limit']}"
    return f'Budget "{told["budget"]}" {told.tense.had} {left}; this run {told.tense.wanted} {told["wanted"]}{opens}'


def _left(limit: str, used: str) -> str:
    if "$" not in limit:
        return format_tokens(max(0, parse_tokens(limit, "limit") - _signed(used)))
    return format_money(max(0, parse_money(limit, {}, "limit") - _signed(used)))


def _signed(amount: str) -> int:
    """Below nothing when more was granted than is spent."""
    size = amount.removeprefix("-")
    value = parse_money(size, {}, "used") if "$" in size else parse_tokens(size, "used")
    return -value if amount.startswith("-") else value


def _against(told: Told) -> str:
    gate = told["gate"] or told["reason"]
    return f"{_GATES.get(gate, gate)} {told.tense.was} against it{told.because('said')}"


def _cancelling(told: Told) -> str:
    runs = [str(run) for run in told["runs"] or () if str(run) != "0"]
    whom = f"run {' and run '.join(runs)}" if runs else "an earlier run"
    return f"It {told.tense.wait} for {whom} of this schedule to end, in whose place it comes"


def _missed(told: Told) -> str:
    if (told["slots"] or 1) == 1 or told["first"] is None:
        return "Nobody was there when it was due, and then it was too late"
    first, last = moment(told["first"], told.zone), moment(told["last"], told.zone)
    return f"Nobody was there for {told['slots']} slots, from {first} to {last}"


def _question(told: Told) -> str:
    return f"approval {told['approval']}" if told["approval"] else "its approval"


def _place(told: Told) -> str:
    return told["target"] or "session"


def _who(told: Told) -> str:
    """By hand started, and by hand ended: the evidence may name both."""
    by = told["by"]
    return by if isinstance(by, str) else "Somebody"


_CAUSES: dict[str, Callable[[Told], str]] = {
    "already_running": _already_running,
    "waiting_for": lambda told: f"{told.run()} must end first",
    "cancelling_other": _cancelling,
    "queue_full": lambda told: f"{told['queued']} runs of it {told.tense.were} waiting already, as many as may",
    "max_executions": lambda told: f"It {told.tense.had} run {told['max_executions']} times, as often as it may",
    "end_date": lambda told: f"Its end, {told.moment('ends_at')}, {told.tense.was} past",
    "quiet_hours": _quiet_hours,
    "coalesced": _coalesced,
    "throttled": _throttled,
    "over_budget": _over_budget,
    "at_capacity": lambda told: f"Every place that it may take {told.tense.was} taken",
    "guard": _against,
    "pre_check": _against,
    "hook": _against,
    "checking": lambda told: "It waits for what its guard, pre-check or hooks say",
    "awaiting_approval": lambda told: "It waits for people to approve it",
    "approval_expired": lambda told: f"Nobody answered {_question(told)} in time",
    "denied": lambda told: f"People said no: {_question(told)} was denied",
    "paused": lambda told: "Its schedule is paused, and it goes on when that does",
    "missed": _missed,
    "failed": lambda told: f"The job failed{told.because('error')}",
    "failed_attempt": lambda told: f"Attempt {told['attempt'] or 1} failed{told.because('error')}",
    "timed_out": lambda told: "It ran past its limit",
    "cancelled": lambda told: f"{_who(told)} cancelled it",
    "cancelled_by_newer": lambda told: "A newer run took its place",
    "stopped": lambda told: "The engine was stopped while it ran",
    "schedule_paused": lambda told: "Its schedule was paused in the same moment",
    "schedule_removed": lambda told: "Its schedule was removed",
    "schedule_rejected": lambda told: "Its schedule was rejected",
    "target_busy": lambda told: f"Run {told['run']} is under way in the {_place(told)} where it lands",
    "waiting_for_target": lambda told: f"The {_place(told)} where it lands is not there",
    "target_gone": lambda told: f"The {_place(told)} where it lands is gone",
    "unknown": lambda told: "Nobody knows how the attempt ended",
    "worker_lost": lambda told: "The process that ran it is gone",
    "unreadable": lambda told: "The process that ran it is gone, and what it was to do cannot be read",
    "woken": lambda told: "What it waited for is over, and it is looked at again",
    RESOLVED: lambda told: f"{told['reason'].removeprefix(RESOLVED)} said what became of it{told.because('became')}",
}
CODES = frozenset(_CAUSES)
_WHOLE = frozenset(
    ["waiting_for", "cancelling_other", "coalesced", "checking", "awaiting_approval", "paused", "cancelled", "woken",
     "over_budget", "missed", RESOLVED]
)  # fmt: skip
"""What says by itself what becomes of the run."""
_TRIED_AGAIN = frozenset(["guard", "pre_check", "hook", "target_busy", "waiting_for_target"])


def _ended(run: Run, told: Told) -> str:
    if run.started_at is None or run.ended_at is None:
        return f"It {run.state.word}"
    at, took = moment(run.started_at, told.zone), (run.ended_at - run.started_at) / 1000
    return f"It started at {at} and {run.state.word} after {took:g} s"


_PLAIN: dict[RunState, Callable[[Run, Told], str]] = {
    RunState.PARKED: lambda run, told: "It waits",
    RunState.QUEUED: lambda run, told: "It waits its turn",
    RunState.READY: lambda run, told: "It may start, and waits for a place",
    RunState.STARTING: lambda run, told: f"It was handed to a worker at {moment(run.started_at or 0, told.zone)}",
    RunState.RUNNING: lambda run, told: f"It runs since {moment(run.started_at or 0, told.zone)}",
    RunState.HELD: lambda run, told: "It is held until somebody says what became of it",
}


def _many(told: Told) -> str:
    if (told["slots"] or 1) == 1 or told["first"] is None:
        return ""
    return f", and stands for {told['slots']} slots from {told.moment('first')} on"
