"""Turns the notes of a reader into a result, and reads the line with which an agent declares its outcome.

An agent declares its outcome in the last line of its last message that is neither blank nor the fence of a code block.
That line must be one JSON object, alone on its line, with a key "matins" that holds an object with an "outcome":

    {"matins": {"outcome": "failed", "reason": "the tests do not pass"}}
    {"matins": {"outcome": "nothing"}}

"failed" makes the run a failure, whatever the tool reports. "nothing" means that there is nothing to report. The reason
is an optional string. Any other outcome or line declares nothing and stays in the text. A declaring line is removed
from the text, with its fence. No declaration turns a failure into a success.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from matins.executors.runners.error_lines import error_of
from matins.executors.runners.protocol import Cumulative, Declared, Limit, RunnerResult, StoppedBy
from matins.executors.runners.provider_limits import find_limit, is_login_refused
from matins.executors.runners.tool_events import Event, Text, read_event, read_json, shorten

MAX_DENIALS = 100
MAX_COST_USD = 100_000.0
"""No run costs more; such a report is wrong."""
_FENCE = "```"
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
    error = problem or _declared_error(declared)
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
    """The outcome that the last line declares, and the text without it."""
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


def _declared_error(declared: Declaration) -> str | None:
    return None if declared.outcome != "failed" else declared.reason or "the agent reported a failure"


def _unfinished(notes: StreamNotes, program: str, exit_code: int | None) -> str:
    if notes.executed:
        return f"{program} failed without a reason"
    how = "was ended" if exit_code is None else f"ended with exit code {exit_code}"
    complaint = f": {notes.complaint}" if notes.complaint else ""
    return f"{program} {how} before its final event{complaint}"
