"""The jobs that schedules may name: of this process, and of engines on this store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from matins.api.results import Job, JobInput
from matins.engine.jobs import AGENT_JOB, JOB_NEED, MESSAGE_JOB, inputs_of
from matins.engine.placement import Labels, NodeView, needs_of, no_node, unserved
from matins.engine.policies import Policies
from matins.engine.reasons import rfc3339
from matins.engine.settings import format_setting
from matins.engine.steps import parts_of
from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.executors.registry import JobRegistry
from matins.model.job import JobType
from matins.model.rows import WorkerRow
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.settings import Declared
from matins.runtime.capacity import trouble_of
from matins.store import Store


class JobNames:
    """The job types of this process, and the names of jobs that engines of other programs have. Those are read only for
    a job that this process does not have."""

    def __init__(self, registry: JobRegistry, read_offered: Callable[[], frozenset[str]]) -> None:
        self.registry = registry
        self._read_offered = read_offered

    @cached_property
    def offered(self) -> frozenset[str]:
        return self._read_offered()

    def find(self, name: str) -> JobType:
        """The type of this name. Raises InvalidInput if neither this process nor an engine has ever had it."""
        found = self.registry.get(name) or (JobType(name) if name in self.offered else None)
        if found is not None:
            return found
        known = sorted({job.name for job in self.registry} | self.offered)
        hint = nearest(name, known)
        if not hint.startswith("Did"):
            hint = f'Register it first: @m.job("{name}"); or start the program that has it, once.'
        raise InvalidInput(f'There is no job "{name}".', value=name, field="job", allowed=", ".join(known), hint=hint)


@dataclass(frozen=True)
class KnownJobs:
    """The jobs that schedules may name. The store remembers what engines have offered, also stopped ones."""

    store: Store
    registry: JobRegistry

    def names(self) -> JobNames:
        """The names as they are when they are first needed. Use them outside of transactions: a store in memory has
        one connection."""
        return JobNames(self.registry, self._offered_names)

    def _offered_names(self) -> frozenset[str]:
        with self.store.reading() as transaction:
            rows = transaction.offers()
        return frozenset(name for offers in rows for name in _names(offers))

    def missing(
        self, schedules: Iterable[ScheduleRecord], engines: Sequence[WorkerRow], policies: Policies
    ) -> dict[str, list[ScheduleRecord]]:
        """What no live node offers (`job:backup`), and the active schedules that need it. Nothing without an engine:
        any program may start."""
        offers, found = [self._offered(engine) for engine in engines], dict[str, list[ScheduleRecord]]()
        for schedule in schedules if engines else ():
            parts = parts_of(schedule.definition, schedule.agent) if schedule.state == "active" else []
            lacking = [unserved(needs_of(part, agent, policies), offers) or frozenset() for part, agent in parts]
            for need in sorted(frozenset[str]().union(*lacking)):
                found.setdefault(need, []).append(schedule)
        return found

    def offered_here(self, definition: ScheduleDefinition, agent: str, policies: Policies) -> bool:
        """Whether this process offers all that a schedule and its steps need, which its engine will offer too."""
        return all(needs_of(part, name, policies) <= self.registry.offers for part, name in parts_of(definition, agent))

    def no_node(
        self, definition: ScheduleDefinition, agent: str, engines: Sequence[WorkerRow], policies: Policies
    ) -> str | None:
        """Why no node can run a schedule, or a step of it; None if one can, and without an engine."""
        parts = parts_of(definition, agent) if engines else []
        texts = (self.no_node_for(needs_of(part, name, policies), engines) for part, name in parts)
        return next((text for text in texts if text is not None), None)

    def no_node_for(
        self, needs: Labels, engines: Sequence[WorkerRow], turned_away: Mapping[str, str] = {}
    ) -> str | None:
        """Why no engine takes a run with these needs."""
        nodes = [NodeView(one.node, self._offered(one), _held_text(one)) for one in engines]
        return no_node(needs, nodes, turned_away)

    def _offered(self, engine: WorkerRow) -> Labels:
        """What an engine offers; the one of this process is about to offer all jobs of its program."""
        return engine.offered | self.registry.offers

    def listed(self, engines: Iterable[WorkerRow]) -> list[Job]:
        """All jobs by name, with the number of running engines that have each."""
        offers = [offered_by(engine) for engine in engines]
        types = {name: JobType(name) for name in self.names().offered} | {job.name: job for job in self.registry}
        return [
            _result(job, name in self.registry, sum(name in some for some in offers))
            for name, job in sorted(types.items())
        ]


def offered_by(engine: WorkerRow) -> set[str]:
    """The names of the jobs that an engine has."""
    return set(_names(engine.offers))


def _held_text(engine: WorkerRow) -> str:
    """Why a node takes no runs. The note is in `matins nodes`: it is the text of a person."""
    if engine.state is None or engine.at is None:
        return ""
    return f"is {engine.state} by {engine.by} since {rfc3339(engine.at)}"


def fails_without(schedule: ScheduleRecord, missing: Iterable[str]) -> bool:
    """Whether runs fail because no running engine has what they need, and do not wait."""
    return schedule.definition.missing_job == "fail" and any(need.startswith(JOB_NEED) for need in missing)


def troubles_of(engines: Iterable[WorkerRow]) -> list[tuple[str, str]]:
    """The hosts that cannot start agents now, and why."""
    found = [(engine, trouble_of(json.loads(engine.offers))) for engine in engines]
    return [(str(json.loads(one.identity)["host"]), reason) for one, reason in found if reason is not None]


def _names(offers: str) -> list[str]:
    return [str(offer).removeprefix(JOB_NEED) for offer in json.loads(offers) if str(offer).startswith(JOB_NEED)]


def _result(job: JobType, installed: bool, engines: int) -> Job:
    return Job(
        name=job.name,
        help=job.help,
        runs="event" if job.name == MESSAGE_JOB else "agent" if job.prompt or job.name == AGENT_JOB else "function",
        destructive=job.destructive,
        owner_only=job.owner_only,
        services=list(job.services),
        inputs=[_input(declared) for declared in inputs_of(job).values()],
        installed=installed,
        engines=engines,
    )


def _input(declared: Declared) -> JobInput:
    setting, default = declared.setting, declared.default
    return JobInput(
        name=declared.name,
        kind=type(declared.kind).__name__.lower(),
        required=setting.required,
        default=None if setting.required or default is None else format_setting(declared, default),
        help=setting.help,
        example=setting.example,
    )
