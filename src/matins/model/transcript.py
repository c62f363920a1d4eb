"""What an agent's tool printed, as people read it."""

from __future__ import annotations

from typing import Literal, NamedTuple

EntryKind = Literal["words", "thought", "call", "result", "note", "error", "line"]
"""Words of the agent, its thoughts, a tool that it called, what came back, a remark, a problem; or a line as it was."""


class Entry(NamedTuple):
    kind: EntryKind
    text: str
    part_of: str | None = None
    """The message that arrives in pieces: entries in a row with the same one are one entry."""
