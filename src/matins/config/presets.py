"""Presets: the defaults of the five systems, for schedules and for the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Preset(NamedTuple):
    settings: Mapping[str, Any] = {}
    interval: Mapping[str, Any] = {}
    """Settings of intervals only."""
    once: Mapping[str, Any] = {}
    """Settings of one-shots only."""
    limits: Mapping[str, int] = {}
    """Limits of the file."""
    min_interval: str | None = None
    """The shortest interval between two runs of a schedule."""
    fields: int | None = None
    """The number of fields that cron must have; aliases are allowed."""


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
