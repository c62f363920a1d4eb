"""What the five systems take for granted, as data: the words of a schedule, and what holds for a whole file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Preset(NamedTuple):
    words: Mapping[str, Any] = {}
    interval: Mapping[str, Any] = {}
    """For intervals only."""
    once: Mapping[str, Any] = {}
    """For one-shots only."""
    limits: Mapping[str, int] = {}
    """For the file."""
    floor: str | None = None
    """How often a schedule may fire at the most."""
    fields: int | None = None
    """How many fields cron must have; aliases are allowed."""


PRESETS: Mapping[str, Preset] = {
    "polpo": Preset(words={"strict": True, "catch_up": "run_once"}, once={"retries": 5}),
    "cortex": Preset(interval={"anchor": "start"}, once={"grace": "60s"}),
    "herdctl": Preset(
        words={"timezone": "local", "catch_up": "skip"},
        interval={"anchor": "completion", "first": "immediately", "catch_up": "run_once"},
        fields=5,
    ),
    "corvid": Preset(
        words={"approval": "owner_approve", "pause_after": 5, "catch_up": "skip"},
        interval={"anchor": "start"},
        limits={"global": 2},
        floor="5m",
    ),
    "syris": Preset(
        words={"timezone": "UTC", "catch_up": "skip"}, interval={"anchor": "start", "first": "immediately"}
    ),
}
