"""Presets: the defaults of the five systems, for schedules, agents and the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from matins.errors import CronParseError
from matins.model.trigger import Cron, Interval, Once, When

_NO_BACKOFF = {"failure_backoff": "none"}
"""None of the five systems backs off: each has its own way with failures."""
_PUNCTUAL = "60s"
"""The grace of systems that do not catch up: a slot that is later than this is missed."""


class Preset(NamedTuple):
    settings: Mapping[str, Any] = {}
    interval: Mapping[str, Any] = {}
    """Settings of intervals only."""
    once: Mapping[str, Any] = {}
    """Settings of one-shots only."""
    agent: Mapping[str, Any] = {}
    """Settings of agents."""
    limits: Mapping[str, int] = {}
    """Limits of the file."""
    min_interval: str | None = None
    """The shortest interval between two runs of a schedule."""
    fields: int | None = None
    """The number of fields that cron must have; aliases are allowed."""

    def settings_for(self, when: When | None) -> dict[str, Any]:
        """The settings of a schedule with such a trigger; None for an unknown one."""
        more: Mapping[str, Any] = (
            self.interval if isinstance(when, Interval) else self.once if isinstance(when, Once) else {}
        )
        return {**self.settings, **more}

    def check_fields(self, text: str, when: When) -> None:
        """Raise if the text is cron with another number of fields."""
        count = len(text.split())
        if self.fields and isinstance(when, Cron) and not text.lstrip().startswith("@") and count != self.fields:
            raise CronParseError(
                f'Invalid cron expression "{text}" - expected {self.fields} fields, got {count}',
                value=text,
                allowed=f"{self.fields} fields",
                hint='Write: minute hour day-of-month month day-of-week, such as "0 9 * * 1-5".',
            )


PRESETS: Mapping[str, Preset] = {
    "polpo": Preset(
        settings={"strict": True, "catch_up": "run_once", **_NO_BACKOFF},
        once={"retries": 3, "pause_after_failures": 1},
    ),
    "cortex": Preset(settings=_NO_BACKOFF, interval={"anchor": "start"}, once={"grace": "60s"}),
    "herdctl": Preset(
        settings={"timezone": "local", "catch_up": "skip", "grace": _PUNCTUAL, "prompt_prefix": False, **_NO_BACKOFF},
        interval={"anchor": "completion", "first": "immediately", "catch_up": "run_once"},
        once={"grace": "1d"},
        agent={"max_concurrent": 1},
        fields=5,
    ),
    "corvid": Preset(
        settings={
            "approval": "owner_approve",
            "pause_after_failures": 5,
            "catch_up": "skip",
            "grace": _PUNCTUAL,
            "missing_job": "fail",
            **_NO_BACKOFF,
        },
        interval={"anchor": "start"},
        once={"grace": "1d"},
        limits={"global": 2},
        min_interval="5m",
        fields=5,
    ),
    "syris": Preset(
        settings={"timezone": "UTC", "catch_up": "skip", "grace": _PUNCTUAL, **_NO_BACKOFF},
        interval={"anchor": "start", "first": "immediately"},
        once={"grace": "1d"},
    ),
}
