"""Results: runs, schedules, events."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.model.call import CallOutcome, CallSource
from matins.model.destination import AnswerState, IncidentKind
from matins.model.event import DeliveryState, IncidentState, SubscriptionState
from matins.model.policies import ApprovalKind, ApprovalState
from matins.model.run import BackfillChoice, BackfillState, EntryKind, ThreadState
from matins.model.schedule import MissionStatus, ScheduleState
from matins.model.words import Content

RunStateName = Literal[
    "waiting", "queued", "ready", "running", "held", "succeeded", "failed", "skipped", "missed", "cancelled", "denied",
    "expired", "interrupted", "unknown", "over_budget", "blocked",
]  # fmt: skip


class RunStep(Struct, frozen=True):
    """A step of a run."""

    number: int
    title: Content[str]
    after: Content[list[str]]
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
    outcome: Content[Any]


class RunAnswer(Struct, frozen=True):
    """The answer of a run, or a message during it, for one destination."""

    destination: str
    """A destination; `thread:slack` for the place of the run's thread in a chat."""
    number: int
    """0 for the answer of the run's end; messages during the run count from 1."""
    state: AnswerState
    sentence: str
    quote: Content[str | None]
    """What the destination answered."""
    command: str | None
    """What sends it again, if it did not arrive."""
    reason: str | None
    """Why it is withheld or discarded, or what it waits for."""
    parts: int | None
    """The number of messages that it consists of; None before the first attempt."""
    parts_sent: int
    attempts: int
    next_at: datetime | None
    sent_at: datetime | None
    """When the destination confirmed it."""
    receipt: Content[str | None]
    """The destination's id of the first message."""
    error: Content[str | None]


class Run(Struct, frozen=True):
    """The record of one slot, or of one manual start."""

    id: str
    schedule_id: str
    schedule: str
    agent: str
    """That of the schedule; empty for a job."""
    rev: int
    state: RunStateName
    status: str
    """The state; of a run that waits, what it waits for."""
    live: bool
    slot: datetime | None
    """The nominal instant; None for a manual run."""
    for_slot: datetime | None
    """The past slot that a run without a slot stands for."""
    backfill: str | None
    """The backfill that made it."""
    request_key: Content[str | None]
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
    evidence: Content[dict[str, Any] | None]
    outcome: Content[Any]
    parent: str | None
    """The run whose step this is."""
    step: int | None
    """The number of the step, from 1."""
    retry_of: str | None
    """The run that this one repeats."""
    input: Content[Any]
    """What the run was given over the payload of its schedule; None if nothing was."""
    model: str | None
    """The model that was chosen for this run alone."""
    effort: str | None
    steps: list[RunStep]
    """The steps of the run, where one run is asked for; mostly there are none."""
    answers: list[RunAnswer] = []
    """What became of its answer at each destination, where one run is asked for."""


class Figures(Struct, frozen=True):
    """The median, and what 19 of 20 stay below; None while nothing is known."""

    p50: int | None
    p95: int | None


class MoneyFigures(Struct, frozen=True):
    p50: str | None
    p95: str | None


class SlotGroup(Struct, frozen=True):
    """Slots of a backfill whose newest records are alike."""

    state: RunStateName | None
    """None: they have no record."""
    reason: str | None
    slots: int
    runs: bool
    """Whether the backfill runs them."""


class BackfillPreview(Struct, frozen=True):
    """What a backfill would run, and what that usually costs."""

    schedule_id: str
    schedule: str
    agent: str
    timezone: str
    first_slot: datetime
    last_slot: datetime
    slots: int
    runs: int
    """The number of runs."""
    groups: list[SlotGroup]
    which: BackfillChoice
    newest_first: bool
    max_parallel: int
    usual_ms: int | None
    """What a run usually takes; None while nothing is known."""
    usual_cost: str | None
    duration_ms: int | None
    """What all of it takes, if each run takes what is usual."""
    cost: str | None
    notes: list[str]
    """What is different from runs at their time."""


class Backfill(Struct, frozen=True):
    """Runs for past slots."""

    id: str
    schedule_id: str
    schedule: str
    agent: str
    timezone: str
    state: BackfillState
    reason: str | None
    sentence: str
    first_slot: datetime
    last_slot: datetime
    which: BackfillChoice
    newest_first: bool
    planned: int
    """The runs of its preview."""
    made: int
    states: dict[str, int]
    """Its runs by state."""
    max_parallel: int
    max_cost: str | None
    cost: str
    """What its runs spent, or may still spend."""
    created_at: datetime
    created_by: str
    ended_at: datetime | None


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
    title: Content[str | None]
    """Of a step."""
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
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""
    due_at: datetime
    executed: bool
    """Whether an attempt started."""
    succeeded: bool | None
    """None while it is not over."""
    delivered: bool | None
    """Whether its answer arrived at all destinations that were to get it; None while it is under way, and where nobody
    is to get it."""
    unsent: str | None
    """Why nobody gets its answer."""
    cost: str | None
    tokens: int | None
    estimated: bool
    """Whether the cost is computed from prices."""
    worker: str | None
    spans: list[Span]
    usual: Usual
    last_success: str | None
    """The id of the last run of the schedule before this one that succeeded."""


class Snapshot(Struct, frozen=True):
    """The settings of a schedule when a run of it was made."""

    run_id: str
    schedule_id: str
    schedule: str
    agent: str
    rev: int
    job: str
    prompt: Content[str | None]
    payload: Content[Any]
    input: Content[Any]
    """The payload of the schedule, with what was given to the run."""
    settings: Content[dict[str, Any]]


class Output(Struct, frozen=True):
    text: Content[str]
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
    text: Content[str]
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
    channel: Content[str | None]
    session: Content[str | None]
    """The tool's own id of the conversation."""
    session_name: Content[str | None]
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
    text: Content[str]
    at: datetime


class FilePlace(Struct, frozen=True):
    """Where a file defines a record."""

    path: str
    line: int


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

    kind: Literal["schedule", "run", "agent", "approval", "incident"]
    id: str
    title: str
    agent: str | None
    detail: str
    """The state of a schedule, run, request or incident, or the runner of an agent."""
    schedule_id: str | None = None
    excerpt: Content[str | None] = None
    """Of a run that was found by what it wrote: the part around the first word."""


class ErasedRun(Struct, frozen=True):
    """What an erasure did."""

    run_id: str
    events: int
    """The number of events that lost their words."""
    files: int
    """The number of files of output that were deleted."""
    elsewhere: list[str]
    """Hosts where files of its output may be."""


class FoundLine(Struct, frozen=True):
    """A line of an output."""

    schedule_id: str
    run_id: str
    """Of a step with its number: `12/2`."""
    schedule: str
    stream: Literal["stdout", "stderr"]
    line: Content[str]


class FoundLines(Struct, frozen=True):
    """Lines of outputs, those of the newest run first."""

    lines: list[FoundLine]
    cut: list[str]
    """Runs of which more lines have it than are listed."""
    runs: int
    """The number of runs that were read."""
    bytes: int
    before: str | None
    """What goes on where this ended; None when all was read."""
    back_to: datetime | None
    """When the oldest of these runs was planned."""


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
    prompt: Content[str | None]
    description: Content[str | None]
    labels: Content[dict[str, str]]
    next_run_at: datetime | None
    due_at: datetime | None
    """When the next slot is planned: later than the slot by its jitter."""
    ends_at: datetime | None
    note: Content[str | None]
    """Why the schedule is paused, broken or rejected."""
    paused_by: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    executions: int
    """How many runs slots and calls have started."""
    manual_runs: int | None
    """How many runs were started by hand, among those that are kept; None in lists."""
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
    settings: Content[dict[str, Any]]
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
    steps: Content[list[dict[str, Any]]]
    note: Content[str | None]
    """Why the mission is paused."""
    created_at: datetime
    file: FilePlace | None
    """Where it is defined, when a file defines it."""
    notes: list[str] = []
    """What the call did besides, such as creating an agent."""


class Vote(Struct, frozen=True):
    voter: str
    vote: Literal["approve", "deny", "withdrawn"]
    at: datetime
    note: Content[str | None]
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
    request: Content[dict[str, Any]]
    """What would be done, in terms that a person can judge."""
    votes: list[Vote]


class SkippedSchedule(Struct, frozen=True):
    """A schedule that an action on many left as it is."""

    schedule: str
    reason: str


class BulkPreview(Struct, frozen=True):
    """What an action would do to the schedules that a selector selects."""

    do: str
    select: Content[str]
    total: int
    """The number of schedules that it would change."""
    sentence: str
    schedules: list[str]
    """Their names; the first thousand."""
    already: int
    """How many are already as the action makes them."""
    skipped: list[SkippedSchedule]
    digest: str
    """What `apply` expects."""


class BulkResult(Struct, frozen=True):
    """What an action on many schedules did."""

    id: str
    """Of a pause: `pause=ID` selects what it paused."""
    do: str
    total: int
    """The number of schedules that it changed."""
    schedules: list[str]
    """Their names; the first thousand."""
    already: int
    skipped: list[SkippedSchedule]


class SkippedRun(Struct, frozen=True):
    """A run that an action on many left as it is."""

    run: str
    schedule: str
    reason: str


class RunsPreview(Struct, frozen=True):
    """What an action would do to the runs that match."""

    do: str
    total: int
    """The number of runs that it would change."""
    sentence: str
    runs: list[str]
    """Their numbers, the newest first; the first thousand."""
    others: int
    """How many that match stay as they are: over already, or nothing to retry."""
    digest: str
    """What `bulk` expects."""


class RunsResult(Struct, frozen=True):
    """What an action on many runs did."""

    id: str
    do: str
    total: int
    """The number of runs that it changed."""
    runs: list[str]
    """Those that were cancelled, or made by a retry; the first thousand."""
    others: int
    skipped: list[SkippedRun]


class Pause(Struct, frozen=True):
    """A pause of several schedules."""

    id: str
    note: Content[str | None]
    by: str
    at: datetime
    until: datetime | None
    schedules: list[str]


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
    key: Content[str]
    type: Content[str | None]
    sender: Content[str | None]
    hops: int
    """The number of schedules that the chain of calls has passed."""
    at: datetime
    outcome: CallOutcome
    reason: Content[str | None]
    """Why the call started nothing."""
    duplicate: bool
    """Whether the key was known: the result is the first call."""
    runs: list[CallRun]
    text: Content[str | None]
    body: Content[Any]
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
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""
    error: Content[str | None]
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


class Cause(Struct, frozen=True):
    """One trouble of several schedules: their incidents that are open and have the same signature."""

    kind: IncidentKind
    signature: Content[str]
    """What they have in common; with `kind`, what `incidents.acknowledge_cause` takes."""
    text: Content[str]
    """The error, or what happened."""
    count: int
    """How often it happened."""
    schedules: int
    agents: list[str]
    schedule: str | None
    """The schedule with the last of them."""
    agent: str | None
    run_id: str | None
    opened_at: datetime
    last_at: datetime
    acknowledged: bool
    parts: list[int]
    """How many runs of these schedules failed in each 24th of the time since `since`."""


class TestedDestination(Struct, frozen=True):
    """Whether a test message arrived at a destination."""

    destination: str
    kind: str
    delivered: bool
    error: Content[str | None]


class TestedSchedule(Struct, frozen=True):
    """What a delivery means for a schedule that listens to it."""

    schedule: str
    matches: bool
    reason: Content[str | None]
    """Why the delivery does not concern the schedule."""
    prompt: Content[str | None]
    """The prompt with the delivery's values."""


class PingAddress(Struct, frozen=True):
    """Where work elsewhere reports to a schedule. Whoever has it can report."""

    schedule_id: str
    schedule: str
    agent: str
    path: str
    """Below the address of the daemon, or of its inbound endpoints. `/start`, `/fail` or an exit code may follow."""


class InboundTest(Struct, frozen=True):
    """A delivery that Matins signed itself."""

    name: str
    verified: bool
    key: Content[str]
    type: Content[str | None]
    outcome: Literal["accepted", "ignored", "duplicate", "dry_run"]
    reason: Content[str | None]
    schedules: list[TestedSchedule]
    runs: list[CallRun]


class Event(Struct, frozen=True):
    id: str
    at: datetime
    type: str
    schedule_id: str | None
    schedule: str | None
    """Its name."""
    agent: str | None
    run_id: str | None
    data: Content[dict[str, Any]]


class Delivery(Struct, frozen=True):
    """An event that a subscription has not received yet."""

    event: str
    schedule_id: str | None
    attempts: int
    next_at: datetime | None
    last_error: Content[str | None]
    state: DeliveryState


class Audit(Struct, frozen=True):
    """Whether every event is as it was written."""

    events: int
    chains: int
    seal: str | None
    """The newest one; None while there is none."""
    problems: list[str]
    """The first bad row of each chain, and what is wrong with the seals."""


class NewWebhook(Struct, frozen=True):
    name: str
    url: str
    types: list[str]
    secret: str
    """Shown here and never again."""
    state: SubscriptionState
    created_at: datetime
    created_by: str
