"""What will happen, what would, and why something did not."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.api.results.content import Content
from matins.api.results.events import Call
from matins.api.results.runs import Run
from matins.api.results.schedules import Approval
from matins.model.schedule import ScheduleState


class Check(Struct, frozen=True):
    """What a guard, a pre-check or a hook decided about a run."""

    epoch: int
    gate: str
    at: datetime
    duration_ms: int
    exit_code: int | None
    verdict: Literal["pass", "skip", "block", "fail"]
    reason: Content[str | None]
    """Why, in the words of the check."""
    output: Content[str]


class GateReport(Struct, frozen=True):
    gate: str
    passes: bool | None
    """None if only the gate itself can tell: code, a command, a person."""
    sentence: str
    evidence: Content[dict[str, Any] | None] = None
    quote: Content[str | None] = None
    """What a tool, a check or a person wrote about it."""


class AttemptSummary(Struct, frozen=True):
    epoch: int
    worker: str
    started_at: datetime


class RunDetail(Struct, frozen=True):
    run: Run
    sentence: str
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""
    attempts: list[AttemptSummary]
    checks: list[Check]
    approvals: list[Approval]
    """Requests about this run, with their votes; the newest first."""
    calls: list[Call]
    """The calls that the run stands for, the newest first."""
    gates: list[GateReport]
    """Gate by gate, what the record says was decided; none where no gate was asked."""


class Slot(Struct, frozen=True):
    """An occurrence to come."""

    at: datetime
    local: str
    utc: str
    due_at: datetime
    """Later than the slot by its jitter."""
    dst: str | None
    """What a change of the clocks did to it."""
    verdict: str
    """runs, deferred, coalesced, queued, skipped or over_budget; of a schedule that does not run, its state."""
    sentence: str
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""
    until: datetime | None
    """When a deferred one continues."""
    gates: list[GateReport]
    """The gates that can be predicted, in their order."""


class Explanation(Struct, frozen=True):
    """Why a schedule ran or did not run."""

    schedule_id: str
    schedule: str
    agent: str
    state: ScheduleState
    timezone: str
    at: datetime | None
    """The requested slot."""
    status: Literal[
        "record", "due", "to_come", "no_slot", "before", "held_back", "forgotten", "no_record", "nothing_yet"
    ]
    summary: str
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""
    run: RunDetail | None
    slot: Slot | None
    """The outcome of a future slot, as far as it is known."""
    nearest: list[datetime]
    """The slots before and after an instant that is none."""
    now: list[GateReport]
    """Gate by gate, if it were due now."""


class ForecastStep(Struct, frozen=True):
    """A step of the runs to come."""

    number: int
    title: Content[str]
    after: Content[list[str]]
    agent: str
    job: str
    cost_per_day: str
    tokens_per_day: int | None


class Forecast(Struct, frozen=True):
    schedule_id: str | None
    """None for a schedule that does not exist."""
    schedule: str
    agent: str
    state: ScheduleState
    standing: str
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""
    trigger_text: str
    timezone: str
    slots: list[Slot]
    then: str | None
    """Why there are no more."""
    overdue: int
    """The number of past slots without a record; `preview_catch_up` shows their runs."""
    runs_per_day: float
    cost_per_day: str
    """The median cost of past runs, times the runs of a day; "unknown" while nothing is known."""
    tokens_per_day: int | None
    steps: list[ForecastStep] = []
    """The steps of each run, with their shares of the cost."""


class SettingChange(Struct, frozen=True):
    setting: str
    before: Content[Any]
    after: Content[Any]


class EditForecast(Struct, frozen=True):
    """What an edit would change."""

    schedule_id: str
    before: Forecast
    after: Forecast
    settings: list[SettingChange]
    voids: list[str]
    """Requests about the proposal that would be made again. Runs that wait for approval keep theirs."""


class NewForecast(Struct, frozen=True):
    """What adding a schedule would do."""

    forecast: Forecast
    settings: Content[dict[str, Any]]
    """All settings whose value is not the default, as people write them."""
    needs_approval: bool
    """Whether the schedule would be a proposal, which a person must approve."""
    highlights: list[str]
    """The settings that a person would look at first, because they affect more than the agent's own prompt."""
    notes: list[str]
    """What the call would do besides, such as creating an agent."""


class CatchUpRun(Struct, frozen=True):
    """A record that a catch-up would make."""

    slot: datetime
    first: datetime | None
    """The first of the slots that it stands for, when there are several."""
    slots: int
    verdict: str
    sentence: str
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""


class CatchUp(Struct, frozen=True):
    schedule_id: str
    schedule: str
    since: datetime
    summary: str
    quote: Content[str | None] = None
    """What a tool, a check or a person wrote about it."""
    records: list[CatchUpRun] = []
    runs: int = 0
    missed: int = 0
    next_slot: datetime | None = None


class CatchUpAll(Struct, frozen=True):
    """What a start now would do for all schedules."""

    since: datetime | None
    summary: str
    runs: int
    missed: int
    cost: str
    """What the runs would cost, at the mean of the last 30 days."""
    schedules: list[CatchUp]
    """Those that have something to catch up, each with a few of its records."""
    omitted: int
    """How many schedules were not looked at, because there are too many."""


class FireTime(Struct, frozen=True):
    local: datetime
    utc: datetime
    in_seconds: int | float
    """The distance from the requested instant."""
    dst: str | None
    """What a change of the clocks did to it."""


class Preview(Struct, frozen=True):
    """What a text means, and when it would fire."""

    text: str
    kind: str
    trigger_text: str
    timezone: str
    fires: list[FireTime]
    notes: list[str]
    """Assumptions that were made."""
    clock_changes: list[str]
    """What the clock changes between the first and the last fire do."""
