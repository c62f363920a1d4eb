"""Answers of runs on their way to destinations."""

from __future__ import annotations

from typing import Literal, NamedTuple

AnswerState = Literal["queued", "retrying", "delivered", "withheld", "unconfirmed", "discarded"]
PENDING: tuple[AnswerState, ...] = ("queued", "retrying")
FINAL = 0
"""The number of the answer of a run's end. Messages that an agent sends during its run count from 1."""


class AnswerRow(NamedTuple):
    """An answer of a run for one destination. The text of the end is in the outcome of the run."""

    run_id: int
    number: int
    destination: str
    """The name of a destination, or `thread:SERVICE`."""
    schedule_id: int
    state: AnswerState
    reason: str | None
    """Why it is withheld or discarded, or what it waits for."""
    digest: str
    """Equal for equal texts."""
    created_at: int
    next_at: int | None
    """When it is sent, or sent again; None when it is not."""
    title: str | None = None
    """Title of a message during the run."""
    text: str | None = None
    files: str | None = None
    """JSON."""
    attempts: int = 0
    parts: int | None = None
    """The number of messages that it consists of; None before the first attempt."""
    parts_sent: int = 0
    sending: int | None = None
    """The part that was about to leave. If nothing followed, it may have arrived."""
    again: int = 0
    """Whether that part was repeated."""
    lost: int = 0
    """The number of parts that were not confirmed."""
    copy: int = 0
    """How often a person had it sent again."""
    digest_at: int | None = None
    """The hour whose digest contains it, because there were too many."""
    receipt: str | None = None
    """The destination's id of the first message."""
    error: str | None = None
    sent_at: int | None = None
    """When the destination confirmed it."""
