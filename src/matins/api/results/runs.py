"""Runs, their steps, checks, output and course."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.api.results.content import Content
from matins.model.thread import ThreadState
from matins.model.transcript import EntryKind

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
    steps: list[RunStep]
    """The steps of the run, where one run is asked for; mostly there are none."""


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
    """Whether its end reached every webhook; None before that is known, and where no webhook wants it."""
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
