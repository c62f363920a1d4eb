"""Capacity: slots in this process, and permits of limited scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from matins.model.rows import ScopeRow
from matins.runtime.catalog import Known


class Free:
    """The free capacity in one turn. Permits are a forecast; they are taken when a run is claimed."""

    def __init__(self, room: int, scopes: Iterable[ScopeRow] = (), talking: int | None = None) -> None:
        self.room = room
        """Capacity for jobs. Agents have their own capacity, so neither blocks the other."""
        self.talking = room if talking is None else talking
        self._permits = {row.scope: row.size - row.in_use for row in scopes}
        self.limited = frozenset(self._permits)
        self._promised: Counter[str] = Counter()

    @property
    def most(self) -> int:
        return max(self.room, self.talking)

    @property
    def one_sided(self) -> bool:
        """Whether there is capacity for only one kind."""
        return (self.room <= 0) != (self.talking <= 0)

    def places(self, item: Known) -> int:
        return self.talking if item.talks else self.room

    def take(self, item: Known) -> None:
        if item.talks:
            self.talking -= 1
        else:
            self.room -= 1

    def none_for(self, item: Known) -> bool:
        """Whether there is no capacity for a run of this schedule now."""
        if not self.limited or self.places(item) <= 0:
            return self.places(item) <= 0
        promised = self._promised
        return any(self._permits[scope] <= promised[scope] for scope in self.limited & item.scopes)

    def promise(self, item: Known) -> None:
        """Count the permits of a planned run as used, for the next runs of this turn."""
        self._promised.update(self.limited & item.scopes)

    def take_unlimited(self, item: Known) -> bool:
        """Take capacity for a run that needs no permit."""
        if self.places(item) <= 0 or not self.limited.isdisjoint(item.scopes):
            return False
        self.take(item)
        return True

    def left(self, scope: str) -> int:
        """Negative after a limit was lowered, until enough runs have ended."""
        return self._permits[scope]

    def exhausted(self) -> list[str]:
        return [scope for scope, left in self._permits.items() if left <= 0]

    def used(self, scope: str) -> None:
        self._permits[scope] -= 1

    def use_up(self, scope: str) -> None:
        """Another worker took the last permit."""
        self._permits[scope] = 0
