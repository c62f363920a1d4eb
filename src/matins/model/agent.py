"""Who is woken: a runner, where it works, and what it may."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

TargetKind = Literal["fresh", "channel", "session", "thread"]
Fallback = Literal["fresh", "skip", "wait"]


class Target(NamedTuple):
    """Where a run lands."""

    kind: TargetKind = "fresh"
    channel: str | None = None
    session: str | None = None
    """The tool's own id of a conversation."""
    session_name: str | None = None
    thread: int | str | None = None
    """A text is another system's name for one: there is no such thread here."""


FRESH = Target()


@dataclass(frozen=True, slots=True)
class Agent:
    """Durations are milliseconds, money is micro-dollars."""

    name: str
    runner: str
    model: str | None = None
    workdir: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    """Names and values; a value such as `env:NAME` or `file:/path` is a reference that is read when a run starts."""
    tools: tuple[str, ...] = ()
    permission_mode: str | None = None
    max_turns: int | None = None
    wall_ms: int | None = 3_600_000
    idle_ms: int | None = 900_000
    after_final_ms: int | None = 30_000
    max_cost: int | None = None
    max_concurrent: int | None = None
    provider: str | None = None
    """Whose limits hold for it; the runner's own where it is not said."""
    target: Target = FRESH
    url: str | None = None
    """Of an endpoint, for runners that call one."""
    command: tuple[str, ...] = ()
    """For the shell runner."""
    arguments: tuple[str, ...] = ()
    """More arguments for the tool."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """What only its runner knows."""
