"""Threads: the conversations that runs belong to, and their messages."""

from __future__ import annotations

from typing import Literal, NamedTuple

ThreadState = Literal["waiting", "running", "closed"]


class Thread(NamedTuple):
    id: int
    agent: str
    channel: str | None
    session: str | None
    """The tool's id of the conversation."""
    session_name: str | None
    state: ThreadState
    usage: tuple[int, int, int, int]
    """Input, output and cached tokens and micro-dollars of the session so far, for tools that report totals."""
    created_at: int
    updated_at: int


class Message(NamedTuple):
    id: int
    thread_id: int
    run_id: int | None
    role: str
    text: str
    at: int


class ThreadAssignment(NamedTuple):
    """The thread of a run, and how it was chosen: as requested, or by a fallback."""

    run_id: int
    thread: Thread
    how: str
