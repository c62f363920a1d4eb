"""What only a program has in its own process: calls inside its transaction, on its own connection to PostgreSQL, and
functions that another process calls later: `send_mail.delay("ada", text="Hi")`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Unpack

from matins.api.help import document_settings, extends
from matins.api.schedules import Api
from matins.errors import JobError

if TYPE_CHECKING:
    import psycopg

    from matins.api._types import ScheduleSettings
    from matins.api.arguments import Instant, Json, Moment, When
    from matins.api.results import Run, Schedule
    from matins.model.clock import Clock


P = ParamSpec("P")
document_settings()


class TransactionApi(Api):
    """`Api`, with the calls that can take part in a transaction of the caller."""

    def _within(self, connection: Any) -> AbstractContextManager[None]:
        """Take part in the caller's transaction, if there is one."""
        raise NotImplementedError

    @extends(Api.add)
    def add(  # pyright: ignore[reportIncompatibleMethodOverride] - it takes no setting called connection
        self,
        name: str | None = None,
        *,
        when: When | None = None,
        agent: str = "",
        create_agent: bool = False,
        new_agent: Mapping[str, Any] | None = None,
        replace: bool = False,
        context: Mapping[str, Any] | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Schedule:
        """On PostgreSQL, `connection` is a connection of psycopg 3 with a transaction of yours: the schedule exists
        exactly if you commit it."""
        given: dict[str, Any] = {"when": when, "agent": agent, "create_agent": create_agent, "new_agent": new_agent,
                                 "replace": replace, "context": context, **settings}  # fmt: skip
        with self._within(connection):
            return super().add(name, **given)

    @extends(Api.run)
    def run(
        self,
        name: str,
        *,
        input: Json | None = None,  # noqa: A002 - the word of every surface
        model: str | None = None,
        effort: str | None = None,
        slot: Moment | None = None,
        key: str | None = None,
        at: Instant | None = None,
        agent: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Run:
        """On PostgreSQL, `connection` is a connection of psycopg 3 with a transaction of yours: the run starts when you
        commit it. Until then no other run of the schedule can start or end."""
        with self._within(connection):
            return super().run(name, input=input, model=model, effort=effort, slot=slot, key=key, at=at, agent=agent)


class Handle:
    """A call of a task that was made."""

    def __init__(self, m: TransactionApi, task: str, run_id: str) -> None:
        self._m = m
        self._task = task
        self.id = run_id
        """The id of its run."""

    def wait(self, timeout: float | None = None) -> Run:
        """Wait until it has ended, at most `timeout` seconds. The run says how."""
        return self._m.runs.wait(self.id, timeout=timeout)

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned, as JSON data. Raises JobError when it did not succeed, and TimeoutError when it
        has not ended."""
        run = self.wait(timeout)
        if run.live:
            raise TimeoutError(f"Run {self.id} of {self._task} has not ended: {run.status}.")
        found: dict[str, Any] = run.outcome or {}
        if run.state != "succeeded":
            why = str(found.get("error") or run.status).strip().rpartition("\n")[2]
            raise JobError(f"Run {self.id} of {self._task} did not succeed: {why}", hint=f"matins runs show {self.id}")
        return found.get("result")

    def cancel(self) -> Run:
        """End it, or let it not start."""
        return self._m.runs.cancel(self.id)


class Task(Generic[P]):
    """A function of the program, which can still be called, and whose calls can be left to the engine."""

    def __init__(
        self, m: TransactionApi, clock: Clock, name: str, function: Callable[P, Any], options: Mapping[str, Any] = {}
    ) -> None:
        update_wrapper(self, function)
        self._m = m
        self._clock = clock
        self.name = name
        self._function = function
        self._options = options

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> Any:
        """Call the function here and now."""
        return self._function(*arguments, **named)

    def options(
        self,
        *,
        key: str | None = None,
        at: datetime | timedelta | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Task[P]:
        """The task with options for `delay`. The same `key` makes one run only. `at`: when it starts, or how much
        later. `connection`: the run exists exactly if you commit your transaction on PostgreSQL."""
        if isinstance(at, timedelta):
            at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC) + at
        given = {"key": key, "at": at, "connection": connection}
        return Task(self._m, self._clock, self.name, self._function, given)

    def delay(self, *arguments: P.args, **named: P.kwargs) -> Handle:
        """Leave a call to the engine. The arguments must be JSON data; wrong ones raise TypeError here."""
        bound = inspect.signature(self._function).bind(*arguments, **named)
        bound.apply_defaults()
        run = self._m.run(self.name, input=_by_name(bound), **self._options)
        return Handle(self._m, self.name, run.id)


def _by_name(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments as a mapping. What the function takes as `**more` is beside the others."""
    given = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= given.pop(name)
    return given
