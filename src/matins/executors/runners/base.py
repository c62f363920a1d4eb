"""What every runner is given and gives back: one vocabulary, whatever the tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

Declared = Literal["failed", "nothing"]
StoppedBy = Literal["turns", "money"]


@dataclass(frozen=True, slots=True)
class Call:
    """One waking of an agent. What is None is left to the tool."""

    prompt: str
    workdir: str
    """Where the tool is started."""
    model: str | None = None
    session: str | None = None
    """Go on with this one."""
    new_session: str | None = None
    """The id of a fresh one, for the tools that let us choose it; `Told.session` says what it became."""
    permission_mode: str | None = None
    """In the tool's own words."""
    allowed_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    max_cost_usd: float | None = None
    """For the tools that can stop at an amount; with the others it holds only before and after a run."""
    extra_args: tuple[str, ...] = ()
    """Further arguments of the tool's own; of `shell`, the whole command."""


class Command(NamedTuple):
    """What to start, in the call's workdir."""

    argv: tuple[str, ...]
    stdin: bytes
    """All of it; then the end of file."""
    env_add: Mapping[str, str] = {}
    env_drop: tuple[str, ...] = ()
    """What would tell the tool that it runs inside another of its kind."""
    finals: tuple[bytes, ...] = ()
    """A line of stdout with one of these is the final event."""


class Limit(NamedTuple):
    """A provider that does not serve us for now: not the agent's failure."""

    provider: str
    resets_at: int | None
    """UTC milliseconds, where the tool says when."""
    reason: str
    wait_ms: int | None = None
    """How long it asks to wait, where it says that instead."""

    def until(self, now: int) -> int | None:
        if self.resets_at is None and self.wait_ms is not None:
            return now + self.wait_ms
        return self.resets_at


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool's stream said, all of it."""

    executed: bool
    """Its final event came."""
    succeeded: bool
    """By the tool's word, unless the agent declared that it failed."""
    session: str | None = None
    turns: int | None = None
    tokens_in: int = 0
    """Without those that came from a cache."""
    tokens_out: int = 0
    tokens_cached: int = 0
    cost_usd: float | None = None
    cost_reported: bool = False
    """Whether the tool told the money; where it did not, a price table must."""
    text: str = ""
    """The agent's last words, without the line that declares an outcome."""
    structured: Any | None = None
    denials: tuple[str, ...] = ()
    limit: Limit | None = None
    error: str | None = None
    declared: Declared | None = None
    """The agent's own word on how it went."""
    reason: str | None = None
    """Why it said so."""
    stopped_by: StoppedBy | None = None
    """The limit of the call at which the tool stopped."""
    cumulative: bool = False
    """Whether the tokens are those of the whole session so far; see `of_run`."""

    def of_run(self, before: tuple[int, int, int]) -> Told:
        """With the tokens of this run alone, given those (in, out, cached) that its session had before."""
        now = (self.tokens_in, self.tokens_out, self.tokens_cached)
        if not self.cumulative or any(new < old for new, old in zip(now, before, strict=True)):
            return replace(self, cumulative=False)  # a counter that went back has begun anew
        fresh, out, cached = (new - old for new, old in zip(now, before, strict=True))
        return replace(self, tokens_in=fresh, tokens_out=out, tokens_cached=cached, cumulative=False)


class Reader(Protocol):
    """Reads one run's output. It never raises, whatever the bytes, and what it keeps is bounded."""

    def feed(self, line: bytes) -> None:
        """The next line of stdout, with or without its end."""
        ...

    def close(self, exit_code: int | None) -> Told:
        """None when it did not end by itself."""
        ...


class Runner(Protocol):
    name: str
    program: str
    """Found on PATH; empty where the call names it."""
    provider: str
    """Whose limits hold it back."""
    chooses_session: bool
    """Whether the id of a fresh session is ours to give."""

    def refuse(self, call: Call) -> None:
        """Raise InvalidInput for what the tool cannot do, before anything is spent."""
        ...

    def command(self, call: Call) -> Command:
        """Of a call that was not refused."""
        ...

    def reader(self) -> Reader: ...
