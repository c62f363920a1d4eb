"""One sentence for each reason code: the state, a colon, the reason. What others wrote about it is its quote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from matins.engine.money import format_money, format_tokens, parse_money, parse_tokens
from matins.engine.when.durations import DAY_MS
from matins.engine.when.zones import load_zone
from matins.model.run import RunRecord, RunState
from matins.model.words import Sentence, counted

RESOLVED = "resolved_by_"
"""The prefix of a reason code. The rest names who resolved the run."""
_SHOWN_DENIALS = 3
_LIVE = {"ready": "about to start"}
TIMEOUTS = ("the run exceeded its timeout", "the run printed nothing for longer than its idle timeout")
AND_ENDED, LAST_PROBLEM = " and was ended", "; its last problem: "
"""The error of a run that was ended: one of these sentences, and what its tool complained of last."""
_GATES = {
    "guard": "the guard",
    "pre_check": "the pre-check",
    "hook": "the hook",
    "file_hook": "the hook of all schedules",
}


class Tense(NamedTuple):
    """The verbs of a sentence about the past, the present or the future."""

    was: str
    were: str
    still: str
    had: str
    needed: str
    state: str
    """The text before "be skipped"."""


PAST = Tense("was", "were", "was still", "had", "needed", "")
NOW = Tense("is", "are", "is still", "has", "needs", "would")
FUTURE = Tense("will be", "will be", "will still be", "will have", "will need", "will")


@dataclass(frozen=True, slots=True)
class ReasonContext:
    """The evidence of a sentence, with its time zone and tense."""

    evidence: Mapping[str, Any]
    zone: str
    at: int | None
    """The instant of the sentence. A time less than a day after it has no date."""
    tense: Tense

    def __getitem__(self, key: str) -> Any:
        return self.evidence.get(key)

    def local_time(self, key: str) -> str:
        at = self[key]
        return "some time" if at is None else local_time(at, self.zone, self.at)

    def run(self, key: str = "run") -> str:
        """Name the run. Run 0 has no number yet: it is created in the same step, or only forecast."""
        number = self[key]
        return f"run {number} of this schedule" if number and number != "0" else "an earlier run of this schedule"

    def quote(self, key: str) -> str | None:
        """What a tool, a check or a person wrote."""
        return str(self[key]) if self[key] else None


def sentence(
    reason: str,
    evidence: Mapping[str, Any] | None,
    zone: str,
    *,
    state: RunState | None = None,
    at: int | None = None,
    tense: Tense = PAST,
) -> Sentence:
    """The reason as a sentence. A `state` comes first: `Skipped: quiet hours "nights" were active until …`."""
    verbs = NOW if tense is PAST and state in (RunState.WAITING, RunState.QUEUED) else tense
    context = ReasonContext({"reason": reason, **(evidence or {})}, zone, at, verbs)
    code = RESOLVED if reason.startswith(RESOLVED) else reason
    cause = CAUSES[code](context) if code in CAUSES else f'the reason is "{reason}"'
    text, quote = cause if isinstance(cause, Sentence) else (cause, None)
    if state is None or code in _WITH_STATE:
        return Sentence(f"{text[0].upper()}{text[1:]}.", quote)
    many = _many(context) if state is RunState.SKIPPED else ""
    return Sentence(f"{_prefix(code, state, context, tense)}: {text}{many}.", quote)


def run_summary(run: RunRecord, zone: str) -> Sentence:
    """The state of a run and its reason, in one sentence."""
    evidence = {
        **(run.evidence or {}),
        "attempt": run.attempt,
        "again": run.not_before,
        "error": last_error(run.outcome),
        "slots": run.slots,
        "first": run.first_slot,
        "last": run.slot,
        "became": "it will be retried" if run.state is RunState.READY else run.state.label,
    }
    if run.reason is not None:
        return sentence(run.reason, evidence, zone, state=run.state, at=run.slot or run.planned_at)
    context = ReasonContext(evidence, zone, None, PAST)
    return Sentence(f"{_WITHOUT_REASON.get(run.state, _ended)(run, context)}{_many(context)}.")


def end_text(label: str) -> str:
    """The state as a sentence, where no reason is known: `Over budget.`"""
    return f"{label.replace('_', ' ').capitalize()}."


def summary_data(summary: Sentence) -> dict[str, Any]:
    """The sentence as events carry it."""
    return {"summary": summary.text} if summary.quote is None else {"summary": summary.text, "quote": summary.quote}


def local_time(at: int, zone: str, beside: int | None = None) -> str:
    """`2026-03-28 07:00 CET`, or `07:00 CET` if it is less than a day after `beside`."""
    local = _local(at, zone)
    finer = f"{local:%H:%M}"
    if local.second or local.microsecond:
        finer = f"{local:%H:%M:%S}" + (f".{local.microsecond // 1000:03}" if local.microsecond else "")
    near = beside is not None and 0 <= at - beside < DAY_MS
    return f"{finer} {local:%Z}" if near else f"{local:%Y-%m-%d} {finer} {local:%Z}"


def rfc3339(at: int, zone: str = "UTC") -> str:
    """An instant in RFC 3339, with the offset of a zone."""
    text = _local(at, zone).isoformat(timespec="milliseconds" if at % 1000 else "seconds")
    return text.removesuffix("+00:00") + "Z" if zone == "UTC" else text


def _local(at: int, zone: str) -> datetime:
    seconds, rest = divmod(at, 1000)
    return datetime.fromtimestamp(seconds, load_zone(zone).info).replace(microsecond=rest * 1000)


def last_error(outcome: Any) -> str | None:
    """The last line of the error in an outcome, without what PostgreSQL cannot store; None without an error."""
    match outcome:
        case {"error": str(error)}:
            line = error.strip().rpartition("\n")[2][:500]
            return line.replace("\0", "\\0").encode(errors="backslashreplace").decode()
        case _:
            return None


def _prefix(code: str, state: RunState, context: ReasonContext, tense: Tense) -> str:
    if state is RunState.READY or (state is RunState.WAITING and code in _RETRIED):
        return f"Retrying at {context.local_time('again')}" if context["again"] else "Retrying"
    if tense is PAST or code == "missed" or state not in _PREDICTED:
        return _STATES[state]
    return f"{tense.state.capitalize()} {_PREDICTED[state]}"


_STATES = {state: state.label.replace("_", " ").capitalize() for state in RunState} | {
    RunState.HELD: "Held until resolved",
    RunState.UNKNOWN: "Outcome unknown",
}
_PREDICTED = {
    RunState.WAITING: "wait",
    RunState.QUEUED: "be queued",
    RunState.SKIPPED: "be skipped",
    RunState.MISSED: "be missed",
    RunState.BLOCKED: "be blocked",
    RunState.OVER_BUDGET: "be over budget",
}


def _already_running(context: ReasonContext) -> str:
    label = context["state"]
    return f"{context.run()} {context.tense.still} {_LIVE.get(label, label or 'running')}"


def _calendar(context: ReasonContext) -> str:
    day = f"{context['day']} ({context['calendar']})" if context["calendar"] else str(context["day"])
    return f"{day}; it moves to {context.local_time('until')}" if context["until"] else day


def _quiet_hours(context: ReasonContext) -> str:
    over = context.at is not None and context["until"] is not None and context["until"] <= context.at
    were = PAST.were if over else context.tense.were
    return f'quiet hours "{context["policy"]}" {were} active until {context.local_time("until")}'


def _throttled(context: ReasonContext) -> Sentence:
    provider, until = f'provider "{context["provider"]}"', context.local_time("until")
    if context["login"]:
        text = f"the login at {provider} {context.tense.was} refused. It is tried again at {until}. To log in"
        return Sentence(f"{text}: {context['login']}", context.quote("why"))
    text = f"{provider} {context.tense.was} throttled until {until}"
    return Sentence(text, context.quote("why"))


def _coalesced(context: ReasonContext) -> str:
    """Why the slot has no run of its own. The run that covers it may wait for something else, too."""
    cause = _quiet_hours(context) if context["for"] == "quiet_hours" else _throttled(context).text
    return f"{cause}; {context.run()} {context.tense.still} waiting and covers this slot"


def _over_budget(context: ReasonContext) -> str | Sentence:
    if context["budget"] is None:
        return Sentence("the run reached its limit", context.quote("error"))
    resets = (
        f". It resets on {local_time(context['resets_at'], context.zone)}" if context["resets_at"] is not None else ""
    )
    left = f"{_left(context['limit'], context['used'])} left of {context['limit']}"
    need = f"this run {context.tense.needed} {context['wanted']}"
    return f'budget "{context["budget"]}" {context.tense.had} {left}; {need}{resets}'


def _left(limit: str, used: str) -> str:
    if "$" not in limit:
        return format_tokens(max(0, parse_tokens(limit, "limit") - _signed(used)))
    return format_money(max(0, parse_money(limit, {}, "limit") - _signed(used)))


def _signed(amount: str) -> int:
    """The amount; negative if more was granted than is spent."""
    size = amount.removeprefix("-")
    value = parse_money(size, {}, "used") if "$" in size else parse_tokens(size, "used")
    return -value if amount.startswith("-") else value


def _rejected(context: ReasonContext) -> Sentence:
    gate = context["gate"] or context["reason"]
    return Sentence(f"{_GATES.get(gate, gate)} rejected the run", context.quote("message"))


def _queue_full(context: ReasonContext) -> str:
    tense = context.tense
    if not context["queued"]:
        return f"the queue {tense.was} full"
    return f"{counted(context['queued'], f'run {tense.was}', f'runs {tense.were}')} queued, the maximum"


def _cancelling(context: ReasonContext) -> str:
    runs = [str(run) for run in context["runs"] or () if str(run) != "0"]
    replaced = f"run {' and run '.join(runs)}" if runs else "an earlier run"
    return f"{replaced} of this schedule must end first; this run replaces {'them' if len(runs) > 1 else 'it'}"


def _missed(context: ReasonContext) -> str:
    if (context["slots"] or 1) == 1 or context["first"] is None:
        return "no engine was running when the run was due"
    first, last = local_time(context["first"], context.zone), local_time(context["last"], context.zone)
    return f"no engine was running for {counted(context['slots'], 'slot')}, from {first} to {last}"


def _no_work(context: ReasonContext) -> str:
    source = context["work_source"]
    return f'work source "{source}" had no item to claim' if source else "there was no work"


def _failed(context: ReasonContext) -> Sentence:
    return Sentence("failed", ": ".join(part for part in (_steps(context), context.quote("error")) if part) or None)


def _steps(context: ReasonContext) -> str | None:
    titles = [f'"{title}"' for title in context["steps"] or ()]
    return f"{'steps' if len(titles) > 1 else 'step'} {' and '.join(titles)}" if titles else None


def _awaiting_approval(context: ReasonContext) -> str | Sentence:
    changed = context["changed"]
    if not changed:
        return "the run needs approval"
    return Sentence("the run needs approval again", f"{changed_text(changed)} Approve it to use it as it is now")


def changed_text(paths: Sequence[str]) -> str:
    """The sentence about files that differ from what was set or approved."""
    return f"{' and '.join(path.rpartition('/')[2] for path in paths)} changed since you set it."


def _approval(context: ReasonContext, what: str) -> Sentence:
    if context["steps"]:
        return Sentence(f"the approval of a step {what}", str(context["steps"][0]))
    return Sentence(f"approval {context['approval']} {what}" if context["approval"] else f"the approval {what}")


def _target(context: ReasonContext) -> str:
    return context["target"] or "session"


def _timed_out(context: ReasonContext) -> Sentence:
    """The error of an agent's run says which timeout it was, and the last problem of its tool."""
    text, _, problem = (context["error"] or "").partition(LAST_PROBLEM)
    return Sentence(text, problem or None) if text.removesuffix(AND_ENDED) in TIMEOUTS else Sentence(TIMEOUTS[0])


def _with_denials(context: ReasonContext) -> Sentence:
    denials: list[str] = context["denials"] or []
    more = f" and {len(denials) - _SHOWN_DENIALS} more" if len(denials) > _SHOWN_DENIALS else ""
    shown = "; ".join(denials[:_SHOWN_DENIALS]) + more
    return Sentence(f"{'a tool call was' if len(denials) == 1 else 'tool calls were'} denied", shown or None)


def _cancelled(context: ReasonContext) -> Sentence:
    """The cause. In the evidence of a manual run, `by` may be no string: it is who started the run."""
    by = context["by"]
    return Sentence(f"cancelled by {by}" if isinstance(by, str) else "cancelled", context.quote("note"))


CAUSES: dict[str, Callable[[ReasonContext], str | Sentence]] = {
    "already_running": _already_running,
    "waiting_for": lambda context: f"{context.run()} must end first",
    "backfill": lambda context: f"{context.run()}, of a backfill, must end first",
    "cancelling_other": _cancelling,
    "queue_full": _queue_full,
    "max_executions": lambda context: (
        f"the schedule {context.tense.had} run {counted(context['max_executions'] or 0, 'time')}, the maximum"
    ),
    "end_date": lambda context: f"the end date {context.local_time('ends_at')} {context.tense.was} past",
    "backing_off": lambda context: (
        f"the last {context['failures']} runs failed; the next try is after {context.local_time('until')}"
    ),
    "calendar": _calendar,
    "quiet_hours": _quiet_hours,
    "coalesced": _coalesced,
    "throttled": _throttled,
    "over_budget": _over_budget,
    "at_capacity": lambda context: f"the concurrency limit {context.tense.was} reached",
    "guard": _rejected,
    "pre_check": _rejected,
    "hook": _rejected,
    "checking": lambda context: "the guard, the pre-check or a hook has not answered",
    "awaiting_ping": lambda context: f"a ping {context.tense.was} expected until {context.local_time('until')}",
    "no_ping": lambda context: f"no ping came until {context.local_time('until')}",
    "awaiting_approval": _awaiting_approval,
    "approval_expired": lambda context: _approval(context, "was not answered in time"),
    "denied": lambda context: _approval(context, "was denied"),
    "paused": lambda context: "the schedule is paused. The run continues when the schedule is resumed",
    "missed": _missed,
    "no_agent": lambda context: f'there is no agent "{context["agent"]}"',
    "missing_job": lambda context: f'no running engine {context.tense.had} the job "{context["job"]}"',
    "not_here": lambda context: f"every node that offers what it needs turned it away ({context['nodes']})",
    "no_work": _no_work,
    "failed": _failed,
    "steps_skipped": lambda context: Sentence("a step was skipped", _steps(context)),
    "clock_went_back": lambda context: "the clock was set back, and the slot is still to come",
    "mission_aborted": lambda context: "the mission was aborted",
    "step_failed": lambda context: Sentence("another step did not succeed", context.quote("step")),
    "waiting_for_step": lambda context: "another step must succeed first",
    "carried_over": lambda context: "the step succeeded before, and is not repeated",
    "failed_attempt": lambda context: Sentence(f"attempt {context['attempt'] or 1} failed", context.quote("error")),
    "timed_out": _timed_out,
    "with_denials": _with_denials,
    "cancelled": _cancelled,
    "cancelled_by_newer": lambda context: "a newer run replaced it",
    "stopped": lambda context: "the engine stopped during the run",
    "schedule_paused": lambda context: (
        "the schedule was paused" if isinstance(context["by"], dict) else "the schedule was paused at the same time"
    ),
    "debouncing": lambda context: "the run waits for further calls",
    "min_interval": lambda context: (
        f"the schedule of an agent starts again at {context.local_time('until')} at the earliest"
    ),
    "schedule_removed": lambda context: "the schedule was deleted",
    "schedule_rejected": lambda context: "the schedule was rejected",
    "target_busy": lambda context: f"run {context['run']} is running in the target {_target(context)}",
    "checkout_busy": lambda context: (
        f"run {context['run']} works in {context['checkout']}, and agents do not share a checkout unless they say so "
        "(worktree: shared, or per_run)"
    ),
    "waiting_for_target": lambda context: f"the target {_target(context)} is not available",
    "target_gone": lambda context: f"the target {_target(context)} no longer exists",
    "unknown": lambda context: "the attempt did not report its end",
    "worker_lost": lambda context: "the worker process is gone",
    "unreadable": lambda context: "the worker process is gone, and the settings of the run cannot be read",
    "woken": lambda context: "the wait is over, and the gates are checked again",
    RESOLVED: lambda context: (
        f"resolved by {context['reason'].removeprefix(RESOLVED)}"
        + (f": {context['became']}" if context["became"] else "")
    ),
}
_WITH_STATE = frozenset(["failed", "cancelled", RESOLVED])
"""Reasons whose sentence already starts with the state."""
_RETRIED = frozenset(["guard", "pre_check", "hook", "target_busy", "waiting_for_target", "checkout_busy"])


def _ended(run: RunRecord, context: ReasonContext) -> str:
    if run.started_at is None or run.ended_at is None:
        return _STATES[run.state]
    at, took = local_time(run.started_at, context.zone), (run.ended_at - run.started_at) / 1000
    return f"{_STATES[run.state]}: started at {at}, took {took:g} s"


_WITHOUT_REASON: dict[RunState, Callable[[RunRecord, ReasonContext], str]] = {
    RunState.READY: lambda run, context: "Ready: waiting for an engine to start it",
    RunState.STARTING: lambda run, context: (
        f"Starting: sent to a worker at {local_time(run.started_at or 0, context.zone)}"
    ),
    RunState.RUNNING: lambda run, context: f"Running since {local_time(run.started_at or 0, context.zone)}",
}


def _many(context: ReasonContext) -> str:
    if (context["slots"] or 1) == 1 or context["first"] is None:
        return ""
    return f" ({counted(context['slots'], 'slot')} from {context.local_time('first')})"
