"""A run, its thread, entries of its transcript.

Threads: the conversations that runs belong to, and their messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Literal, NamedTuple


class GatesPassed(IntFlag):
    """Gates that need a check or a person, and that a run has passed."""

    CHECKED = 1
    APPROVED = 2


class RunState(IntEnum):
    """A run below 10 is live. A run from 10 on has ended and never changes again."""

    WAITING = 0
    QUEUED = 1
    READY = 2
    STARTING = 3
    RUNNING = 4
    HELD = 5
    SUCCEEDED = 10
    FAILED = 11
    SKIPPED = 12
    MISSED = 13
    CANCELLED = 14
    DENIED = 15
    EXPIRED = 16
    INTERRUPTED = 17
    UNKNOWN = 18
    OVER_BUDGET = 19
    BLOCKED = 20

    @property
    def live(self) -> bool:
        return self < RunState.SUCCEEDED

    @property
    def displayed(self) -> str:
        """The state as people see it. A run that a worker holds is running."""
        return RunState.RUNNING.label if self is RunState.STARTING else self.label

    @property
    def label(self) -> str:
        return self.name.lower()


class StepId(NamedTuple):
    """A step by the number of its run and its own."""

    run: int
    step: int

    def __str__(self) -> str:
        return f"{self.run}/{self.step}"


BackfillState = Literal["running", "paused", "done", "cancelled"]
BackfillChoice = Literal["missing", "failed", "all"]
"""Slots that did not run; those that failed too; all of them again."""


class Given(NamedTuple):
    """What a run was started with, beside the settings of its schedule."""

    input: Any = None
    fenced: tuple[str, ...] = ()
    """The names of inputs that are texts of a principal who may not change the schedule."""
    prompts: Mapping[str, str] = {}
    """The prompts of job types with this input, by the number of the step; "0" for a run without steps."""
    model: str | None = None
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run in the store. Instants are UTC milliseconds."""

    id: int
    schedule_id: int
    schedule: str
    agent: str
    """That of the schedule."""
    rev: int
    state: RunState
    slot: int | None
    """The nominal instant; None for a manual run."""
    request_key: str | None
    slots: int
    """The number of slots that this run covers."""
    first_slot: int | None
    """The first of them, if there are several."""
    epoch: int
    attempt: int
    not_before: int | None
    planned_at: int
    started_at: int | None
    ended_at: int | None
    reason: str | None
    evidence: dict[str, Any] | None
    outcome: Any
    cleared: int = 0
    """The `GatesPassed` of the run."""
    parent: int | None = None
    """The run whose step this is."""
    step: int = 0
    """The number of the step, from 1; 0 for a whole run."""
    round: int | None = None
    """Which attempt of its parent made the step."""
    retry_of: int | None = None
    """The run whose successful steps this one carried over."""
    given: Given | None = None
    """What it was started with, if there was anything."""
    for_slot: int | None = None
    """The past slot that a run without a slot makes up for."""
    backfill: int | None = None
    """The backfill that made it."""

    @property
    def status(self) -> str:
        """The state as text; for a waiting run, the reason of the wait."""
        return self.reason or "waiting" if self.state is RunState.WAITING else self.display_state

    @property
    def display_state(self) -> str:
        return self.state.displayed


class Usage(NamedTuple):
    """The usage of a run, in micro-dollars and tokens."""

    money: int = 0
    tokens: int = 0
    estimated: bool = False
    """Whether the money is computed from prices, not reported by the provider."""
    invalid: bool = False
    """Whether the reported cost cannot be right: not finite, negative or absurd. The reservation is charged instead."""

    def exceeds(self, money: int | None, tokens: int | None) -> bool:
        return (money is not None and self.money > money) or (tokens is not None and self.tokens > tokens)


class ProviderLimit(NamedTuple):
    """A provider's rate limit, until an instant."""

    provider: str
    resets_at: int | None
    reason: str
    outage: bool = False
    """The provider has a problem of its own. If it lasts, the run fails."""
    login: str | None = None
    """The command by which a person logs in again, if the provider refuses the tool's key or login."""
    affects: tuple[str, ...] = ()
    """The agents that have the same tool and login; empty for all of the provider."""


class AgentTurn(NamedTuple):
    """A prompt to an agent, and its answer."""

    prompt: str
    text: str
    session: str | None
    """The tool's id of the session."""
    session_usage: tuple[int, int, int, int] | None = None
    """Input, output and cached tokens and micro-dollars of the session so far, for tools that report totals."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt, as the executor reports it."""

    succeeded: bool
    result: Any = None
    """The return value of the job, if it can be written as JSON."""
    error: str | None = None
    timed_out: bool = False
    cancelled: bool = False
    usage: Usage | None = None
    limit: ProviderLimit | None = None
    """The provider's rate limit; not a failure of the agent."""
    over_budget: bool = False
    """The attempt was stopped because it exceeded its spending limit."""
    turn: AgentTurn | None = None
    interrupted: bool = False
    """The attempt was stopped because Matins was stopped."""
    lost: bool = False
    """The outcome is unknown."""
    no_work: bool = False
    """The reason, if there was no work."""
    no_agent: bool = False
    """Whether the agent of the run does not exist."""
    target_gone: bool = False
    """The tool does not know the session to continue, and did nothing."""
    denials: tuple[str, ...] = ()
    """What the agent wanted to do and was not allowed to."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a success of which nothing but the result is recorded."""
        return self.succeeded and self.usage is None and self.turn is None and not self.denials


DONE = Outcome(True)
"""The outcome of an attempt that succeeded and has nothing to say."""


ThreadState = Literal["waiting", "running", "closed"]


class Thread(NamedTuple):
    id: int
    agent: str
    channel: str | None
    session: str | None
    """The tool's id of the conversation."""
    session_name: str | None
    state: ThreadState
    usage: tuple[int, int, int, int]
    """Input, output and cached tokens and micro-dollars of the session so far, for tools that report totals."""
    created_at: int
    updated_at: int
    fresh_run: int = 0
    """The first run of the present conversation."""
    fresh_message: int = 0
    """Messages up to this one belong to earlier conversations."""
    closing_run: int | None = None
    """The run that was asked to write down what the next conversation must know."""
    kept: str | None = None
    """What it wrote."""
    host: str | None = None
    """The node whose tool has the session, as far as it is known."""


class Message(NamedTuple):
    id: int
    thread_id: int
    run_id: int | None
    role: str
    text: str
    at: int


class ThreadAssignment(NamedTuple):
    """The thread of a run, and how it was chosen: as requested, or by a fallback."""

    run_id: int
    thread: Thread
    how: str


EntryKind = Literal["words", "thought", "call", "result", "note", "error", "line"]
"""Words of the agent, its thoughts, a tool that it called, what came back, a remark, a problem; or a line as it was."""


class Entry(NamedTuple):
    kind: EntryKind
    text: str
    part_of: str | None = None
    """The message that arrives in pieces: entries in a row with the same one are one entry."""
