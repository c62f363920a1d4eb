"""Turns the notes of a reader into a result, and reads the line with which an agent declares its outcome.

An agent declares its outcome in the last line of its last message that is neither blank nor the fence of a code block.
That line must be one JSON object, alone on its line, with a key "matins" that holds an object with an "outcome":

    {"matins": {"outcome": "failed", "reason": "the tests do not pass"}}
    {"matins": {"outcome": "nothing"}}

An agent that was asked for news answers only NOTHING_TO_REPORT, which declares the outcome "nothing". A text that
contains the word is a text.

"failed" makes the run a failure, whatever the tool reports. "nothing" means that there is nothing to report. The reason
is an optional string. Any other outcome or line declares nothing and stays in the text. A declaring line is removed
from the text, with its fence. No declaration turns a failure into a success.

Finds limits and outages of providers in the error messages of tools.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, cast

from matins.engine.when.durations import DAY_MS
from matins.executors.runners.protocol import Cumulative, Declared, Limit, RunnerResult, StoppedBy, find_clock_time
from matins.executors.runners.tool_events import Event, Text, read_event, read_json, shorten, without_escapes

_ERROR = re.compile(r"error|fail|denied|refused|invalid|not |limit|429|exceeded|quota|unauthori[sz]ed", re.IGNORECASE)
_HARMLESS = re.compile(r"^(?:\[STARTUP\]|Warning:|WARN\b|.{0,80}not available.{0,300}Falling back)")


def error_of(line: bytes) -> str | None:
    """The line, if it reports a problem. Indented lines are only locations, and some warnings are about nothing."""
    text = without_escapes(line.decode("utf-8", "replace"))
    if not text.strip() or text[0].isspace() or _HARMLESS.match(text) or not _ERROR.search(text):
        return None
    return shorten(text)


def with_stderr_reason(result: RunnerResult, stderr: bytes) -> RunnerResult:
    """The result of a command without events, with the reason from stderr, if it failed."""
    lines = stderr.splitlines()
    errors = [error for line in lines if (error := error_of(line)) is not None]
    texts = [without_escapes(line.decode("utf-8", "replace")) for line in lines]
    kept = [text for text in texts if text.strip() and not text[0].isspace()]
    reason = errors[-1] if errors else shorten(kept[-1]) if kept else None
    return result if result.succeeded or reason is None else replace(result, error=f"{result.error}: {reason}")


LIMIT_STATUSES = (429,)
"""HTTP statuses of a provider that limits requests."""
_FIRST_OUTAGE = 500
_LIMITED = re.compile(
    r"too many requests|\brate.?limit|usage.?limit|(?:hit|reached|exceed\w*|exhausted) your .{0,40}(?:limit|quota)"
    r"|quota.{0,20}(?:exceeded|exhausted|reset)|(?:exceeded|insufficient|exhausted).{0,20}quota|resource.?exhausted"
    r"|(?:status|error|code|http)[\s:=\"(]*(?:code[\s:=\"]*)?429\b",
    re.IGNORECASE,
)
_OUTAGE = re.compile(
    r"overloaded|high demand|internal server error|bad gateway|service (?:is )?(?:temporarily )?unavailable"
    r"|gateway time.?out|(?:status|error|code|http)[\s:=\"(]*(?:code[\s:=\"]*)?5\d\d\b|\(5\d\d\b"
    r"|server had an error",
    re.IGNORECASE,
)
_LOGIN_REFUSED = re.compile(
    r"(?:status|error|code|http)[\s:=\"(]*(?:code[\s:=\"]*)?401\b|401 (?:unauthorized|incorrect)|\bunauthenticated\b"
    r"|(?:invalid|incorrect|expired) (?:x-)?api.?key|api.?key (?:not valid|is invalid|has expired)"
    r"|authentication.?(?:error|failed)|token (?:has |is |was )?(?:expired|revoked|already used)"
    r"|(?:not logged in|log ?in again|sign in again|run /login)\b",
    re.IGNORECASE,
)
_RESETS_AT = re.compile(r"(?:resets?_?at\"?\s*[:=]\s*\"?|limit reached\|)(\d{10,13})\b", re.IGNORECASE)
_WAIT = re.compile(
    r"(?:try again|retry|resets?)(?:\s+\w+)?\s+(?:in|after)\s+"
    r"((?:\d{1,12}(?:\.\d{1,12})?\s{0,3}[a-z]+[\s,]{0,3}(?:and\s{1,3})?){1,4})",
    re.IGNORECASE,
)
_SECONDS = re.compile(
    r"(?:resets?_in_seconds|retry.?after|retry.?delay)\"?\s*[:=]\s*\"?(?:Some\()?(\d{1,8})(?:\b|s\b)", re.IGNORECASE
)
_DURATION_PART = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s{0,3}([a-z]+)", re.IGNORECASE)
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_MESSAGE_LENGTH = 10_000
_MAX_WAIT_MS = 366 * DAY_MS
_EARLIEST_S, _LATEST_S = 10**9, 4 * 10**9


def find_limit(provider: str, text: str) -> Limit | None:
    """The limit or outage that an error message describes, if any."""
    text = text[:_MAX_MESSAGE_LENGTH]
    outage = not _LIMITED.search(text)
    if outage and not _OUTAGE.search(text):
        return None
    at, clock = _RESETS_AT.search(text), find_clock_time(text)
    return Limit(provider, instant(float(at[1])) if at else None, shorten(text), _wait(text), clock, outage)


def is_login_refused(text: str) -> bool:
    """Whether an error message says that the provider refused the key or the login."""
    return _LOGIN_REFUSED.search(text[:_MAX_MESSAGE_LENGTH]) is not None


def limit_of_status(provider: str, status: int, text: str) -> Limit | None:
    """The limit or outage of a response with this HTTP status, if it is one."""
    if status not in LIMIT_STATUSES and status < _FIRST_OUTAGE:
        return None
    limit = find_limit(provider, text) or Limit(provider, None, shorten(text))
    return limit._replace(outage=status not in LIMIT_STATUSES)


def instant(stamp: float | None) -> int | None:
    """UTC milliseconds of a timestamp in seconds or milliseconds; None when it is implausible."""
    if stamp is None:
        return None
    seconds = stamp / 1000 if stamp > _LATEST_S else stamp
    return round(seconds * 1000) if _EARLIEST_S <= seconds <= _LATEST_S else None


def retry_after(provider: str, header: str | None, reason: str) -> Limit:
    """The limit from a Retry-After header: seconds or a date."""
    header_text = (header or "").strip()
    if header_text.isascii() and header_text.isdigit() and len(header_text) <= 8:
        return Limit(provider, None, reason, _bounded(int(header_text) * 1_000))
    when = _http_date(header_text)
    return Limit(provider, None if when is None else instant(when.timestamp()), reason)


def _wait(text: str) -> int | None:
    match = _WAIT.search(text)
    if match:
        pieces = [(float(number), _unit(unit)) for number, unit in _DURATION_PART.findall(match[1])]
        return _bounded(round(sum(number * unit for number, unit in pieces)))
    seconds = _SECONDS.search(text)
    return _bounded(int(seconds[1]) * 1_000) if seconds else None


def _unit(unit: str) -> int:
    lower = unit.lower()
    return _UNITS["ms"] if lower in ("ms", "millis", "milliseconds") else _UNITS.get(lower[0], 0)


def _bounded(wait_ms: int) -> int | None:
    return wait_ms if 0 < wait_ms <= _MAX_WAIT_MS else None


def _http_date(header_text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(header_text) if len(header_text) <= 40 else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


MAX_DENIALS = 100
MAX_COST_USD = 100_000.0
"""No run costs more; such a report is wrong."""
_FENCE = "```"
_NOTHING = "NOTHING_TO_REPORT"
_AROUND = " \t\r\n[](){}<>\"'`*.“”‘’«»„"
"""What agents put around the word."""
_MAX_DECLARATION_LENGTH = 10_000
_CHARACTERS_PER_TOKEN = 4
"""A token is at most this many characters."""
Tokens = tuple[int, int, int]
"""In, out, cached."""


class Declaration(NamedTuple):
    text: str
    outcome: Declared | None = None
    reason: str | None = None


@dataclass(slots=True)
class StreamNotes:
    """The notes of a reader so far."""

    executed: bool = False
    failed: bool = False
    session: str | None = None
    turns: int | None = None
    tokens: Tokens = (0, 0, 0)
    cumulative: frozenset[Cumulative] = frozenset()
    cost_usd: float | None = None
    cost_invalid: bool = False
    text: Text = field(default_factory=Text)
    structured: Any | None = None
    denials: list[str] = field(default_factory=list[str])
    actions: int = 0
    """Number of tool calls, with those that were denied."""
    limit: Limit | None = None
    error: str | None = None
    complaint: str | None = None
    refusal: str | None = None
    """Why the tool tries again, as long as its provider has not served it since."""
    retries: int = 0
    stopped_by: StoppedBy | None = None
    model: str | None = None
    context_length: int = 0
    """Characters of the prompt, the answers and the output of tools: what the model reads again for each answer."""
    read_length: int = 0
    """Characters that the model has read so far."""
    metered: bool = True
    """Whether a model produces the text, so that it costs tokens."""

    def deny(self, action: str) -> None:
        if len(self.denials) < MAX_DENIALS:
            self.denials.append(action)

    def spend(self, tokens: Tokens) -> None:
        self.tokens = add_tokens(self.tokens, tokens)

    def show(self, *texts: str | None) -> None:
        """Note what the model reads with its next answers."""
        self.context_length += sum(len(text) for text in texts if text)

    def answer(self, text: str = "") -> None:
        """Note an answer of the model: it has read all that was before."""
        self.read_length += self.context_length
        self.context_length += len(text)

    def retry(self, complaint: str) -> None:
        """Note that the tool tries again, and why. What went wrong before is not the last problem any more."""
        self.error, self.refusal = None, shorten(complaint)
        self.retries += 1
        again = f", tried again {self.retries} times" if self.retries > 1 else ""
        self.complaint = f"{shorten(complaint)}{again}"

    def served(self) -> None:
        """Note that the provider serves the tool again."""
        if self.retries:
            self.refusal, self.retries, self.complaint = None, 0, None

    def report_cost(self, event: Event, key: str, *, more: bool = False) -> None:
        """Take the cost that an event reports; `more`: in addition to the cost so far. A cost that cannot be right
        is noted as such."""
        cost = event.number(key)
        if cost is not None and cost <= MAX_COST_USD:
            self.cost_usd = cost + (self.cost_usd or 0 if more else 0)
        elif event.raw.get(key) is not None:
            self.cost_invalid = True

    def spent(self) -> Tokens:
        """Tokens as reported. Before the final event, at least an estimate: some tools report only then."""
        if self.executed or not self.metered:
            return self.tokens
        fresh, out, cached = self.tokens
        return (
            max(fresh, self.read_length // _CHARACTERS_PER_TOKEN - cached),
            max(out, self.text.length // _CHARACTERS_PER_TOKEN),
            cached,
        )

    def so_far(self) -> RunnerResult:
        fresh, out, cached = self.spent()
        return RunnerResult(
            self.executed,
            False,
            session=self.session,
            tokens_in=fresh,
            tokens_out=out,
            tokens_cached=cached,
            cost_usd=self.cost_usd,
            cost_reported=self.cost_usd is not None,
            cost_invalid=self.cost_invalid,
            cumulative=self.cumulative,
            model=self.model,
        )


class EventReader(ABC):
    """A reader of one JSON object per line. Subclasses handle the events of their tool."""

    def __init__(self, program: str, provider: str) -> None:
        self.program = program
        self.provider = provider
        self.notes = StreamNotes()

    def feed(self, line: bytes) -> None:
        event = read_event(line)
        if event is not None:
            self.handle(event)

    @abstractmethod
    def handle(self, event: Event) -> None: ...

    def feed_error(self, line: bytes) -> None:
        error = error_of(line)
        if error is not None:
            self.handle_error(error)

    def handle_error(self, error: str) -> None:
        """Handle a line of stderr about a problem."""
        self.notes.complaint = error

    def so_far(self) -> RunnerResult:
        return self.notes.so_far()

    def close(self, exit_code: int | None) -> RunnerResult:
        return conclude(self.notes, self.program, self.provider, exit_code)


def conclude(notes: StreamNotes, program: str, provider: str, exit_code: int | None) -> RunnerResult:
    declared = declaration(notes.text.final_text())
    succeeded = notes.executed and not notes.failed
    problem = None if succeeded else notes.error or _unfinished(notes, program, exit_code)
    error = problem
    if not problem and declared.outcome == "failed":
        error = declared.reason or "the agent reported a failure"
    return replace(
        notes.so_far(),
        succeeded=error is None,
        turns=notes.turns,
        text=declared.text,
        text_length=max(notes.text.final_length, len(declared.text)),
        structured=read_json(declared.text) if notes.structured is None else notes.structured,
        denials=tuple(notes.denials),
        limit=None if problem is None else _limit(notes, provider, problem),
        error=error,
        declared=declared.outcome,
        reason=declared.reason,
        stopped_by=None if succeeded else notes.stopped_by,
        login_refused=problem is not None and is_login_refused(notes.error or notes.refusal or ""),
        complaint=None if succeeded else notes.error or notes.complaint,
        all_denied=bool(notes.denials) and notes.actions <= len(notes.denials),
    )


def _limit(notes: StreamNotes, provider: str, problem: str) -> Limit | None:
    """The limit that stopped the tool. A tool that was ended while it retried was stopped by the refusal that it
    retried, even if it wrote other problems meanwhile."""
    limit = notes.limit or find_limit(provider, problem)
    if limit is None and not notes.executed and notes.error is None and notes.refusal is not None:
        return find_limit(provider, notes.refusal)
    return limit


def declaration(text: str) -> Declaration:
    """The outcome that the last line, or the one word of the answer, declares, and the text without that line."""
    if len(text) < 100 and text.strip(_AROUND).upper() == _NOTHING:
        return Declaration(text, "nothing")
    lines = text.split("\n")
    last = _last_line(lines)
    if last is None or len(lines[last]) > _MAX_DECLARATION_LENGTH:
        return Declaration(text)
    declared = _declared(lines[last])
    if declared is None:
        return Declaration(text)
    kept = lines[:last]
    if _is_fence("".join(lines[last + 1 :])) and kept and _is_fence(kept[-1]):
        kept.pop()
    return Declaration("\n".join(kept).rstrip(), *declared)


def add_tokens(one: Tokens, other: Tokens) -> Tokens:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _last_line(lines: list[str]) -> int | None:
    return next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip() and not _is_fence(lines[at])), None)


def _is_fence(line: str) -> bool:
    return line.strip().startswith(_FENCE)


def _declared(line: str) -> tuple[Declared, str | None] | None:
    document = read_json(line)
    declared = Event(cast("dict[str, Any]", document) if isinstance(document, dict) else {}).inner("matins")
    reason = declared.text("reason")
    match declared.text("outcome"):
        case "failed" | "nothing" as outcome:
            return outcome, None if reason is None else shorten(reason)
        case _:
            return None


def _unfinished(notes: StreamNotes, program: str, exit_code: int | None) -> str:
    if notes.executed:
        return f"{program} failed without a reason"
    how = "was ended" if exit_code is None else f"ended with exit code {exit_code}"
    complaint = f": {notes.complaint}" if notes.complaint else ""
    return f"{program} {how} before its final event{complaint}"
