"""From what a reader noted to what was told, and the one line by which an agent declares how it went.

An agent declares its outcome in the last line of its last message that is neither blank nor the fence of a code block.
That line must be one JSON object, alone on its line, with a key "matins" that holds an object with an "outcome":

    {"matins": {"outcome": "failed", "reason": "the tests do not pass"}}
    {"matins": {"outcome": "nothing"}}

"failed" makes the run a failure, whatever the tool says; "nothing" means that there is nothing to report. The reason is
a text and may be left out. Another outcome, or a line that is not exactly such an object, declares nothing and stays
part of the text; a line that declares is taken out of it, with its fence. No line makes a success of a failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from matins.executors.runners.base import Declared, Limit, StoppedBy, Told
from matins.executors.runners.events import Event, Text, brief, read_event, read_json
from matins.executors.runners.limits import limit_in

MOST_DENIALS = 100
_FENCE = "```"
_LONGEST_DECLARATION = 10_000
_TOKEN = 4
"""So many characters of a text are a token at most."""
Tokens = tuple[int, int, int]
"""In, out, cached."""


class Declaration(NamedTuple):
    text: str
    outcome: Declared | None = None
    reason: str | None = None


@dataclass(slots=True)
class Noted:
    """What a reader has noted so far."""

    executed: bool = False
    failed: bool = False
    session: str | None = None
    turns: int | None = None
    tokens: Tokens = (0, 0, 0)
    cumulative: bool = False
    cost_usd: float | None = None
    text: Text = field(default_factory=Text)
    structured: Any | None = None
    denials: list[str] = field(default_factory=list[str])
    limit: Limit | None = None
    error: str | None = None
    stopped_by: StoppedBy | None = None
    model: str | None = None
    shown: int = 0
    """Characters that tools have shown to the model."""
    metered: bool = True
    """A model speaks, and its words cost tokens."""

    def deny(self, action: str) -> None:
        if len(self.denials) < MOST_DENIALS:
            self.denials.append(action)

    def spend(self, tokens: Tokens) -> None:
        self.tokens = plus(self.tokens, tokens)

    def show(self, *texts: str | None) -> None:
        self.shown += sum(len(text) for text in texts if text)

    def spent(self) -> Tokens:
        """As told; before the final event, which some tools wait for, at least what was said and shown comes to."""
        if self.executed or not self.metered:
            return self.tokens
        fresh, out, cached = self.tokens
        return max(fresh, self.shown // _TOKEN), max(out, self.text.heard // _TOKEN), cached

    def so_far(self) -> Told:
        fresh, out, cached = self.spent()
        return Told(
            self.executed,
            False,
            tokens_in=fresh,
            tokens_out=out,
            tokens_cached=cached,
            cost_usd=self.cost_usd,
            cost_reported=self.cost_usd is not None,
            cumulative=self.cumulative,
            model=self.model,
        )


class EventReader(ABC):
    """A reader of one JSON object per line; each tool's own says what they mean."""

    def __init__(self, program: str, provider: str) -> None:
        self.program = program
        self.provider = provider
        self.noted = Noted()

    def feed(self, line: bytes) -> None:
        event = read_event(line)
        if event is not None:
            self.take(event)

    @abstractmethod
    def take(self, event: Event) -> None: ...

    def so_far(self) -> Told:
        return self.noted.so_far()

    def close(self, exit_code: int | None) -> Told:
        return conclude(self.noted, self.program, self.provider, exit_code)


def conclude(noted: Noted, program: str, provider: str, exit_code: int | None) -> Told:
    declared = declaration(noted.text.last_words())
    fresh, out, cached = noted.spent()
    well = noted.executed and not noted.failed
    fault = None if well else noted.error or _unfinished(noted, program, exit_code)
    error = fault or _declared_error(declared)
    return Told(
        executed=noted.executed,
        succeeded=error is None,
        session=noted.session,
        turns=noted.turns,
        tokens_in=fresh,
        tokens_out=out,
        tokens_cached=cached,
        cost_usd=noted.cost_usd,
        cost_reported=noted.cost_usd is not None,
        text=declared.text,
        structured=read_json(declared.text) if noted.structured is None else noted.structured,
        denials=tuple(noted.denials),
        limit=None if fault is None else noted.limit or limit_in(provider, fault),
        error=error,
        declared=declared.outcome,
        reason=declared.reason,
        stopped_by=None if well else noted.stopped_by,
        cumulative=noted.cumulative,
        model=noted.model,
    )


def declaration(text: str) -> Declaration:
    """The outcome that the last line declares, and the text without it."""
    lines = text.split("\n")
    last = _last_line(lines)
    if last is None or len(lines[last]) > _LONGEST_DECLARATION:
        return Declaration(text)
    said = _said(lines[last])
    if said is None:
        return Declaration(text)
    kept = lines[:last]
    if _is_fence("".join(lines[last + 1 :])) and kept and _is_fence(kept[-1]):
        kept.pop()
    return Declaration("\n".join(kept).rstrip(), *said)


def plus(one: Tokens, other: Tokens) -> Tokens:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _last_line(lines: list[str]) -> int | None:
    return next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip() and not _is_fence(lines[at])), None)


def _is_fence(line: str) -> bool:
    return line.strip().startswith(_FENCE)


def _said(line: str) -> tuple[Declared, str | None] | None:
    said = read_json(line)
    told = Event(cast("dict[str, Any]", said) if isinstance(said, dict) else {}).inner("matins")
    reason = told.text("reason")
    match told.text("outcome"):
        case "failed" | "nothing" as outcome:
            return outcome, None if reason is None else brief(reason)
        case _:
            return None


def _declared_error(declared: Declaration) -> str | None:
    return None if declared.outcome != "failed" else declared.reason or "the agent says that it failed"


def _unfinished(noted: Noted, program: str, exit_code: int | None) -> str:
    if noted.executed:
        return f"{program} failed and did not say why"
    how = "was ended" if exit_code is None else f"ended with exit code {exit_code}"
    return f"{program} {how} before its final event"
