"""Calls from outside, and the schedules that listen to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from matins.model.call import Call, CalledRun, CallOutcome, CallRow, Listener


class CallRows(Protocol):
    """Calls, the runs that they started, and the schedules that listen to them."""

    def insert_call(self, call: Call, now: int) -> int | None:
        """Add a call and return its id; None when its key is known."""
        ...

    def claim_signed(self, call: Call, now: int, since: int) -> str | None:
        """Note that what was signed arrived with the call's key. The key with which it arrived before, if that was
        after `since`; then nothing is noted."""
        ...

    def set_call_outcome(self, call_id: int, outcome: CallOutcome, reason: str | None) -> None: ...
    def call(self, call_id: int) -> CallRow | None: ...
    def call_by_key(self, source: str, name: str, key: str) -> CallRow | None: ...
    def calls(self, before: int, limit: int, source: str, name: str) -> list[CallRow]:
        """A page of calls, the newest first. An empty source or name stands for all."""
        ...

    def calls_of_run(self, run_id: int, limit: int) -> list[CallRow]:
        """The calls that a run stands for, the newest first."""
        ...

    def is_called(self, run_id: int) -> bool: ...
    def runs_of_calls(self, call_ids: Iterable[int]) -> list[CalledRun]: ...
    def link_call(self, call_id: int, run_id: int, grouped: str | None) -> None: ...
    def debouncing_run(self, schedule_id: int, grouped: str) -> int | None:
        """The run that waits for further calls of this group."""
        ...

    def debounce_run(self, run_id: int, until: int, most: int) -> bool:
        """Add a call to a run that waits. It waits again until it stands for `most` calls. False when it waits no
        longer."""
        ...

    def count_execution(self, schedule_id: int) -> None: ...
    def last_planned(self, schedule_id: int, since: int) -> int | None:
        """When the newest run since an instant that was not skipped was created."""
        ...

    def set_listeners(self, schedule_id: int, listeners: Iterable[Listener]) -> None: ...
    def listeners(self, source: str, name: str, agent: str) -> list[int]:
        """The schedules that listen to a source, by id."""
        ...

    def pipelines(self) -> list[tuple[int, int]]:
        """(schedule, schedule that follows it)."""
        ...

    def prune_calls(self, bodies_before: int, before: int, signed_before: int) -> None:
        """Delete old bodies and old calls, except those of live runs."""
        ...
