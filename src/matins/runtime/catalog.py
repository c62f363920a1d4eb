"""Definitions, compiled once per schedule and revision."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from matins.engine.gates import Mask, applicable_gates
from matins.engine.jobs import MESSAGE_JOB, wakes_agent
from matins.engine.planning import Timetable
from matins.engine.policies import NO_POLICIES, Policies, read_policies
from matins.engine.schedules import decode
from matins.engine.when.triggers import compile_trigger
from matins.ports import PolicyRows, ScheduleRows, Transaction

log = logging.getLogger("matins")
_MAX_CACHED = 200_000
GLOBAL = "global"
_GLOBAL_ONLY = frozenset([GLOBAL])


_compiled_trigger = lru_cache(maxsize=4096)(compile_trigger)


@lru_cache(maxsize=4096)
def _timetable(text: str) -> tuple[Timetable, Mask]:
    """The compiled definition and its gates, cached by settings. Other schedules may share the trigger."""
    definition = decode(text)
    return Timetable(definition, _compiled_trigger(definition.trigger)), applicable_gates(definition)


class CompiledSchedule:
    """A schedule at one revision."""

    __slots__ = (
        "agent", "definition", "emits_message", "exclusive", "gates", "name", "rev", "schedule_id", "scope", "scopes",
        "timetable", "uid", "wakes_agent",
    )  # fmt: skip

    def __init__(self, schedule_id: int, rev: int, name: str, agent: str, text: str, uid: str = "") -> None:
        self.schedule_id = schedule_id
        self.rev = rev
        self.name = name
        self.agent = agent
        self.uid = uid
        """Random, and part of the keys of its runs."""
        self.timetable, self.gates = _timetable(text)
        """The gates at which its settings may stop a run."""
        self.definition = self.timetable.definition
        self.exclusive = int(self.timetable.exclusive)
        self.scope = f"agent:{agent}" if agent else None
        self.scopes = frozenset([GLOBAL, self.scope]) if self.scope else _GLOBAL_ONLY
        self.wakes_agent = wakes_agent(self.definition)
        """Whether its runs are prompts to an agent."""
        self.emits_message = self.definition.job == MESSAGE_JOB
        """Whether its runs only emit an event: they need no capacity."""


class Catalog:
    def __init__(self, *, cache: bool = True, workdir: str | None = None) -> None:
        self._workdir = workdir
        self._caches = cache
        """False while settings are edited: after a rollback, another edit may get the same revision number."""
        self._cache: dict[tuple[int, int], CompiledSchedule] = {}
        self._policies = NO_POLICIES

    def clear(self) -> None:
        """Clear the cache after a rollback."""
        self._cache, self._policies = {}, NO_POLICIES

    def policies(self, transaction: PolicyRows) -> Policies:
        """The present policies, read again only after a change."""
        rev = transaction.policy_rev()
        if rev != self._policies.rev:
            found = read_policies(rev, transaction.policies(), transaction.throttles())
            self._policies = replace(found, workdir=self._workdir)
            for trouble in self._policies.unreadable:
                log.error("A policy cannot be read and is ignored: %s", trouble)
        return self._policies

    def compiled(
        self, transaction: Transaction, keys: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], CompiledSchedule | Exception]:
        """The compiled schedules at these revisions; an exception for a definition that cannot be used."""
        found: dict[tuple[int, int], CompiledSchedule | Exception] = {}
        missing: list[tuple[int, int]] = []
        for key in keys:
            compiled = self._cache.get(key)
            if compiled is None:
                missing.append(key)
            else:
                found[key] = compiled
        if missing:
            if len(self._cache) > _MAX_CACHED:
                self._cache.clear()
            found.update(self._load(transaction, missing))
        return found

    def _load(
        self, transaction: ScheduleRows, keys: list[tuple[int, int]]
    ) -> dict[tuple[int, int], CompiledSchedule | Exception]:
        loaded: dict[tuple[int, int], CompiledSchedule | Exception] = {}
        for row in transaction.definitions(keys):
            key = (row.schedule_id, row.rev)
            try:
                loaded[key] = compiled = CompiledSchedule(*row)
            except Exception as error:  # one bad row must not stop the others
                loaded[key] = error
                continue
            if self._caches:
                self._cache[key] = compiled
        return loaded
