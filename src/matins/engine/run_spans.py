"""The time of a run from due to its end, divided into spans; and what is usual."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from matins.model.policies import Approval
from matins.model.rows import AttemptRow, CheckRow
from matins.model.run import RunRecord, RunState

SpanName = Literal["planned", "waiting", "check", "approval", "attempt", "step"]
_LEAST_GAP_MS = 2


class RunSpan(NamedTuple):
    name: SpanName
    label: str
    start: int
    end: int | None
    """None while it goes on."""
    state: str | None = None
    title: str | None = None
    """Of a step."""


class RunHistory(NamedTuple):
    """What is known of a run."""

    run: RunRecord
    due_at: int
    attempts: Sequence[AttemptRow]
    attempt_ends: Mapping[int, int]
    """The ends of attempts after which the run went on, by epoch."""
    checks: Sequence[CheckRow]
    approvals: Sequence[Approval]
    steps: Sequence[tuple[str, RunRecord]]
    """The steps with their titles."""


def run_spans(history: RunHistory) -> list[RunSpan]:
    """The spans in the order of their starts. What lies between them is a wait."""
    run = history.run
    planned = RunSpan("planned", "Due → planned", min(history.due_at, run.planned_at), run.planned_at)
    known = sorted(
        [*map(_check, history.checks), *map(_approval, history.approvals), *_attempts(history)],
        key=lambda span: span.start,
    )
    return [planned, *_with_waits(run, known), *_steps(history.steps)]


def percentile(values: Iterable[int], share: float) -> int | None:
    """The value below or at which this share of the values lies; None without values."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 100) // 100) - 1)] if ordered else None


def _check(row: CheckRow) -> RunSpan:
    return RunSpan("check", row.kind.replace("_", "-"), row.at - row.duration_ms, row.at, row.verdict)


def _approval(approval: Approval) -> RunSpan:
    return RunSpan(
        "approval", f"Approval {approval.id}", approval.requested_at, approval.decided_at, approval.state
    )  # fmt: skip


def _attempts(history: RunHistory) -> Iterable[RunSpan]:
    run, rows = history.run, history.attempts
    if history.steps and run.started_at is not None:
        yield RunSpan("attempt", "Steps", run.started_at, run.ended_at, run.display_state)
    for number, row in enumerate(rows):
        following = rows[number + 1].started_at if number + 1 < len(rows) else None
        ended = history.attempt_ends.get(row.epoch)
        last = following is None and ended is None
        end = run.ended_at if last else ended if ended is not None else following
        yield RunSpan("attempt", f"Attempt {number + 1}", row.started_at, end, run.display_state if last else "retried")


def _steps(steps: Sequence[tuple[str, RunRecord]]) -> Iterable[RunSpan]:
    for title, step in steps:
        if step.started_at is not None:
            yield RunSpan("step", f"Step {step.step}", step.started_at, step.ended_at, step.display_state, title)


def _with_waits(run: RunRecord, known: Sequence[RunSpan]) -> Iterable[RunSpan]:
    """The spans, with a wait before each that does not begin where the one before it ended."""
    at: int | None = run.planned_at
    for span in known:
        if at is not None and span.start - at >= _LEAST_GAP_MS:
            yield RunSpan("waiting", "Waiting", at, span.start)
        yield span
        at = None if at is None or span.end is None else max(at, span.end)
    if at is None or run.state in (RunState.STARTING, RunState.RUNNING):
        return
    end = run.ended_at
    if run.state.live or (end is not None and end - at >= _LEAST_GAP_MS):
        yield RunSpan("waiting", "Waiting", at, end, run.status if run.state.live else None)
