"""Erasing the words of a run: what stays of its events, its evidence and its requests, so that the record and the log
still agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

ERASED = "run.erased"
"""The event that names what was erased. The events of the run keep their hashes, and it vouches for each."""
MARK = "erased"
_KEPT_TEXTS = frozenset(
    {"reason", "by", "who", "kind", "digest", "record", "fingerprint", "approval", "budget", "provider", "destination",
     "incident", "vote", "default", "policy", "verdict", "as", "of", "instead_of", "backfill", "period", "spent",
     "resolution"}
)  # fmt: skip
"""Names of texts that Matins writes itself: codes, names, numbers and digests."""
_WORDS_OF_REQUESTS = ("prompt", "payload", "input", "inputs", "context", "message", "text")


def erased_event(data: str | None) -> str | None:
    """The data of an event without words. What was there keeps its name, since readers of the log ask for it."""
    if data is None:
        return None
    found: Mapping[str, Any] = orjson.loads(data)
    return orjson.dumps({MARK: True} | {name: _kept(name, value) for name, value in found.items()}).decode()


def is_erased(data: str | None) -> bool:
    return data is not None and data.startswith('{"erased":true')


def _kept(name: str, value: Any) -> Any:
    return value if name in _KEPT_TEXTS or isinstance(value, (int, float, type(None))) else None


def erased_evidence(evidence: str | None) -> str | None:
    """Who asked for the run stays."""
    found: Mapping[str, Any] = orjson.loads(evidence or "{}")
    kept = {name: value for name, value in found.items() if name in ("by", "who")}
    return orjson.dumps(kept).decode() if kept else None


def erased_request(request: str) -> str:
    """A request for approval without the words of the run. What it allows stays: digests, commands, files."""
    found: Mapping[str, Any] = orjson.loads(request)
    return orjson.dumps({name: "" if name in _WORDS_OF_REQUESTS else value for name, value in found.items()}).decode()
