"""Service: right, arguments, method; what may be seen.

The service: every use case by name, behind one call that checks rights and arguments.

What callers see. An agent: names, times, states and codes of everything; content only of what it made or is.

Fields with content are marked in `api/results`. Only who governs sees the paths of URLs in settings, which may contain
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from matins.api import _results, results
from matins.api.arguments import read_arguments
from matins.api.use_case import UseCase
from matins.engine.schedules import PRIVATE_SETTINGS, without_keys
from matins.engine.settings import origin
from matins.engine.validation import UNSTORABLE
from matins.errors import InvalidFile, InvalidInput, NotAllowed
from matins.executors.registry import JobRegistry
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.model.run import StepId
from matins.model.words import CONTENT
from matins.service.approvals import Approvals
from matins.service.attention import Attention
from matins.service.audit import Audit
from matins.service.backfills import Backfills
from matins.service.bulk import Bulk, RunBulk
from matins.service.calls import Calls, Inbound, Pings
from matins.service.changes import AgentNames, Changes, Comparisons
from matins.service.core import Core
from matins.service.doctor import Doctor
from matins.service.erasure import Erasure
from matins.service.events import Events, Subscriptions, Webhooks
from matins.service.explanations import Explanations
from matins.service.file.apply import File
from matins.service.file.write_back import FileWriter
from matins.service.forecasts import CatchUps
from matins.service.incidents import Destinations, Incidents
from matins.service.jobs import KnownJobs
from matins.service.lanes import LaneCharts
from matins.service.listing import RunLists, ScheduleLists
from matins.service.missions import Missions
from matins.service.new_agents import NewAgents
from matins.service.nodes import Nodes
from matins.service.output import Outputs, Transcripts
from matins.service.permissions import check_fresh, check_right, governs
from matins.service.previews import Previews
from matins.service.proposals import Proposals
from matins.service.record_changes import RecordChanges
from matins.service.records import Records
from matins.service.run_views import Facts
from matins.service.runs import Replies, Runs, SpeakingRuns, Threads
from matins.service.schedule_changes import ScheduleChanges
from matins.service.schedules import Additions, Schedules
from matins.service.search import Search
from matins.service.sign_in import People, Sessions
from matins.service.system import System
from matins.service.timeline import Calendars, History, Timelines
from matins.service.tokens import Tokens
from matins.store import Store
from matins.store.transaction import Transaction

_MAX_INTEGER = 1 << 63
_MAX_DEPTH = 100


def check_storable(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        if name in ("payload", "body"):  # stored as JSON, which can encode a NUL
            _check_json(name, value)
        else:
            _check(name, value)


def _check_json(field: str, value: Any, depth: int = 0) -> None:
    """Raise InvalidInput for a number that JSON does not have (NaN, or an infinity), and for deep nesting."""
    if depth > _MAX_DEPTH:
        message = f'"{field}" is nested deeper than {_MAX_DEPTH} levels.'
        raise InvalidInput(message, field=field, hint="Make it flatter.")
    if isinstance(value, float) and not isfinite(value):
        raise InvalidInput(
            f'"{field}" contains {value}, which JSON does not have.', value=str(value), field=field, hint="Use null."
        )
    inner: Any = cast("Any", value)
    if isinstance(value, dict):
        for item in inner.values():
            _check_json(field, item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in inner:
            _check_json(field, item, depth + 1)


def _check(field: str, value: Any) -> None:
    if isinstance(value, str) and UNSTORABLE.search(value):
        shown = ascii(value)[:60]
        raise InvalidInput(
            f'"{field}" contains a NUL or half a character.', value=shown, field=field, hint="Remove it."
        )
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise InvalidInput(f'"{field}" is too large a number.', value=value, field=field, hint="Use at most 64 bits.")


_OF_RUN = frozenset(["runs.output", "runs.transcript", "runs.snapshot", "runs.checks", "runs.thread", "runs.diff"])
_OF_THREAD = frozenset(["threads.messages"])
_OF_SCHEDULE = frozenset(["schedules.preview_edit", "schedules.history"])
_OF_CALLER = frozenset(["schedules.preview_new", "system.context"])
"""Use cases whose results hold only what the caller said, or where it is."""
_CHECKED = _OF_RUN | _OF_THREAD | _OF_SCHEDULE
_OWN = _CHECKED | _OF_CALLER
"""Use cases that an agent can call only about what is its own."""
_SCHEDULES = (results.Schedule, results.Mission)
_WITH_SETTINGS = (results.Schedule, results.Snapshot)
_WITH_CHANGES = (results.Change, results.EditForecast)
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
                schedule = self.core.find(transaction, values["name"], values.get("agent"), deleted=True)
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
    """What replaces content of a type: None where that is allowed, else an empty text, list or mapping."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if hint is Any or NoneType in kinds:
        return None
    return _EMPTY[get_origin(kinds[0]) or kinds[0]]()


def _without_keys(result: Any) -> Any:
    if isinstance(result, list):
        return [_without_keys(item) for item in cast("list[Any]", result)]
    if isinstance(result, _WITH_SETTINGS) and not PRIVATE_SETTINGS.isdisjoint(result.settings):
        return msgspec.structs.replace(result, settings=without_keys(result.settings))
    if isinstance(result, _WITH_CHANGES) and any(one.setting in PRIVATE_SETTINGS for one in result.settings):
        return msgspec.structs.replace(result, settings=[_without_key(one) for one in result.settings])
    return result


def _without_key(change: results.SettingChange) -> results.SettingChange:
    if change.setting not in PRIVATE_SETTINGS:
        return change
    before, after = (None if url is None else origin(url) for url in (change.before, change.after))
    return results.SettingChange(change.setting, before, after)


def _not_its_own(principal: Principal, what: str, name: str) -> NotAllowed:
    message = f"{principal.name} did not make {what}, and cannot read its content."
    return NotAllowed(message, value=what, field=name, hint='The owner can allow it: agent_rules, "sees: all".')


_OF_CORE: Mapping[str, tuple[Callable[[Core], Any], ...]] = {
    "schedules": (Explanations, Timelines, LaneCharts, Facts, ScheduleLists, Calendars, CatchUps),
    "runs": (Facts, RunLists, SpeakingRuns, Erasure),
    "backfills": (Backfills,),
    "events": (Events,),
    "subscriptions": (Subscriptions,),
    "audit": (Audit,),
    "incidents": (Incidents,),
    "destinations": (Destinations,),
    "threads": (Threads,),
    "nodes": (Nodes,),
    "tokens": (Tokens,),
    "sessions": (Sessions,),
    "system": (Attention, SpeakingRuns, History),
}
"""Parts of the service that need nothing but the core, by noun."""


class Service:
    """All use cases. `wake` is called after a change, to wake the loops of this process."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        wake: Callable[[], None] = lambda: None,
        workdir: str | None = None,
        jobs: JobRegistry | None = None,
    ) -> None:
        self.core = core = Core(store, clock, wake, workdir, KnownJobs(store, jobs or JobRegistry()))
        self.local = core.local
        self._visibility = Visibility(core)
        proposals, records = Proposals(core), RecordChanges(core)
        changes, additions = ScheduleChanges(core, proposals), Additions(proposals, NewAgents(core, records))
        file = File(core, changes, records)
        writer = FileWriter(core, file)
        generic = Records(core, records, writer)
        schedules = Schedules(core, proposals, changes, additions, writer)
        runs, outputs, calls = Runs(core), Outputs(core), Calls(core)
        search = Search(core, outputs)
        bulk = Bulk(core, changes, schedules, runs)
        self._parts: Mapping[str, tuple[Any, ...]] = {
            "schedules": (
                schedules,
                runs,
                Previews(core, proposals, additions),
                bulk,
                Changes(core, schedules),
                search,
            ),
            "bulk": (bulk,),
            "missions": (Missions(core, schedules),),
            "runs": (runs, RunBulk(core, runs), Comparisons(core, runs), outputs, Transcripts(outputs), search),
            "approvals": (Approvals(core, proposals),),
            "agents": (AgentNames(core, schedules, generic),),
            "webhooks": (Webhooks(core, generic),),
            "calls": (calls,),
            "pings": (Pings(core, runs),),
            "inbound": (Inbound(core, calls),),
            "threads": (Replies(core, runs),),
            "file": (file,),
            "people": (People(core, generic),),
            "system": (System(core, Doctor(core, file)),),
        }
        self._records = generic.methods()
        self._methods: dict[str, Callable[..., Any]] = {}

    def invoke(self, principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The result of a use case. Rights and arguments are checked only here."""
        if principal.person is None:
            check_right(principal, use_case)
        check_storable(arguments)
        values = read_arguments(use_case, arguments)
        if principal.person is not None:
            principal = self.core.with_grants(principal, use_case, values)
            check_right(principal, use_case)
        if use_case.fresh:
            check_fresh(principal, self.core.clock.now_ms())
        self._visibility.check(principal, use_case, values)
        try:
            result = self.method(use_case)(principal, **values)
        except InvalidFile as error:
            raise self._visibility.shown_error(principal, error) from None
        return self._visibility.shown(principal, use_case, result)

    def method(self, use_case: UseCase) -> Callable[..., Any]:
        """The method of a use case: of a part, or of the records of its kind."""
        found = self._methods.get(use_case.name)
        if found is None:
            noun, verb = use_case.noun, use_case.verb
            parts = [*self._parts.get(noun, ()), *(part(self.core) for part in _OF_CORE.get(noun, ()))]
            own = [getattr(part, verb) for part in parts if hasattr(part, verb)]
            found = self._methods[use_case.name] = own[0] if own else self._records[use_case.name]
        return found
