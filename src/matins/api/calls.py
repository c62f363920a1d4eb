"""Use cases on calls from outside, declared."""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from matins.api.use_case import Noun, use_case

if TYPE_CHECKING:
    from matins.api.arguments import Id, Json, Limit
    from matins.api.results import Call
    from matins.model.call import CallSource


class Calls(Noun, noun="calls"):
    @use_case("operate", "POST /v1/calls", status=201, location="/v1/calls/{id}", max_bytes=9 << 20)
    def fire(
        self,
        source: CallSource,
        name: str,
        key: str,
        *,
        body: Json = None,
        type: str | None = None,  # noqa: A002 - the name that senders use
        text: str | None = None,
        sender: str | None = None,
        signed: str | None = None,
    ) -> Call:
        """Start a run of every schedule that listens to a source, once per key.

        `source` is webhook or chat, `name` the inbound endpoint or the channel. A known key starts nothing: the result
        is the first call, with `duplicate`. So does a known `signed`, a digest of what the sender signed, for 24 hours.
        The gates apply as to a slot.
        """

    @use_case("read", "GET /v1/calls", page=("before", "id"))
    def list(
        self,
        *,
        source: CallSource | None = None,
        name: str | None = None,
        before: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Call]:
        """List calls without their bodies, the newest first."""

    @use_case("read", "GET /v1/calls/{call_id}")
    def get(self, call_id: Id) -> Call:
        """Get a call with its runs, and its body for principals with the "operate" right."""

    @use_case("operate", "POST /v1/calls/{call_id}/replay", status=201, location="/v1/calls/{id}")
    def replay(self, call_id: Id) -> Call:
        """Fire a call again, as a new one: its body is judged by the present settings."""
