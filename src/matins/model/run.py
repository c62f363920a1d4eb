"""A run: the record of one slot, or of one manual start."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

CHECKED, APPROVED = 1, 2


class RunState(IntEnum):
    """Below 10 a run is live; from 10 on it is over and never changes again."""

    PARKED = 0
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
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a run. Instants are UTC milliseconds."""

    id: int
    schedule_id: int
    schedule: str
    rev: int
    state: RunState
    slot: int | None
    """The nominal instant; None for a manual run."""
    request_key: str | None
    covered: int
    """How many slots this record stands for."""
    covered_from: int | None
    """The first of them, when there are several."""
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
    """Which gates with effects it has passed: CHECKED, APPROVED."""

    @property
    def status(self) -> str:
        """Its state in one word; of a run that waits for more than its turn, what it waits for."""
        return self.reason or "parked" if self.state is RunState.PARKED else self.said

    @property
    def said(self) -> str:
        """Its state as people say it: a run that a worker has is running."""
        return RunState.RUNNING.word if self.state is RunState.STARTING else self.state.word


class Usage(NamedTuple):
    """What a run has spent, in micro-dollars and tokens."""

    money: int = 0
    tokens: int = 0
    estimated: bool = False
    """Whether the money was reckoned from a price table rather than told by the provider."""

    def over(self, money: int | None, tokens: int | None) -> bool:
        return (money is not None and self.money > money) or (tokens is not None and self.tokens > tokens)


class ProviderLimit(NamedTuple):
    """A provider that does not serve us until an instant."""

    provider: str
    resets_at: int | None
    reason: str


class Conversation(NamedTuple):
    """What was said to an agent, and what it answered."""

    prompt: str
    text: str
    session: str | None
    """The tool's own id of it."""
    session_tokens: tuple[int, int, int] | None = None
    """In, out and cached, of the session so far: for tools that count up."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, as the executor saw it."""

    succeeded: bool
    result: Any = None
    """What the job returned, where JSON can hold it."""
    error: str | None = None
    timed_out: bool = False
    cancelled: bool = False
    usage: Usage | None = None
    limit: ProviderLimit | None = None
    """The provider refused: not the agent's failure."""
    over_budget: bool = False
    """Ended because it had spent what it may."""
    told: Conversation | None = None
    interrupted: bool = False
    """Ended because Matins itself was stopped."""
    lost: bool = False
    """Nobody knows how it ended."""
    nothing_to_do: str | None = None
    """There was no work for it: the reason."""
    target_gone: bool = False
    """Its tool does not know the session that was to go on, and has done nothing."""
