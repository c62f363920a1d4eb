"""Edits, parsed before a transaction is open: while one is, no other change is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from matins.engine.when.triggers import Trigger
from matins.errors import Conflict
from matins.model.schedule import ScheduleDefinition

_Result = TypeVar("_Result")
_TRIES = 20


class Edit(NamedTuple):
    """A parsed edit, and what it was parsed with."""

    revision: tuple[int, int]
    """The schedule, and the revision that the edit changes."""
    rates: Mapping[str, float]
    given: Mapping[str, Any]
    definition: ScheduleDefinition
    trigger: Trigger

    def check_same(self, revision: tuple[int, int], rates: Mapping[str, float]) -> None:
        """Raise Moved unless the transaction has what the edit was parsed with."""
        if revision != self.revision or rates != self.rates:
            raise Moved


class Moved(Exception):  # noqa: N818 - it names what happened
    """What an edit changes is not what it was parsed with any more."""


def until_unmoved(change: Callable[[], _Result], what: str) -> _Result:
    """What `change` returns. It parses and writes, and is called again when it raises Moved."""
    for _ in range(_TRIES):
        try:
            return change()
        except Moved:
            continue
    raise Conflict(f"{what} was changed by someone else at the same time.", hint="Try again.")
