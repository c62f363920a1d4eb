"""Rows of chat: what Matins remembers of its dialogues."""

from __future__ import annotations

from typing import NamedTuple


class DraftRow(NamedTuple):
    """A dialogue of a person that asks for what is missing."""

    place: str
    person: str
    draft: str
    """JSON."""
    expires_at: int


class ChatPost(NamedTuple):
    """A message that Matins posted."""

    service: str
    subject: str
    """`approval:31`, `run:841`."""
    channel: str
    ts: str
    digest: str | None
    """The digest of the request that a card shows."""
    via: str | None
    """The person who answered a card there."""
    at: int
