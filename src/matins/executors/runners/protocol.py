"""The types that every runner receives and returns, whatever its tool.

Clock times at which a limit ends, as tools write them for people: "at 10:21 AM", "at Nov 18th, 2026 11:06 AM".

What a tool needs to work without a person: its program, a key or a login, and a permission to do something.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from matins.executors.processes.output import LinePattern
from matins.executors.runners.tool_events import Event
from matins.model.run import Entry
from matins.net.outbound import StreamedResponse

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = re.compile(
    r"(?:try again|resets?|available again)\s{1,3}(?:(?:at|on|by)\s{1,3})?"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]{0,7}\s{1,3}(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?\s{1,3}(?P<year>\d{4}))?,?\s{1,3}(?:at\s{1,3})?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s{0,3}(?P<half>[AP]M)\b(?:\s{0,3}\((?P<zone>[\w/+-]{1,60})\))?",
    re.IGNORECASE,
)


class ClockTime(NamedTuple):
    """A time on the wall clock, of a date or of the next day that has it."""

    hour: int
    minute: int
    month: int | None = None
    day: int | None = None
    year: int | None = None
    zone: str | None = None
    """The zone of this machine when the tool names none."""

    def after(self, now: int) -> int | None:
        """UTC milliseconds of its first occurrence after `now`; None when there is no such date."""
        here = datetime.fromtimestamp(now / 1000, UTC).astimezone(_zone(self.zone))
        year = self.year or here.year
        try:
            at = here.replace(
                year, self.month or here.month, self.day or here.day, self.hour, self.minute, second=0, microsecond=0
            )
            if at <= here and self.month is None:
                at += timedelta(days=1)
            elif at <= here and self.year is None:
                at = at.replace(year + 1)
        except ValueError:
            return None
        return round(at.timestamp() * 1000)


def find_clock_time(text: str) -> ClockTime | None:
    found = _TIME.search(text)
    if found is None:
        return None
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    month = (found["month"] or "").lower()
    if not 1 <= hour <= 12 or minute > 59 or (month and month not in _MONTHS):
        return None
    hour = hour % 12 + (12 if found["half"].lower() == "pm" else 0)
    if not month:
        return ClockTime(hour, minute, zone=found["zone"])
    year = int(found["year"]) if found["year"] else None
    return ClockTime(hour, minute, _MONTHS.index(month) + 1, int(found["day"]), year, found["zone"])


def _zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        return None


Declared = Literal["failed", "nothing"]
StoppedBy = Literal["turns", "money"]
Cumulative = Literal["tokens", "cost"]


class RunInfo(NamedTuple):
    """The run that an agent works for."""

    run_id: int = 0
    schedule_id: int = 0
    schedule: str = ""
    slot: str | None = None
    """The nominal instant as local ISO text; None for a manual run."""
    attempt: int = 1
    key: str = ""
    """A key that is the same for every attempt of the run, and different for every other run."""
    input: Any = None
    """The payload of the schedule with what was given to the run."""
    trace: str | None = None
    """Its span, as a W3C `traceparent`."""


@dataclass(frozen=True, slots=True)
class RunnerRequest:
    """One call of an agent. None leaves the choice to the tool."""

    prompt: str
    workdir: str
    """The folder in which the tool starts."""
    model: str | None = None
    effort: str | None = None
    """How much the model is to think: one of the runner's `efforts`."""
    session: str | None = None
    """Continue this session."""
    new_session: str | None = None
    """The id of a new session, for tools that accept one. `RunnerResult.session` has the actual id."""
    permission_mode: str | None = None
    """A mode of the tool, by its own name."""
    allowed_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    max_cost_usd: float | None = None
    """For tools that can stop at an amount. Matins watches the others and ends them there."""
    extra_args: tuple[str, ...] = ()
    """Further arguments of the tool; for `shell`, the whole command."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of this runner only."""
    run_info: RunInfo = field(default_factory=RunInfo)
    url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    """Hosts of private networks that may be called."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables of the agent, with references resolved."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values of `environment` that were references."""
    owner: int | None = None
    """The user as whom the tool runs; None for Matins' own."""
    server: MatinsServer | None = None
    """The tools of Matins for this run; None when the agent has none."""
    earlier: tuple[tuple[str, str], ...] = ()
    """Role and text of earlier messages in the thread, for endpoints that keep no session."""
    ask: Ask | None = field(default=None, repr=False)
    """None where there is no run."""


class Answer(NamedTuple):
    """What a command wrote."""

    exit_code: int | None
    """Negative for a signal. None when the command was ended or not started."""
    output: str
    errors: str


class Ask(Protocol):
    """Starts a command like the run, behind the same walls, and waits for its end."""

    def __call__(self, argv: tuple[str, ...], *, timeout_ms: int = ..., memory_bytes: int | None = None) -> Answer: ...


class MatinsServer(NamedTuple):
    """The MCP server of Matins. The token is in the variable MATINS_TOKEN, and in no argument or file."""

    url: str
    program: tuple[str, ...]
    """The same over stdin and stdout, for tools that send no headers."""

    @property
    def name(self) -> str:
        return "matins"


class ToolSettings(NamedTuple):
    """Settings for the runs of an agent, outside its workdir. They are written inside the walls, as the run
    begins."""

    variable: str
    """The variable that names the file; with `home`, the folder in which the tool looks for that."""
    content: Mapping[str, Any]
    """An object, by names of objects."""
    home: str | None = None
    """The tool reads only `settings.json` in this folder of its user's home. It then gets a home of its own, with the
    user's settings and the content; everything else in the folder is the user's, by links."""


class Command(NamedTuple):
    """A command to start in the call's workdir."""

    argv: tuple[str, ...]
    stdin: bytes
    """All of stdin, followed by end of file."""
    env_add: Mapping[str, str] = {}
    env_remove: tuple[str, ...] = ()
    """Variables that make the tool believe that it runs inside itself."""
    finals: tuple[LinePattern, ...] = ()
    """A line of stdout that matches one of these is the final event: `{"type": "result"}`."""
    retries: tuple[LinePattern, ...] = ()
    """Lines of stdout and stderr that only say that the tool tries again. They do not extend the idle timeout."""
    settings: ToolSettings | None = None
    stdout_file: bool = False
    """The tool exits before its pipe is read, and loses the rest: its stdout is a file instead."""
    session_unknown: tuple[bytes, ...] = ()
    """One of these, on stdout or stderr, means that the tool does not know the session."""


class Limit(NamedTuple):
    """A provider that does not serve requests for now. This is not a failure of the agent."""

    provider: str
    resets_at: int | None
    """UTC milliseconds, if the tool reports the time."""
    reason: str
    wait_ms: int | None = None
    """The requested wait, if the tool reports that instead."""
    clock_time: ClockTime | None = None
    """The time on the wall clock at which it resets, if the tool reports that instead."""
    outage: bool = False
    """The provider has a problem of its own (5xx, overloaded). If it lasts, the run fails."""

    def until(self, now: int) -> int | None:
        if self.resets_at is None and self.wait_ms is not None:
            return now + self.wait_ms
        if self.resets_at is None and self.clock_time is not None:
            return self.clock_time.after(now)
        return self.resets_at


@dataclass(frozen=True, slots=True)
class RunnerResult:
    """The result of a run, as its tool reports it."""

    executed: bool
    """Whether the final event arrived."""
    succeeded: bool
    """Whether the tool reported success, and the agent declared no failure."""
    session: str | None = None
    turns: int | None = None
    tokens_in: int = 0
    """Without tokens from a cache."""
    tokens_out: int = 0
    tokens_cached: int = 0
    cost_usd: float | None = None
    cost_reported: bool = False
    """Whether the tool reports its cost. Otherwise the price table provides it."""
    cost_invalid: bool = False
    """Whether the tool reports a cost that cannot be right."""
    text: str = ""
    """The agent's final text, without the line that declares an outcome. Of a long text, the end."""
    text_length: int = 0
    """The length of the whole text, which may be longer than what is kept of it."""
    structured: Any | None = None
    denials: tuple[str, ...] = ()
    limit: Limit | None = None
    error: str | None = None
    declared: Declared | None = None
    """The outcome that the agent declares."""
    reason: str | None = None
    """The reason that the agent gives."""
    stopped_by: StoppedBy | None = None
    """The limit of the call that stopped the tool."""
    cumulative: frozenset[Cumulative] = frozenset()
    """What is reported for the whole session so far. See `of_run`."""
    model: str | None = None
    """The model that the tool reports."""
    complaint: str | None = None
    """The last problem that the tool spoke of, also one that it tries to get over."""
    login_refused: bool = False
    """Whether the provider refused the key or the login of the tool."""
    all_denied: bool = False
    """Whether the agent was denied everything that it wanted to do."""

    @property
    def session_usage(self) -> SessionUsage:
        return SessionUsage((self.tokens_in, self.tokens_out, self.tokens_cached), self.cost_usd or 0.0)

    def of_run(self, before: SessionUsage) -> RunnerResult:
        """The result with the usage of this run alone. `before`: that of its session before it."""
        mine = self.session_usage.minus(before)
        tokens = mine.tokens if "tokens" in self.cumulative else self.session_usage.tokens
        cost = mine.cost_usd if "cost" in self.cumulative and self.cost_usd is not None else self.cost_usd
        fresh, out, cached = tokens
        return replace(
            self, tokens_in=fresh, tokens_out=out, tokens_cached=cached, cost_usd=cost, cumulative=frozenset()
        )


class SessionUsage(NamedTuple):
    """The usage of a session so far."""

    tokens: tuple[int, int, int] = (0, 0, 0)
    """In, out, cached; `in` is without cached tokens."""
    cost_usd: float = 0.0

    def minus(self, before: SessionUsage) -> SessionUsage:
        """What was added since. A counter that went back has restarted."""
        fresh, out, cached = (new - old for new, old in zip(self.tokens, before.tokens, strict=True))
        tokens = self.tokens if min(fresh, out, cached) < 0 else (fresh, out, cached)
        cost = self.cost_usd - before.cost_usd
        return SessionUsage(tokens, self.cost_usd if cost < 0 else round(cost, 9))


class Reader(Protocol):
    """Reads the output of one run. It never raises, for any bytes, and its memory is bounded."""

    def feed(self, line: bytes) -> None:
        """Read the next line of stdout, with or without its line end."""
        ...

    def close(self, exit_code: int | None) -> RunnerResult:
        """The result. `exit_code` is None when the tool did not exit by itself."""
        ...


@runtime_checkable
class Metered(Reader, Protocol):
    """A reader that reports usage before the end. The usage of other readers is known only afterwards."""

    def so_far(self) -> RunnerResult:
        """The tokens and the cost of the lines so far. The other fields have no meaning yet."""
        ...


@runtime_checkable
class ReadsErrors(Reader, Protocol):
    """A reader that also reads stderr, where some tools report their problems. Lines come after those of stdout."""

    def feed_error(self, line: bytes) -> None: ...


class SessionLedger(Protocol):
    """The files in which a tool records what a session uses, while it runs. They may be missing, or half written."""

    def usage(self, session: str, before: int | None = None) -> SessionUsage | None:
        """The usage of a session so far; with `before`, UTC milliseconds, as it was then. None when it is not known."""
        ...

    def problem(self, session: str) -> str | None:
        """The problem with its provider that the tool has recorded, and has not got over."""
        ...


@runtime_checkable
class SlowLedger(SessionLedger, Protocol):
    """A ledger that takes a moment to read."""

    def recent(self, session: str) -> SessionUsage | None:
        """The usage of a session as it was some seconds ago. Does not wait."""
        ...


@runtime_checkable
class KeepsLedger(Protocol):
    """A runner whose tool records the usage of sessions."""

    def ledger(self, call: RunnerRequest) -> SessionLedger: ...


@runtime_checkable
class TellsEntries(Protocol):
    """A runner whose tool prints events, which people read as a transcript."""

    def entries(self, event: Event) -> list[Entry] | None:
        """What an event of the tool reports; None for an event of another tool."""
        ...


class Runner(Protocol):
    name: str
    program: str
    """Found on PATH; empty when the call names the program."""
    provider: str
    """The provider whose limits apply."""
    chooses_session: bool
    """Whether Matins gives the id of a new session."""

    def check(self, call: RunnerRequest) -> None:
        """Raise InvalidInput for a call that the tool does not support, before anything is spent."""
        ...

    def command(self, call: RunnerRequest) -> Command:
        """The command for a call that passed `check`."""
        ...

    def reader(self) -> Reader: ...


class EndpointConnection(Protocol):
    """The connection of an endpoint runner. It is cut at the limits of the call, and when the run is cancelled."""

    @property
    def closed(self) -> bool:
        """Whether the connection is cut. A runner that waits elsewhere should check this regularly, and return."""
        ...

    def now_s(self) -> int:
        """The wall clock, in UTC seconds."""
        ...

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AbstractContextManager[StreamedResponse]:
        """Send a POST to an allowed address. Secrets of the call are removed from the response."""
        ...

    def log(self, text: str) -> None:
        """Add to the output of the run, which `matins logs` shows. Secrets of the call are removed."""
        ...

    def over_budget(self, so_far: RunnerResult) -> bool:
        """Whether the call has spent its limit, given its tokens and cost so far. Then the runner must stop."""
        ...


@runtime_checkable
class EndpointRunner(Protocol):
    """A runner without a process: Matins calls it in a thread. After a crash, the outcome of the call is unknown."""

    name: str
    provider: str
    """The provider whose limits apply; empty for the host of the agent's url."""
    chooses_session: bool

    def check(self, call: RunnerRequest) -> None: ...
    def call(self, call: RunnerRequest, connection: EndpointConnection) -> RunnerResult:
        """The result of a call that passed `check`. A MatinsError is a failure of the call."""
        ...


AnyRunner = Runner | EndpointRunner


def fences(runner: AnyRunner) -> bool:
    """Whether text by others stands between marks in its prompts, as language models need it. A runner whose program
    does not has `fences = False`."""
    return getattr(runner, "fences", True)


ALWAYS = ("GH_TOKEN", "GITHUB_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
"""Variables that any tool may need to reach GitHub and its provider."""


class Permission(NamedTuple):
    """A permission mode of the tool in which an unattended run is of use, and its risk."""

    mode: str
    risk: str
    never_as_root: tuple[str, ...] = ()
    """Modes that the tool refuses as root."""
    asks: bool = False
    """Whether the tool, without a mode, asks a person, who is not there."""


class Needs(NamedTuple):
    install: str
    """The command that installs the tool."""
    keys: tuple[str, ...]
    """Variables; one of them is enough. None if the tool's own settings choose."""
    login: str
    """The command by which a person logs in instead."""
    logins: tuple[str, ...]
    """Files that a login leaves. A name in capitals is a variable with the directory, which has precedence."""
    permission: Permission | None = None
    variables: tuple[str, ...] = ()
    """Further variables that the tool reads."""

    def wanted(self) -> tuple[str, ...]:
        """All variables that a run of the tool should have, where the daemon has them."""
        return (*self.keys, *self.variables, *ALWAYS)

    def credential(self, environment: Mapping[str, str], home: Mapping[str, str]) -> str | None:
        """The key among the variables of an agent, or the file of a login; None when there is neither. `home` has the
        variables from which the tool finds its files."""
        key = next((name for name in self.keys if environment.get(name)), None)
        if key is not None:
            return key
        variables, files = {**home, **environment}, list[Path]()
        for text in self.logins:
            variable, _, rest = text.partition("/")
            if not variable.isupper():
                files.append(Path(variables.get("HOME", "/"), text))
            elif variables.get(variable):
                files.insert(0, Path(variables[variable], rest))
        return next((str(path) for path in files if path.is_file()), None)


def given_options(**options: object) -> list[str]:
    """`--name=value` of each option that has a value; `session_id` is `--session-id`."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
