"""What a job is given: its run."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from matins.engine.jobs import parse_inputs
from matins.engine.prompts import CallContext
from matins.engine.settings import ParseContext
from matins.runtime.attempt import Attempt, mark_of

if TYPE_CHECKING:
    from matins.executors.python import PythonExecutor


_NOT_COPIED = object()


class NotBegun(Exception):  # noqa: N818 - it names what happened
    """An async job that has done nothing raises it while its process stops: its run is released."""


class JobContext:
    """The context of a run, passed to its job."""

    __slots__ = ("_attempt", "_executor", "_payload")

    def __init__(self, attempt: Attempt, executor: PythonExecutor) -> None:
        self._attempt = attempt
        self._executor = executor
        self._payload: Any = _NOT_COPIED

    @property
    def id(self) -> int:
        return self._attempt.run_id

    @property
    def schedule(self) -> str:
        return self._attempt.compiled.name

    @property
    def agent(self) -> str:
        return self._attempt.compiled.agent

    @property
    def slot(self) -> datetime | None:
        """The nominal instant in the schedule's time zone; None for a manual run."""
        return self._local(self._attempt.nominal_slot)

    @property
    def key(self) -> str:
        """A key that is the same for every attempt of this run, and different for every other run."""
        return self._attempt.key

    @property
    def attempt(self) -> int:
        return self._attempt.number

    @property
    def payload(self) -> Any:
        """The run's own copy: changes do not reach other runs."""
        if self._payload is _NOT_COPIED:
            self._payload = self._attempt.compiled.payload
        return self._payload

    @property
    def input(self) -> Any:
        """The input of the run. For a step with a payload of its own, that of the whole run."""
        return deepcopy(self._attempt.compiled.input)

    @property
    def call(self) -> CallContext | None:
        """The call of the run, with its body; None for other runs."""
        if not self._attempt.compiled.shared.definition.on:
            return None
        return self._executor.loader.call(self._attempt)

    @property
    def now(self) -> int:
        """The present time, in UTC milliseconds."""
        return self._executor.now_ms()

    @property
    def workdir(self) -> str:
        """The folder of the schedule's agent, or that of the store."""
        return self._executor.folder_of(self._attempt)

    @property
    def api(self) -> Any:
        """The use cases of this scheduler, as the owner."""
        return self._executor.api

    def emit(self, type: str, data: dict[str, Any]) -> None:  # noqa: A002 - the name of the field
        """Write an event, which subscribers and webhooks receive."""
        self._executor.loader.emit(self._attempt, type, data)

    @property
    def inputs(self) -> Any:
        """The payload as the job's type declares it: an instance of its `inputs`."""
        job = self._executor.jobs.get(self._attempt.compiled.shared.definition.job)
        return self.payload if job is None else parse_inputs(job, self.payload, ParseContext(self._attempt.started_at))

    @property
    def lateness(self) -> float:
        """Seconds from the slot to the start."""
        slot = self._attempt.nominal_slot
        return 0.0 if slot is None else max(0, self._attempt.started_at - slot) / 1000

    @property
    def slots(self) -> int:
        """Number of slots that this run covers; more than one after a catch-up."""
        return self._attempt.slots

    @property
    def first_slot(self) -> datetime | None:
        """The first of several slots; otherwise None."""
        return self._local(self._attempt.first_slot)

    @property
    def previous_state(self) -> str | None:
        """The state in which the previous run ended, if there is one."""
        state = self._executor.loader.previous_state(self._attempt)
        return None if state is None else state.label

    @property
    def steps(self) -> Mapping[str, Any]:
        """The results of the steps of this run that have succeeded, by title; empty without steps."""
        return self._executor.loader.step_results(self._attempt)

    def spend(
        self,
        money: str | None = None,
        tokens: int = 0,
        *,
        model: str | None = None,
        input: int = 0,  # noqa: A002 - the providers' name
        output: int = 0,
        cached: int = 0,
    ) -> None:
        """Record spending: `money` ("$0.02") as the provider reports it, otherwise computed from the model's price.
        Raises OverBudget when the run has spent its limit."""
        self._executor.meter.add(self._attempt, money, tokens, model, input, output, cached)

    @property
    def cancelled(self) -> bool:
        """Whether the run is cancelled. A long sync job should check this regularly."""
        return self._executor.is_cancelled(mark_of(self._attempt))

    def _local(self, at: int | None) -> datetime | None:
        return None if at is None else self._attempt.compiled.shared.timetable.trigger.local(at)

    def __repr__(self) -> str:
        return f"<JobContext {self.id} of {self.schedule!r}, slot {self.slot}, attempt {self.attempt}>"
