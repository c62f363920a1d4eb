"""What screens show of many schedules at once."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from matins.api.results.content import Content
from matins.api.results.runs import RunStateName
from matins.model.access import Role


class TimelineRun(Struct, frozen=True):
    """A record on the timeline."""

    run_id: str
    schedule_id: str
    schedule: str
    state: RunStateName
    status: str
    """The state; of a run that waits, what it waits for."""
    at: datetime
    """Where it lies: at its start, or at its slot when it did not start."""
    slot: datetime | None
    slots: int
    """How many slots this record stands for."""
    started_at: datetime | None
    ended_at: datetime | None
    reason: str | None
    sentence: str | None
    """Why it did not simply run; None if it did."""
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""


class TimelineSlot(Struct, frozen=True):
    """A slot to come."""

    schedule_id: str
    schedule: str
    at: datetime
    due_at: datetime
    """Later than the slot by its jitter."""
    verdict: str
    """runs, deferred, coalesced, queued or skipped."""
    until: datetime | None
    """When a deferred one continues."""
    sentence: str | None
    """Why it will not simply run; None if it will."""
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""


class TimelineBand(Struct, frozen=True):
    """A stretch of time: many records or slots as one, quiet hours, or a provider's rate limit."""

    kind: Literal["records", "slots", "quiet_hours", "throttle"]
    start: datetime
    end: datetime
    name: str | None
    """The quiet hours or the provider."""
    schedule_id: str | None
    schedule: str | None
    """None where the band stands for several schedules."""
    schedules: int
    count: int
    """The number of records or slots."""
    states: dict[str, int]
    """The records by state, or the slots by verdict; empty for slots of several schedules."""
    sentence: str | None
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""


class TimelineLane(Struct, frozen=True):
    """What an agent did and will do, or what schedules without an agent do."""

    agent: str
    runner: str | None
    runs: list[TimelineRun]
    slots: list[TimelineSlot]
    bands: list[TimelineBand]


class Timeline(Struct, frozen=True):
    """Records and slots to come between two instants, a lane for each agent."""

    start: datetime
    end: datetime
    now: datetime
    records_from: datetime
    """Where the records begin: later than the start where there are very many."""
    omitted: int
    """The number of schedules that fire soon, and whose slots are left out because there are too many."""
    lanes: list[TimelineLane]


class CalendarDay(Struct, frozen=True):
    day: str
    """The date on the schedule's own clock."""
    states: dict[str, int]
    """The slots with a record, by state."""
    planned: int
    """The slots to come."""


class Calendar(Struct, frozen=True):
    """The slots of a schedule by day. Days without any are left out."""

    schedule: str
    agent: str
    timezone: str
    since: datetime
    until: datetime
    days: list[CalendarDay]


class SpendDay(Struct, frozen=True):
    day: str
    cost: str
    tokens: int
    runs: int
    share: float
    """Of the day on which the most was spent, from 0 to 1."""


class SpendShare(Struct, frozen=True):
    """What an agent or a schedule spent."""

    name: str
    agent: str
    cost: str
    tokens: int
    runs: int
    share: float
    """Of the whole, from 0 to 1."""


class Spend(Struct, frozen=True):
    since: datetime
    until: datetime
    timezone: str
    """The machine's own time zone, in which the days are."""
    cost: str
    tokens: int
    per_day: str
    per_month: str
    """At this pace, for 30 days."""
    days: list[SpendDay]
    agents: list[SpendShare]
    schedules: list[SpendShare]


class Absence(Struct, frozen=True):
    """A time in which no engine was running."""

    start: datetime
    """Of an engine that was killed: its last record."""
    end: datetime | None
    """None while there is none."""
    duration_ms: int
    missed: int
    """Slots of that time that were missed."""
    ran: int
    """Slots of that time that were caught up."""


class AttentionItem(Struct, frozen=True):
    """Something that needs a person."""

    kind: Literal["no_engine", "overdue", "no_agent", "approval", "held", "stuck", "paused", "broken", "incident"]
    sentence: str
    command: str
    """What to type."""
    quote: Content[str | None] = None
    """What a tool, a check or a person wrote about it."""
    schedule_id: str | None = None
    schedule: str | None = None
    agent: str | None = None
    run_id: str | None = None
    approval_id: str | None = None
    incident_id: str | None = None
    since: datetime | None = None


class RunningRun(Struct, frozen=True):
    run_id: str
    schedule: str
    started_at: datetime | None


class NextRun(Struct, frozen=True):
    schedule: str
    agent: str
    at: datetime
    timezone: str


class Status(Struct, frozen=True):
    """What needs a person, what runs, and what comes next."""

    summary: str
    healthy: bool
    """Whether schedules fire on time: an engine runs, and nothing is overdue."""
    attention: list[AttentionItem]
    running: list[RunningRun]
    waiting: int
    """Runs that wait for a time, a check or a person."""
    failed: int
    """Runs that failed in the last 24 hours."""
    next: list[NextRun]
    spend_today: str


class LimitLeft(Struct, frozen=True):
    limit: str
    """`max_cost` of the run, or the name of a budget."""
    cost: str | None
    tokens: int | None


class CallerContext(Struct, frozen=True):
    """Where the caller is: the run that it speaks from. Outside a run, only `role`, `name` and `profile` are set."""

    role: Role
    name: str
    profile: str = ""
    """The agent of tasks without a profile: the one that speaks, or else the active one."""
    run_id: str | None = None
    schedule: str | None = None
    agent: str | None = None
    runner: str | None = None
    slot: datetime | None = None
    attempt: int | None = None
    workdir: str | None = None
    thread: str | None = None
    channel: Content[str | None] = None
    session: Content[str | None] = None
    session_name: Content[str | None] = None
    limits: list[LimitLeft] = []
    """What the run may still spend."""
    reported: str | None = None
    """The outcome that the run has reported."""
