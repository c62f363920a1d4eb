"""Where runs land: a thread, and what was said in it."""

from __future__ import annotations

from typing import Literal, NamedTuple

ThreadState = Literal["waiting", "running", "closed"]


class Thread(NamedTuple):
    id: int
    agent: str
    channel: str | None
    session: str | None
    """The tool's own id of the conversation."""
    session_name: str | None
    state: ThreadState
    tokens: tuple[int, int, int]
    """In, out and cached, of the session so far: for tools that count up."""
    created_at: int
    updated_at: int


class Message(NamedTuple):
    id: int
    thread_id: int
    run_id: int | None
    role: str
    text: str
    at: int


class Landing(NamedTuple):
    """Where a run landed, and how: as it was asked, or by which fallback."""

    run_id: int
    thread: Thread
    how: str
