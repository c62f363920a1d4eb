"""The jobs of the engine in this process, and the schedules whose job is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from matins.engine.schedules import AGENT_JOB, MESSAGE_JOB
from matins.model.schedule import ScheduleRecord

BUILT_IN = frozenset({AGENT_JOB, MESSAGE_JOB})


def lacks(own_jobs: Collection[str] | None, job: str) -> bool:
    """Whether the engine in this process does not have the job; False without an engine."""
    return own_jobs is not None and job not in own_jobs and job not in BUILT_IN


def missing_jobs(schedules: Iterable[ScheduleRecord], own_jobs: Collection[str] | None) -> dict[str, list[str]]:
    """The jobs that this engine does not have, and the schedules that need them."""
    found: dict[str, list[str]] = {}
    for schedule in schedules if own_jobs is not None else ():
        if schedule.state == "active" and lacks(own_jobs, schedule.definition.job):
            found.setdefault(schedule.definition.job, []).append(schedule.name)
    return found
