"""Which jobs the engine in this process has, and which schedules want one that it has not."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from matins.engine.schedules import MESSAGE, TALK
from matins.model.principal import Principal
from matins.ports import Transaction
from matins.service.base import UseCases
from matins.service.governing import all_schedules
from matins.service.rights import needs
from matins.service.stats import LEASE_MS

_BUILT_IN = frozenset({TALK, MESSAGE})


class Jobs(NamedTuple):
    engine: bool
    """Whether whoever answers is an engine; if not, it knows of none but those that every engine has."""
    names: tuple[str, ...]
    others: int
    """Other engines on this store: what they have, only they know."""


class KnownJobs(UseCases):
    @needs("read")
    def known_jobs(self, principal: Principal) -> Jobs:
        """The jobs that schedules can start in the engine that answers."""
        here = self.own_jobs is not None
        others = self._store.engines(LEASE_MS) - here if self._store.shared else 0
        return Jobs(here, tuple(sorted(_BUILT_IN.union(self.own_jobs or ()))), max(0, others))


def lacks(own_jobs: Collection[str] | None, do: str) -> bool:
    """Whether this engine would fail it; nobody can say where there is none."""
    return own_jobs is not None and do not in own_jobs and do not in _BUILT_IN


def missing_jobs(transaction: Transaction, own_jobs: Collection[str] | None) -> dict[str, list[str]]:
    """Jobs that this engine has not, and the schedules that want them."""
    found: dict[str, list[str]] = {}
    for schedule in all_schedules(transaction) if own_jobs is not None else ():
        if schedule.state == "active" and lacks(own_jobs, schedule.definition.do):
            found.setdefault(schedule.definition.do, []).append(schedule.name)
    return found
