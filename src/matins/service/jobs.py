"""Which jobs the engine in this process has, and which schedules need one that it does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from matins.engine.schedules import AGENT_JOB, MESSAGE_JOB
from matins.model.schedule import ScheduleRecord

BUILT_IN = frozenset({AGENT_JOB, MESSAGE_JOB})


def lacks(own_jobs: Collection[str] | None, job: str) -> bool:
    """Whether this engine would fail it; nobody can say where there is none."""
    return own_jobs is not None and job not in own_jobs and job not in BUILT_IN


def missing_jobs(schedules: Iterable[ScheduleRecord], own_jobs: Collection[str] | None) -> dict[str, list[str]]:
    """Jobs that this engine has not, and the schedules that want them."""
    found: dict[str, list[str]] = {}
    for schedule in schedules if own_jobs is not None else ():
        if schedule.state == "active" and lacks(own_jobs, schedule.definition.job):
            found.setdefault(schedule.definition.job, []).append(schedule.name)
    return found
