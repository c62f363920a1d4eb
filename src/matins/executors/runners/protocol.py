"""What every runner is given and gives back: one vocabulary, whatever the tool."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from matins.net.outbound import StreamedResponse

Declared = Literal["failed", "nothing"]
StoppedBy = Literal["turns", "money"]


class RunInfo(NamedTuple):
    """Which run an agent is woken for."""

    run_id: int = 0
    schedule_id: int = 0
    schedule: str = ""
    slot: str | None = None
    """The nominal instant as local ISO text; None when started by hand."""
    attempt: int = 1
    key: str = ""
    """The same for every attempt of the run, and for no other run."""


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
    """The id of a fresh one, for the tools that let us choose it; `RunnerResult.session` says what it became."""
    permission_mode: str | None = None
    """In the tool's own words."""
    allowed_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    max_cost_usd: float | None = None
    """For the tools that can stop at an amount themselves; the others are watched, and ended there."""
    extra_args: tuple[str, ...] = ()
    """Further arguments of the tool's own; of `shell`, the whole command."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What only this runner knows."""
    run_info: RunInfo = field(default_factory=RunInfo)
    url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    """Those of the owner's own network that may be called."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What the agent is given, references resolved."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Those of its values that were references."""
    earlier: tuple[tuple[str, str], ...] = ()
    """Who said what in the thread before (user, assistant), for speakers that keep no session themselves."""


class Command(NamedTuple):
    """What to start, in the call's workdir."""

    argv: tuple[str, ...]
    stdin: bytes
    """All of it; then the end of file."""
    env_add: Mapping[str, str] = {}
    env_remove: tuple[str, ...] = ()
    """What would tell the tool that it runs inside another of its kind."""
    finals: tuple[bytes, ...] = ()
    """A line of stdout with one of these is the final event."""
    session_unknown: tuple[bytes, ...] = ()
    """With one of these, on stdout or stderr, the tool says that it does not know the session."""


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
class RunnerResult:
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
    model: str | None = None
    """Which one the tool says it used."""

    def of_run(self, before: tuple[int, int, int]) -> RunnerResult:
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

    def close(self, exit_code: int | None) -> RunnerResult:
        """None when it did not end by itself."""
        ...


@runtime_checkable
class Metered(Reader, Protocol):
    """A reader that can be asked before the end; what others spend is known only afterwards."""

    def so_far(self) -> RunnerResult:
        """The tokens and the money of the lines up to here; the rest is nobody's business yet."""
        ...


class Runner(Protocol):
    name: str
    program: str
    """Found on PATH; empty where the call names it."""
    provider: str
    """Whose limits hold it back."""
    chooses_session: bool
    """Whether the id of a fresh session is ours to give."""

    def check(self, call: Call) -> None:
        """Raise InvalidInput for what the tool cannot do, before anything is spent."""
        ...

    def command(self, call: Call) -> Command:
        """Of a call that was not refused."""
        ...

    def reader(self) -> Reader: ...


class EndpointConnection(Protocol):
    """What a speaker speaks through. It is cut at the limits of a call, and when somebody wants it to end."""

    @property
    def closed(self) -> bool:
        """Whether it is: whoever does not wait on the line should look now and then, and return."""
        ...

    def now_s(self) -> int:
        """The wall clock, in UTC seconds."""
        ...

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AbstractContextManager[StreamedResponse]:
        """Through the one door, which judges where a URL leads. Secrets of the call are taken out of what comes."""
        ...

    def over_budget(self, so_far: RunnerResult) -> bool:
        """Whether the call has spent what it may, given its tokens and money up to here: then it must stop."""
        ...


@runtime_checkable
class EndpointRunner(Protocol):
    """A runner that starts no process: it is called in a thread of ours. After a crash nobody knows how that went."""

    name: str
    provider: str
    """Whose limits hold it back; empty where that is whoever is at the agent's url."""
    chooses_session: bool

    def check(self, call: Call) -> None: ...
    def call(self, call: Call, connection: EndpointConnection) -> RunnerResult:
        """Of a call that was not refused; a MatinsError is its failure."""
        ...


AnyRunner = Runner | EndpointRunner
