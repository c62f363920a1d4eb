"""What schedules say, read from the stored text. Defaults, inheritance and slots are written down here, by name: who
asks Matins what a schedule means finds right whatever Matins does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

DAY_MS = 86_400_000
_MAX_GRACE_MS = 7_200_000
_MIN_GRACE_MS = 1_000
_PERIODS = {"*/5 * * * * *": 5_000, "*/20 * * * * *": 20_000, "* * * * *": 60_000, "0 * * * *": 3_600_000}
"""The crons that users write. Clocks in London change by whole hours, so each hour has its slot, once."""


@dataclass(frozen=True)
class Slots:
    """A row of instants, one of which is `phase`; a single one without a period."""

    period: int
    phase: int = 0

    def next_ms(self, after: int) -> int | None:
        if not self.period:
            return self.phase if after < self.phase else None
        return after + self.period - (after - self.phase) % self.period

    def count(self, since: int, before: int) -> int:
        """How many there are from `since` on and before `before`."""
        first = self.next_ms(since - 1)
        if first is None or first >= before:
            return 0
        return 1 if not self.period else (before - 1 - first) // self.period + 1


@dataclass(frozen=True)
class Part:
    """A step, as the order of steps sees it."""

    title: str
    agent: str
    after: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """The settings of a schedule, or of one of its steps, that the rules go by."""

    slots: Slots | None
    """None where slots follow from runs."""
    every_ms: int | None
    """The interval that counts from runs."""
    from_completion: bool
    once: bool
    steps: tuple[Part, ...]
    overlap: str
    catch_up: str
    catch_up_limit: int
    grace_ms: int | None
    jitter: float
    ends_at: int | None
    max_executions: int | None
    max_cost: int | None
    max_tokens: int | None
    quiet_hours: str | None
    provider: str | None
    checked: bool
    """Whether it has a check or a hook of its own."""
    approval: str
    approval_timeout_ms: int
    on_unknown: str

    @property
    def needs_approval(self) -> bool:
        return self.approval != "auto" and not self.steps  # each step is approved by itself

    def next_ms(self, after: int) -> int | None:
        """The slot after an instant; of an interval that counts from runs, after the one at this instant."""
        return after + self.every_ms if self.every_ms is not None else _slots(self).next_ms(after)

    def count(self, since: int, before: int) -> int:
        return _slots(self).count(since, before)

    def grace_of(self, slot: int) -> int:
        """How late a slot may start and still be on time."""
        following = self.next_ms(slot)
        period = 0 if following is None else following - slot
        if self.grace_ms is not None:
            return max(self.grace_ms, _MIN_GRACE_MS) + int(period * self.jitter / 100)
        return DAY_MS if following is None else min(period // 2, _MAX_GRACE_MS)


def _slots(words: Words) -> Slots:
    assert words.slots is not None, words
    return words.slots


@lru_cache(maxsize=1024)
def read_words(text: str, step: int = 0) -> Words:
    """The stored text has what differs from the defaults."""
    data = orjson.loads(text)
    trigger = data["trigger"]
    elapsed = trigger["kind"] == "interval" and trigger["anchor"] != "grid"
    words = Words(
        slots=None if elapsed else _row(trigger),
        every_ms=trigger["every_ms"] if elapsed else None,
        from_completion=elapsed and trigger["anchor"] == "completion",
        once=trigger["kind"] == "once",
        steps=tuple(
            Part(one["title"], one.get("agent", ""), tuple(one.get("after", ()))) for one in data.get("steps", ())
        ),
        overlap=data.get("overlap", "skip"),
        catch_up=data.get("catch_up", "skip"),
        catch_up_limit=data.get("catch_up_limit", 10),
        grace_ms=data.get("grace_ms"),
        jitter=data.get("jitter", 0),
        ends_at=data.get("ends_at"),
        max_executions=data.get("max_executions"),
        max_cost=data.get("max_cost"),
        max_tokens=data.get("max_tokens"),
        quiet_hours=data.get("quiet_hours"),
        provider=data.get("provider"),
        checked="pre_check" in data or "before_run" in data,
        approval=data.get("approval", "auto"),
        approval_timeout_ms=data.get("approval_timeout_ms", DAY_MS),
        on_unknown=data.get("on_unknown", "retry"),  # the simulation has jobs only
    )
    return _of_step(words, data["steps"][step - 1]) if step else words


def _of_step(whole: Words, own: dict[str, Any]) -> Words:
    """A step goes by its schedule's words where it has none of its own; what bounds the schedule does not bound it."""
    return replace(
        whole,
        steps=(),
        ends_at=None,
        max_executions=None,
        max_cost=own.get("max_cost"),
        max_tokens=None,
        approval=own.get("approval", whole.approval),
        on_unknown=own.get("on_unknown", whole.on_unknown),
    )


def _row(trigger: dict[str, Any]) -> Slots:
    if trigger["kind"] == "cron":
        return Slots(_PERIODS[trigger["expression"]])
    if trigger["kind"] == "interval":
        return Slots(trigger["every_ms"], _instant(trigger["origin"]))
    assert trigger["kind"] == "once", trigger
    return Slots(0, _instant(trigger["at"]))


def _instant(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)
