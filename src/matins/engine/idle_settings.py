"""Settings that have no effect without another: people hear of them where they give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matins.engine.schedules import schedule_settings
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Interval


def idle_settings(definition: ScheduleDefinition, given: Mapping[str, Any]) -> list[str]:
    """One sentence for each given setting that has no effect without another."""
    idle = {name: needed for needed, works, names in _NEEDS if not works(definition) for name in names}
    return [
        f'"{name}" has no effect: it needs {idle[name]}.' for name in given if name in idle and given[name] is not None
    ]


def newly_idle(before: ScheduleDefinition, after: ScheduleDefinition, given: Mapping[str, Any]) -> list[str]:
    """One sentence for each setting that an edit gives without effect, or whose effect it takes away."""
    had, has = schedule_settings(before), schedule_settings(after)
    idle = set(idle_settings(before, had))
    taken = [note for note in idle_settings(after, has) if note not in idle]
    return list(dict.fromkeys([*idle_settings(after, given), *taken]))


def _checks(definition: ScheduleDefinition) -> bool:
    return any(command is not None for command in (definition.pre_check, definition.before_run, definition.after_run))


_NEEDS: tuple[tuple[str, Callable[[ScheduleDefinition], bool], tuple[str, ...]], ...] = (
    ("retries", lambda definition: definition.retries > 0, ("retry_delay", "max_retry_delay")),
    ("catch_up: run_all_capped", lambda definition: definition.catch_up == "run_all_capped", ("catch_up_limit",)),
    ("overlap: queue", lambda definition: definition.overlap == "queue", ("queue_limit",)),
    ("an interval, such as every 5 minutes", lambda definition: isinstance(definition.trigger.when, Interval),
     ("anchor", "first")),
    ("pre_check, before_run or after_run", _checks, ("check_timeout",)),
    ("ping", lambda definition: definition.ping is not None, ("ping_style",)),
    ("fallback: wait", lambda definition: definition.fallback == "wait", ("fallback_timeout", "final_fallback")),
)  # fmt: skip
"""What settings need in order to have an effect."""
