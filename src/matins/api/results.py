"""What use cases give back. The fields are those of the JSON document, in its order.

Ids are texts, instants are aware datetimes in UTC, amounts are texts with their currency.
"""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.model.access import Role
from matins.model.approval import ApprovalKind, ApprovalState
from matins.model.call import CallOutcome, CallSource
from matins.model.incident import IncidentState
from matins.model.notice import IncidentKind
from matins.model.schedule import MissionStatus, ScheduleState
from matins.model.subscription import DeliveryState, SubscriptionState
from matins.model.thread import ThreadState
from matins.model.transcript import EntryKind

RunStateName = Literal[
    "waiting", "queued", "ready", "running", "held", "succeeded", "failed", "skipped", "missed", "cancelled", "denied",
    "expired", "interrupted", "unknown", "over_budget", "blocked",
]  # fmt: skip


class FilePlace(Struct, frozen=True):
    """Where a file defines a record."""

    path: str
    line: int


class RunStep(Struct, frozen=True):
    """A step of a run."""

    number: int
    title: str
    after: list[str]
    agent: str
    job: str
    run_id: str | None
    """The step's own run; None before the whole run starts."""
    state: RunStateName
    status: str
    """The state; of a step that waits, what it waits for."""
    reason: str | None
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    outcome: Any


class Run(Struct, frozen=True):
    """The record of one slot, or of one manual start."""

    id: str
    schedule_id: str
    schedule: str
    rev: int
    state: RunStateName
    status: str
    """The state; of a run that waits, what it waits for."""
    live: bool
    slot: datetime | None
    """The nominal instant; None for a manual run."""
    request_key: str | None
    slots: int
    """How many slots this record stands for."""
    first_slot: datetime | None
    """The first of them, when there are several."""
    attempt: int
    epoch: int
    not_before: datetime | None
    planned_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    reason: str | None
    evidence: dict[str, Any] | None
    outcome: Any
    parent: str | None
    """The run whose step this is."""
    step: int | None
    """The number of the step, from 1."""
    retry_of: str | None
    """The run that this one repeats."""
    steps: list[RunStep]
    """The steps of the run, where one run is asked for; mostly there are none."""


class CallRun(Struct, frozen=True):
    """A run that a call started or joined, or its record when a gate stopped it."""

    id: str
    schedule: str
    state: RunStateName
    reason: str | None


class Call(Struct, frozen=True):
    """A call from outside: a delivery, a chat message, or the end of another schedule's run."""

    id: str
    source: CallSource
    name: str
    key: str
    type: str | None
    sender: str | None
    hops: int
    """The number of schedules that the chain of calls has passed."""
    at: datetime
    outcome: CallOutcome
    reason: str | None
    """Why the call started nothing."""
    duplicate: bool
    """Whether the key was known: the result is the first call."""
    runs: list[CallRun]
    text: str | None
    body: Any
    """None in lists, and when the body is no longer kept."""


class Incident(Struct, frozen=True):
    """A trouble that people hear of once, however often it happens."""

    id: str
    state: IncidentState
    kind: IncidentKind
    schedule_id: str | None
    """None for an incident of no schedule, or of several."""
    schedule: str | None
    agent: str | None
    run_id: str | None
    """The newest run."""
    summary: str
    error: str | None
    count: int
    """How often it happened."""
    messages: int
    """How many messages were told about it."""
    opened_at: datetime
    last_at: datetime
    reminds_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    resolved_at: datetime | None
    resolution: str | None
    """How it ended: recovered, paused, resumed, ended, changed, deleted, decided, quiet."""


class TestedDestination(Struct, frozen=True):
    """Whether a test message arrived at a destination."""

    destination: str
    kind: str
    delivered: bool
    error: str | None


class TestedSchedule(Struct, frozen=True):
    """What a delivery means for a schedule that listens to it."""

    schedule: str
    matches: bool
    reason: str | None
    """Why the delivery does not concern the schedule."""
    prompt: str | None
    """The prompt with the delivery's values."""


class InboundTest(Struct, frozen=True):
    """A delivery that Matins signed itself."""

    name: str
    verified: bool
    key: str
    type: str | None
    outcome: Literal["accepted", "ignored", "duplicate", "dry_run"]
    reason: str | None
    schedules: list[TestedSchedule]
    runs: list[CallRun]


class SlotBar(Struct, frozen=True):
    """One of the last records of a schedule."""

    run_id: str
    at: datetime
    """The slot; of a manual run, when it was requested."""
    state: RunStateName
    reason: str | None
    slots: int
    """How many slots this record stands for."""


class ScheduleCounts(Struct, frozen=True):
    """The number of schedules in each tab of the list."""

    all: int
    active: int
    attention: int
    """Those that a person should look at: broken, pending, paused after failures, failing, or with a run that waits."""
    paused: int
    agents: int
    """Those that agents made."""


class Found(Struct, frozen=True):
    """What a search found."""

    kind: Literal["schedule", "run", "agent"]
    id: str
    title: str
    agent: str | None
    detail: str
    """The state of a schedule or run, or the runner of an agent."""


class Schedule(Struct, frozen=True):
    """A schedule: its settings, its state, its last run."""

    id: str
    name: str
    agent: str
    state: ScheduleState
    enabled: bool
    rev: int
    trigger: dict[str, Any]
    trigger_text: str
    """The trigger as a sentence."""
    timezone: str
    job: str
    prompt: str | None
    description: str | None
    labels: dict[str, str]
    next_run_at: datetime | None
    due_at: datetime | None
    """When the next slot is planned: later than the slot by its jitter."""
    ends_at: datetime | None
    note: str | None
    paused_by: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    executions: int
    max_executions: int | None
    failures: int
    """How many runs failed in a row."""
    created_at: datetime
    created_by: str
    creator_role: str
    creator_run: str | None
    parent: str | None
    depth: int
    updated_at: datetime
    settings: dict[str, Any]
    """All settings whose value is not the default, as people write them."""
    last_run_at: datetime | None
    last_run: Run | None
    file: FilePlace | None
    """Where it is defined, when a file defines it."""
    notes: list[str] = []
    """What the call did besides, such as creating an agent."""
    bars: list[SlotBar] = []
    """The last records, the oldest first, where a list is asked for them."""


class Mission(Struct, frozen=True):
    """A schedule with steps, seen as a mission."""

    id: str
    name: str
    agent: str
    status: MissionStatus
    recurring: bool
    when: str | None
    """The time as it was written; None for a draft."""
    ends_at: datetime | None
    next_run_at: datetime | None
    """The next slot, or the time of the next retry."""
    last_run_at: datetime | None
    """When the last run started."""
    last_run: Run | None
    """The newest run; where one mission is asked for, with its steps."""
    steps: list[dict[str, Any]]
    note: str | None
    """Why the mission is paused."""
    created_at: datetime
    file: FilePlace | None
    """Where it is defined, when a file defines it."""
    notes: list[str] = []
    """What the call did besides, such as creating an agent."""


class Vote(Struct, frozen=True):
    voter: str
    vote: Literal["approve", "deny"]
    at: datetime
    note: str | None
    digest: str
    """Of what this voter saw."""


class Approval(Struct, frozen=True):
    """A request to people, bound to a digest of what it is about."""

    id: str
    kind: ApprovalKind
    schedule_id: str
    schedule: str
    run_id: str | None
    rev: int
    digest: str
    policy: str
    approvers: list[str]
    required: int
    default: str
    requested_by: str
    requester_role: str
    requested_at: datetime
    expires_at: datetime
    state: ApprovalState
    decided_at: datetime | None
    request: dict[str, Any]
    """What would be done, in terms that a person can judge."""
    votes: list[Vote]


class Check(Struct, frozen=True):
    """What a guard, a pre-check or a hook decided about a run."""

    epoch: int
    gate: str
    at: datetime
    duration_ms: int
    exit_code: int | None
    verdict: str
    output: str


class GateReport(Struct, frozen=True):
    gate: str
    passes: bool | None
    """None if only the gate itself can tell: code, a command, a person."""
    sentence: str
    evidence: dict[str, Any] | None = None


class AttemptSummary(Struct, frozen=True):
    epoch: int
    worker: str
    started_at: datetime


class RunDetail(Struct, frozen=True):
    run: Run
    sentence: str
    attempts: list[AttemptSummary]
    checks: list[Check]
    approvals: list[Approval]
    calls: list[Call]
    """The calls that the run stands for, the newest first."""
    """Requests about this run, with their votes; the newest first."""


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
    """runs, deferred, coalesced, queued or skipped; of a schedule that does not run, its state."""
    sentence: str
    until: datetime | None
    """When a deferred one continues."""
    gates: list[GateReport]
    """The gates that can be predicted, in their order."""


class Explanation(Struct, frozen=True):
    """Why a schedule ran or did not run."""

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
    title: str
    after: list[str]
    agent: str
    job: str
    cost_per_day: str
    tokens_per_day: int | None


class Forecast(Struct, frozen=True):
    schedule: str
    agent: str
    state: ScheduleState
    standing: str
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


class Figures(Struct, frozen=True):
    """The median, and what 19 of 20 stay below; None while nothing is known."""

    p50: int | None
    p95: int | None


class MoneyFigures(Struct, frozen=True):
    p50: str | None
    p95: str | None


class Usual(Struct, frozen=True):
    """What runs of a schedule usually take, by its last ones."""

    schedule_id: str
    schedule: str
    agent: str
    runs: int
    """The number of runs that started, among those looked at."""
    succeeded: int
    duration_ms: Figures
    """Of runs that succeeded."""
    delay_ms: Figures
    """From when a run was due to its start."""
    cost: MoneyFigures
    tokens: Figures


class LiveRun(Struct, frozen=True):
    """A run that has not ended, beside what is usual."""

    run: Run
    agent: str
    worker: str | None
    """The process that runs it."""
    usual_ms: int | None
    """The median duration of the last runs that succeeded."""
    slow_ms: int | None
    """What 19 of 20 of them stay below."""
    cost: str | None
    """What it has spent in former attempts and in steps."""
    tokens: int | None


class Span(Struct, frozen=True):
    """A part of the time from due to end."""

    name: Literal["planned", "waiting", "check", "approval", "attempt", "step"]
    label: str
    start: datetime
    end: datetime | None
    """None while it goes on."""
    duration_ms: int | None
    state: str | None
    """How an attempt, a check, an approval or a step ended."""


class RunFacts(Struct, frozen=True):
    """What happened to a run, from due to its end."""

    run: Run
    agent: str
    sentence: str
    due_at: datetime
    executed: bool
    """Whether an attempt started."""
    succeeded: bool | None
    """None while it is not over."""
    delivered: bool | None
    """Whether its end reached every subscriber; None before its end, and where nobody subscribes to it."""
    cost: str | None
    tokens: int | None
    estimated: bool
    """Whether the cost is computed from prices."""
    worker: str | None
    spans: list[Span]
    usual: Usual
    last_success: str | None
    """The id of the last run of the schedule before this one that succeeded."""


class SettingChange(Struct, frozen=True):
    setting: str
    before: Any
    after: Any


class EditForecast(Struct, frozen=True):
    """What an edit would change."""

    before: Forecast
    after: Forecast
    settings: list[SettingChange]
    voids: list[str]
    """Approvals that would be requested again."""


class NewForecast(Struct, frozen=True):
    """What adding a schedule would do."""

    forecast: Forecast
    settings: dict[str, Any]
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


class CatchUp(Struct, frozen=True):
    schedule: str
    since: datetime
    summary: str
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


class Pause(Struct, frozen=True):
    """A pause of several schedules."""

    id: str
    note: str | None
    by: str
    at: datetime
    until: datetime | None
    schedules: list[str]


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


class Snapshot(Struct, frozen=True):
    """The settings of a schedule when a run of it was made."""

    run_id: str
    schedule_id: str
    schedule: str
    agent: str
    rev: int
    job: str
    prompt: str | None
    payload: Any
    settings: dict[str, Any]


class Output(Struct, frozen=True):
    text: str
    offset: int
    """Where it begins: later than requested where that is not kept."""
    next: int
    """Where to continue."""
    total: int
    """How many bytes there are by now."""
    over: bool
    """Nothing more will come after this."""


class TranscriptEntry(Struct, frozen=True):
    kind: EntryKind
    text: str
    continues: bool = False
    """Whether it continues the last entry that was read before."""


class Transcript(Struct, frozen=True):
    """Output, as people read it."""

    entries: list[TranscriptEntry]
    offset: int
    """Where it begins in the output: later than requested where that is not kept, or inside a line."""
    next: int
    """Where to continue."""
    total: int
    over: bool
    """Nothing more will come after this."""


class Thread(Struct, frozen=True):
    """A conversation with an agent."""

    id: str
    agent: str
    channel: str | None
    session: str | None
    """The tool's own id of the conversation."""
    session_name: str | None
    state: ThreadState
    tokens: list[int]
    """Input, output and cached tokens of the session so far: for tools that count up."""
    created_at: datetime
    updated_at: datetime


class ThreadAssignment(Struct, frozen=True):
    """The conversation in which a run happened."""

    run_id: str
    thread: Thread
    how: str
    """As requested, or by which fallback."""


class Message(Struct, frozen=True):
    id: str
    thread_id: str
    run_id: str | None
    role: str
    text: str
    at: datetime


class Event(Struct, frozen=True):
    id: str
    at: datetime
    type: str
    schedule_id: str | None
    schedule: str | None
    """Its name."""
    agent: str | None
    run_id: str | None
    data: dict[str, Any]


class Delivery(Struct, frozen=True):
    """An event that a subscription has not received yet."""

    event: str
    schedule_id: str | None
    attempts: int
    next_at: datetime | None
    last_error: str | None
    state: DeliveryState


class Audit(Struct, frozen=True):
    """Whether every event is as it was written."""

    events: int
    chains: int
    seal: str | None
    """The newest one; None while there is none."""
    problems: list[str]
    """The first bad row of each chain, and what is wrong with the seals."""


class Throttled(Struct, frozen=True):
    provider: str
    resets_at: datetime


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
    sentence: str
    fix: str | None = None
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


class AttentionItem(Struct, frozen=True):
    """Something that needs a person."""

    kind: Literal["no_engine", "overdue", "approval", "held", "stuck", "paused", "broken", "incident"]
    sentence: str
    command: str
    """What to type."""
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
    """Where the caller is: the run that it speaks from. Outside a run, only `role` and `name` are set."""

    role: Role
    name: str
    run_id: str | None = None
    schedule: str | None = None
    agent: str | None = None
    runner: str | None = None
    slot: datetime | None = None
    attempt: int | None = None
    workdir: str | None = None
    thread: str | None = None
    channel: str | None = None
    session: str | None = None
    session_name: str | None = None
    limits: list[LimitLeft] = []
    """What the run may still spend."""
    reported: str | None = None
    """The outcome that the run has reported."""


class Token(Struct, frozen=True):
    id: str
    name: str
    role: Role
    rights: list[str] | None
    """Which of its role's rights; None: all of them."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
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


class NewSession(Struct, frozen=True):
    id: str
    path: str | None
    """Path of the link that opens the session, once. Shown here and never again."""
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


class FilePlan(Struct, frozen=True):
    """What the file changes."""

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


class NewWebhook(Struct, frozen=True):
    name: str
    url: str
    types: list[str]
    secret: str
    """Shown here and never again."""
    state: SubscriptionState
    created_at: datetime
    created_by: str
