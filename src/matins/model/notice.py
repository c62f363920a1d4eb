"""What people are told of. This module loads quickly: every command reads it."""

from __future__ import annotations

from typing import Literal, get_args

IncidentKind = Literal[
    "failed", "held", "missed", "paused", "broken", "budget", "limit", "login", "approval", "undelivered", "engine"
]
KINDS: tuple[IncidentKind, ...] = get_args(IncidentKind)
NOTICES: tuple[str, ...] = (*KINDS, "recovered")
"""What people can be told: the kinds of incidents, and that one is over."""
NOBODY = "none"
"""The name that stands for no destination."""
