"""What the five systems take for granted, as data: the settings of a schedule, and what holds for a whole file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Preset(NamedTuple):
    settings: Mapping[str, Any] = {}
    interval: Mapping[str, Any] = {}
    """For intervals only."""
    once: Mapping[str, Any] = {}
    """For one-shots only."""
    limits: Mapping[str, int] = {}
    """For the file."""
    min_interval: str | None = None
    """How often a schedule may fire at the most."""
    fields: int | None = None
    """How many fields cron must have; aliases are allowed."""


PRESETS: Mapping[str, Preset] = {
    "polpo": Preset(settings={"strict": True, "catch_up": "run_once"}, once={"retries": 5}),
    "cortex": Preset(interval={"anchor": "start"}, once={"grace": "60s"}),
    "herdctl": Preset(
        settings={"timezone": "local", "catch_up": "skip"},
        interval={"anchor": "completion", "first": "immediately", "catch_up": "run_once"},
        fields=5,
    ),
    "corvid": Preset(
        settings={"approval": "owner_approve", "pause_after_failures": 5, "catch_up": "skip"},
        interval={"anchor": "start"},
        limits={"global": 2},
        min_interval="5m",
    ),
    "syris": Preset(
        settings={"timezone": "UTC", "catch_up": "skip"}, interval={"anchor": "start", "first": "immediately"}
    ),
}
