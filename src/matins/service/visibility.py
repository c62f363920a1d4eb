"""What callers see. An agent: names, times, states and codes of everything; content only of what it made or is.

Fields with content are marked in `api/results`. Only who governs sees the paths of URLs in settings, which may contain
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from matins.api import _results, results
from matins.api.results.content import CONTENT
from matins.api.use_case import UseCase
from matins.engine.schedules import PRIVATE_SETTINGS, without_keys
from matins.errors import InvalidFile, NotAllowed
from matins.model.access import Principal
from matins.model.run import StepId
from matins.service.core import Core
from matins.service.permissions import governs
from matins.store.transaction import Transaction

_OF_RUN = frozenset(["runs.output", "runs.transcript", "runs.snapshot", "runs.checks", "runs.thread"])
_OF_THREAD = frozenset(["threads.messages"])
_OF_SCHEDULE = frozenset(["schedules.preview_edit"])
_OF_CALLER = frozenset(["schedules.preview_new", "system.context"])
"""Use cases whose results hold only what the caller said, or where it is."""
_CHECKED = _OF_RUN | _OF_THREAD | _OF_SCHEDULE
_OWN = _CHECKED | _OF_CALLER
"""Use cases that an agent can call only about what is its own."""
_SCHEDULES = (results.Schedule, results.Mission)
_WITH_SETTINGS = (results.Schedule, results.Snapshot)
_EMPTY: Mapping[Any, Callable[[], Any]] = {str: str, list: list[Any], dict: dict[str, Any]}


@dataclass(frozen=True)
class Visibility:
    core: Core

    def check(self, principal: Principal, use_case: UseCase, values: Mapping[str, Any]) -> None:
        """Raise NotAllowed if an agent asks for the content of something that is not its own."""
        if use_case.name not in _CHECKED or principal.role != "agent":
            return
        with self.core.store.reading() as transaction:
            agent = self.core.limited_reader(principal, transaction)
            if agent is None:
                return
            view = _View(transaction, agent)
            if use_case.name in _OF_RUN and not view.owns_run(values["run_id"]):
                raise _not_its_own(principal, f"run {values['run_id']}", "run_id")
            if use_case.name in _OF_THREAD and not view.owns_thread(values["thread_id"]):
                raise _not_its_own(principal, f"thread {values['thread_id']}", "thread_id")
            if use_case.name in _OF_SCHEDULE:
                schedule = self.core.find(transaction, values["name"], values.get("agent"))
                if not view.owns_schedule(schedule.id):
                    raise _not_its_own(principal, f'"{schedule.name}"', "name")

    def shown(self, principal: Principal, use_case: UseCase, result: Any) -> Any:
        """The result without keys, and without the content of what is not the agent's own."""
        if not governs(principal):
            result = _without_keys(result)
        if principal.role != "agent":
            return result
        with self.core.store.reading() as transaction:
            agent = self.core.limited_reader(principal, transaction)
            return result if agent is None else _View(transaction, agent).shown(result, own=use_case.name in _OWN)

    def shown_error(self, principal: Principal, error: InvalidFile) -> InvalidFile:
        """The error about a file. It quotes the file, so an agent learns only that there is one."""
        if self.core.limited_reader(principal) is None:
            return error
        return InvalidFile("The file is not valid.", field="file", hint="Tell the owner, who sees why: matins plan")


@dataclass
class _View:
    transaction: Transaction
    agent: str
    known: dict[int, bool] = field(default_factory=dict[int, bool])

    def shown(self, result: Any, *, own: bool) -> Any:
        """The result without content, unless it is the agent's own. `own`: whether what it is a part of is."""
        if isinstance(result, list):
            return [self.shown(item, own=own) for item in cast("list[Any]", result)]
        if not isinstance(result, msgspec.Struct):
            return result
        parts = _parts_of(type(result))
        if parts is None:
            return result
        own = self._owns(result, own)
        changes = {} if own else dict(parts.blank)
        for name in parts.nested:
            changes[name] = self.shown(getattr(result, name), own=own)
        return msgspec.structs.replace(result, **changes) if changes else result

    def owns_run(self, run_id: int | StepId) -> bool:
        run = self.transaction.run(run_id.run if isinstance(run_id, StepId) else run_id)
        return run is None or self.owns_schedule(run.schedule_id)  # the use case reports a missing run

    def owns_thread(self, thread_id: int) -> bool:
        thread = self.transaction.thread(thread_id)
        return thread is None or thread.agent == self.agent

    def owns_schedule(self, schedule_id: int) -> bool:
        if schedule_id not in self.known:
            row = self.transaction.schedule(schedule_id)
            made = row is not None and row.creator_role == "agent" and row.created_by == f"agent:{self.agent}"
            self.known[schedule_id] = made or (row is not None and row.agent == self.agent)
        return self.known[schedule_id]

    def _owns(self, result: Any, own: bool) -> bool:
        """Whether a result is the agent's own: by its schedule or agent; a part without either, by the whole."""
        if isinstance(result, results.Thread):
            return result.agent == self.agent
        if isinstance(result, _results.Agent):
            return result.name == self.agent
        schedule_id = result.id if isinstance(result, _SCHEDULES) else getattr(result, "schedule_id", None)
        return own if schedule_id is None else self.owns_schedule(int(schedule_id))


class _Parts(NamedTuple):
    """The fields of a result with content, with what replaces them, and those with other results."""

    blank: Mapping[str, Any]
    nested: tuple[str, ...]


@cache
def _parts_of(kind: type[Any]) -> _Parts | None:
    """The parts of a type, read from its annotations once; None if it holds no content."""
    blank: dict[str, Any] = {}
    nested: list[str] = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated and CONTENT in hint.__metadata__:
            blank[name] = _blank(hint.__origin__)
        elif any(_parts_of(inner) is not None for inner in _structs_in(hint)):
            nested.append(name)
    return _Parts(blank, tuple(nested)) if blank or nested else None


def _structs_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint):
        yield from _structs_in(inner)


def _blank(hint: Any) -> Any:
    """What stands in place of content of a type: None where that is allowed, else an empty text, list or mapping."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if hint is Any or NoneType in kinds:
        return None
    return _EMPTY[get_origin(kinds[0]) or kinds[0]]()


def _without_keys(result: Any) -> Any:
    if isinstance(result, list):
        return [_without_keys(item) for item in cast("list[Any]", result)]
    if isinstance(result, _WITH_SETTINGS) and not PRIVATE_SETTINGS.isdisjoint(result.settings):
        return msgspec.structs.replace(result, settings=without_keys(result.settings))
    return result


def _not_its_own(principal: Principal, what: str, name: str) -> NotAllowed:
    message = f"{principal.name} did not make {what}, and cannot read its content."
    return NotAllowed(message, value=what, field=name, hint='The owner can allow it: agent_rules, "sees: all".')
