"""Results: previews, overviews, system.

The installation: health, jobs, tools, tokens, sessions, the file.
"""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.api.results.runs import Approval, Call, Run, RunStateName
from matins.model.access import LinkedService, Role, SignInMethod
from matins.model.schedule import ScheduleState
from matins.model.words import Content


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
    unsent: str | None
    """Why nobody gets its answer."""


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
    unsent: str | None = None
    """That no destination would get the answers of its runs."""
    command: str | None = None
    """What sends them to one."""


class SettingChange(Struct, frozen=True):
    setting: str
    before: Content[Any]
    after: Content[Any]


class Change(Struct, frozen=True):
    """A revision of a schedule: who changed what, and when."""

    rev: int
    at: datetime
    by: str
    settings: list[SettingChange]
    """Those that differ from the revision before; none for the first."""


class RunDifference(Struct, frozen=True):
    """What differs between two runs."""

    before: Run
    after: Run
    differences: list[SettingChange]


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


class LaneMark(Struct, frozen=True):
    """A run of a lane with few, or a slot to come."""

    run_id: str | None
    schedule: str
    agent: str
    state: str
    """The state of the run; of a slot to come, its verdict."""
    status: str
    at: datetime
    ended_at: datetime | None
    slot: datetime | None


class Lane(Struct, frozen=True):
    """How much ran and will run: of an agent, of a value of a label, or of several that are folded into one."""

    name: str
    """Empty: schedules without an agent, or without the label."""
    folded: int
    """How many lanes it stands for."""
    runs: int
    failed: int
    waiting: int
    """Runs that wait for a person."""
    planned: int
    parts: dict[str, list[int]]
    """By state, how many there are in each part of the time; `planned` for slots to come."""
    marks: list[LaneMark]
    """Each run and slot, where the lane has few."""
    note: Content[str | None]
    """What troubles it most."""


class LabelCount(Struct, frozen=True):
    key: Content[str]
    value: Content[str]
    schedules: int


class Lanes(Struct, frozen=True):
    """What ran and what will run between two instants, in few lanes. The time is divided into equal parts."""

    start: datetime
    end: datetime
    now: datetime
    parts: int
    by: str
    """`agent`, or `label.team` for the values of a label."""
    runs: int
    failed: int
    lanes: list[Lane]
    """Those with failures first, then the busiest."""
    rest: Lane | None
    """The others, as one."""
    skipped: int
    """Runs that did not happen because their settings say so."""
    labels: list[LabelCount]
    """The labels of schedules, by which lanes can be made and the page narrowed; the commonest 50."""


class CalendarDay(Struct, frozen=True):
    day: str
    """The date on the schedule's own clock."""
    states: dict[str, int]
    """The slots with a record, by state."""
    planned: int
    """The slots to come."""


class ScheduleCalendar(Struct, frozen=True):
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
    known_days: int
    """From how many days the pace is computed: those since the first spending."""
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


class SentMessage(Struct, frozen=True):
    """A message that an agent sent during its run."""

    run_id: str
    number: int
    to: list[str]
    left: int
    """How many the run may still send."""


class Throttled(Struct, frozen=True):
    provider: str
    resets_at: datetime


class Node(Struct, frozen=True):
    """A machine with an engine, or several, or one that is to take no runs when it comes back."""

    name: str
    state: Literal["open", "cordoned", "draining"]
    live: bool
    """Whether an engine of it is running."""
    runs: int
    """How many runs it has now."""
    max_runs: int | None
    labels: list[str]
    runners: list[str]
    agents: list[str] | None
    """The agents whose runs it takes; None: all."""
    version: str | None
    by: str | None
    """Who cordoned it."""
    note: Content[str | None]
    since: datetime | None
    """When it was cordoned."""
    ends_at: datetime | None
    """When runs are interrupted that have not ended; None: they are waited for."""


class Stats(Struct, frozen=True):
    running: bool
    """Whether an engine is running."""
    active_schedules: int
    paused_schedules: int
    pending_schedules: int
    """Proposed by agents, and not approved yet."""
    running_executions: int
    max_concurrent: int | None
    """The global limit; None where none is set."""
    recent_failures: int
    """Runs that failed within the last 24 hours."""
    planner_lag_ms: int
    """How long the oldest unplanned slot has been due."""
    ready_runs: int
    runs_without_node: int
    """Ready runs that no live node can run."""
    waiting_runs: int
    """Runs that wait for a time, a check, a person, or their turn."""
    waiting_approvals: int
    oldest_approval: datetime | None
    spend_today: str
    tokens_today: int
    throttles: list[Throttled]


class JobInput(Struct, frozen=True):
    name: str
    """The name in the payload."""
    kind: str
    required: bool
    default: Any
    help: str
    example: Any


class Job(Struct, frozen=True):
    name: str
    help: str
    runs: Literal["function", "agent", "event"]
    """Whether a run calls a function, wakes an agent or emits an event."""
    destructive: bool
    """Whether runs need approval under `owner_approve`."""
    owner_only: bool
    """Whether only the owner may schedule it."""
    services: list[str]
    inputs: list[JobInput]
    """The inputs in the payload; empty where any payload is taken."""
    installed: bool
    """Whether the process that answers has the job."""
    engines: int
    """The number of running engines that have the job."""


class Finding(Struct, frozen=True):
    what: str
    ok: bool | None
    """None where it cannot be known."""
    sentence: Content[str]
    """With paths, commands and errors, as people need them."""
    fix: Content[str | None] = None
    """The command that fixes it."""


class Tool(Struct, frozen=True):
    """An agent with its tool, or a tool that is installed and has no agent yet."""

    agent: str | None
    runner: str
    path: str | None
    """None when the tool is not installed."""
    version: str | None
    credential: str | None
    """The variable or the file by which the tool logs in; None when there is none, or when it needs none."""
    needs_credential: bool
    permission: str | None
    """The permission mode of the agent; without an agent, the one in which an unattended run is of use."""
    risk: str | None
    """What that mode allows, where the tool would otherwise ask a person."""
    install: str | None
    """How to install the tool."""


class Backup(Struct, frozen=True):
    path: str
    bytes: int


class Whoami(Struct, frozen=True):
    role: Role
    name: str
    run_id: str | None
    rights: list[str]
    timezone: str
    """The person's time zone; without one, that of the machine of the engine."""
    now: datetime
    person: str | None = None
    """The person who calls; None for the owner of the store, programs and agents."""


class Token(Struct, frozen=True):
    id: str
    name: str
    role: Role
    rights: list[str] | None
    """Which of its role's rights; None: all of them."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    person: str | None = None
    """The person whose token it is; None for that of a program."""
    revoked_at: datetime | None = None
    used_at: datetime | None = None


class NewToken(Struct, frozen=True):
    id: str
    token: str
    """Shown here and never again."""
    name: str
    role: Role
    rights: list[str] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    person: str | None = None


class Invitation(Struct, frozen=True):
    """A link by which a person joins."""

    person: str
    role: Role
    link: str
    """Works once, for 7 days. Shown here and never again. Without a server it is only a path."""
    mailed: bool
    """Whether the mail server took it."""
    expires_at: datetime


class Departure(Struct, frozen=True):
    """What became of what a person had."""

    person: str
    given_to: str
    """To whom their schedules belong."""
    schedules: int
    sessions: int
    tokens: int
    votes: int
    """Votes on open requests, which do not count any more."""
    program_tokens: list[str]
    """Ids of valid tokens of programs that the person made, and may know."""


class NewSession(Struct, frozen=True):
    id: str
    path: str | None
    """Path of the link that opens the session, once. Shown here and never again."""
    expires_at: datetime


class NewChatLink(Struct, frozen=True):
    """A code that links a person to a user of a chat service."""

    person: str
    service: LinkedService
    bot: str
    """The name of the bot, such as @matins_bot."""
    code: str
    """Shown here and never again."""
    expires_at: datetime


class BrowserSession(Struct, frozen=True):
    """A browser that is logged in, or a link that was not opened yet."""

    id: str
    name: str
    role: Role
    rights: list[str] | None
    """Which of its role's rights; None: all of them."""
    token: str | None
    """The token that it came from and ends with."""
    person: str | None
    """The person whose session it is; it ends with the person."""
    method: SignInMethod
    """How it was opened."""
    this: bool
    """Whether the caller speaks from it."""
    created_at: datetime
    opened_at: datetime | None
    used_at: datetime | None
    expires_at: datetime


class FileChange(Struct, frozen=True):
    kind: str
    name: str
    change: Literal["added", "changed", "removed", "past"]
    line: int
    settings: list[SettingChange]
    notes: list[str]
    """What settings of the record do not do."""
    was: str | None = None
    """The name before, where the file gives it another one."""


class FilePlan(Struct, frozen=True):
    """What the file changes."""

    name: str
    """The name that owns what it defines."""
    path: str
    state: Literal["ready", "same", "waits", "applied"]
    added: int
    removed: int
    changed: int
    same: int
    note: str
    waits: str | None
    """Why a person should look before it is applied."""
    entries: list[FileChange]
    digest: str


class BudgetUsage(Struct, frozen=True):
    """What a budget has seen in one period."""

    budget: str
    of: str
    period: str
    money: str
    tokens: int
    money_reserved: str
    tokens_reserved: int
