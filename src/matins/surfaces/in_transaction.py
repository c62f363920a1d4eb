"""Calls inside a transaction of the program, on its own connection to PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Unpack

from matins.api.help import document_settings, extends
from matins.api.schedules import Api

if TYPE_CHECKING:
    import psycopg

    from matins.api._types import ScheduleSettings
    from matins.api.arguments import Instant, Json, Moment, When
    from matins.api.results import Run, Schedule


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
