"""Capacity: slots in this process, and permits of limited scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from matins.model.rows import ScopeRow
from matins.runtime.catalog import CompiledSchedule


class Capacity:
    """The free capacity in one turn. Permits are a forecast; they are taken when a run is claimed."""

    def __init__(self, jobs: int, limits: Iterable[ScopeRow] = (), agents: int | None = None) -> None:
        self.jobs = jobs
        """Capacity for jobs. Agents have their own capacity, so neither blocks the other."""
        self.agents = jobs if agents is None else agents
        self._permits = {row.scope: row.size - row.in_use for row in limits}
        self.limited = frozenset(self._permits)
        self._reserved: Counter[str] = Counter()

    @property
    def maximum(self) -> int:
        return max(self.jobs, self.agents)

    @property
    def only_one_kind(self) -> bool:
        """Whether there is capacity for only one kind."""
        return (self.jobs <= 0) != (self.agents <= 0)

    def available(self, item: CompiledSchedule) -> int:
        return self.agents if item.wakes_agent else self.jobs

    def take(self, item: CompiledSchedule) -> None:
        if item.wakes_agent:
            self.agents -= 1
        else:
            self.jobs -= 1

    def is_full_for(self, item: CompiledSchedule) -> bool:
        """Whether there is no capacity for a run of this schedule now."""
        available = self.agents if item.wakes_agent else self.jobs
        if not self.limited or available <= 0:
            return available <= 0
        promised = self._reserved
        return any(self._permits[scope] <= promised[scope] for scope in self.limited & item.scopes)

    def reserve(self, item: CompiledSchedule) -> None:
        """Count the permits of a planned run as used, for the next runs of this turn."""
        self._reserved.update(self.limited & item.scopes)

    def take_unlimited(self, item: CompiledSchedule) -> bool:
        """Take capacity for a run that needs no permit."""
        available = self.agents if item.wakes_agent else self.jobs
        if available <= 0 or not self.limited.isdisjoint(item.scopes):
            return False
        self.take(item)
        return True

    def permits_left(self, scope: str) -> int:
        """The free permits of a scope. Negative after a limit was lowered, until enough runs have ended."""
        return self._permits[scope]

    def exhausted(self) -> list[str]:
        return [scope for scope, left in self._permits.items() if left <= 0]

    def use_permit(self, scope: str) -> None:
        self._permits[scope] -= 1

    def mark_exhausted(self, scope: str) -> None:
        """Record that another worker took the last permit."""
        self._permits[scope] = 0
