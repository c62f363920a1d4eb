"""Schedules, compiled once per revision (`Catalog`), and stored rows as values (`schedule_record`, `run_record`).

`call_context`: the call that a run stands for, as prompts, jobs and approvals see it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import orjson

from matins.engine.gates import ALL, Mask, applicable_gates, level_mask
from matins.engine.jobs import MESSAGE_JOB, job_needs, wakes_agent
from matins.engine.planning import Timetable
from matins.engine.policies import NO_POLICIES, Policies, read_policies
from matins.engine.prompts import CallContext
from matins.engine.schedules import UNREADABLE, decode, decode_sharing
from matins.engine.steps import of_step
from matins.engine.when.triggers import compile_trigger
from matins.model.call import CallRow
from matins.model.rows import CompiledKey, RunRow, ScheduleRow
from matins.model.run import RunRecord, RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord, Step
from matins.model.trigger import Never, Once
from matins.store.transaction import Transaction

log = logging.getLogger("matins")
_MAX_CACHED, _MAX_WORDS = 200_000, 4_096
GLOBAL = "global"
_GLOBAL_ONLY = frozenset([GLOBAL])
_NO_SCOPES: frozenset[str] = frozenset()
NO_LIMITS: tuple[int | None, int | None] = (None, None)


_compiled_trigger = lru_cache(maxsize=4096)(compile_trigger)


class _Settings:
    """What follows from the settings of a schedule, or of one of its steps. Schedules with equal settings share it."""

    __slots__ = (
        "agent", "definition", "emits_message", "ends_plainly", "exclusive", "gates", "levels", "needs", "run_limits",
        "starts_plainly", "steps", "timetable", "wakes_agent",
    )  # fmt: skip

    def __init__(self, definition: ScheduleDefinition, step: int) -> None:
        self.levels, self.agent, self.run_limits = ALL, "", NO_LIMITS
        if step:
            self.agent, self.levels = definition.steps[step - 1].agent, level_mask("step")
            self.run_limits = definition.max_cost, definition.max_tokens
            definition = of_step(definition, step)
        elif definition.steps:
            self.levels = level_mask("run")
        self.definition, self.steps = definition, definition.steps
        once = isinstance(definition.trigger.when, Once)
        self.timetable = Timetable(definition, (compile_trigger if once else _compiled_trigger)(definition.trigger))
        self.exclusive = int(self.timetable.exclusive)
        self.gates = applicable_gates(definition) & self.levels
        self.wakes_agent = wakes_agent(definition)
        self.emits_message = definition.job == MESSAGE_JOB
        self.needs = job_needs(definition)
        self.ends_plainly = not (
            step
            or self.steps
            or self.wakes_agent
            or self.timetable.from_completion
            or definition.deliver
            or definition.deliver_if == "always"
        )
        self.starts_plainly = (
            self.ends_plainly
            and self.timetable.plain_times
            and not self.gates
            and not self.emits_message
            and definition.after_run is None  # its files are checked before the start
        )


_by_words: dict[bytes, _Settings] = {}


@lru_cache(maxsize=4096)
def _settings(text: str, step: int) -> tuple[_Settings, ScheduleDefinition]:
    """What follows from the settings, and the settings themselves, with the payload."""
    definition, words = decode_sharing(text)
    if step or words is None:
        shared = _Settings(definition, step)
        return shared, shared.definition
    shared = _by_words.get(words)
    if shared is None:
        if len(_by_words) > _MAX_WORDS:
            _by_words.clear()
        shared = _by_words[words] = _Settings(definition, step)
    return shared, definition


class CompiledSchedule:
    """A schedule at one revision, or one of its steps."""

    __slots__ = (
        "_text", "agent", "creator", "definition", "emits_message", "ends_plainly", "exclusive", "gates", "levels",
        "name", "needs", "rev", "run_limits", "schedule_agent", "schedule_id", "scope", "scopes", "starts_plainly",
        "step", "steps", "timetable", "uid", "wakes_agent",
    )  # fmt: skip

    uid: str
    """Random, and part of the keys of its runs."""
    creator: str | None
    """The agent that created it; None if a person did."""
    step: int
    """The number of the step, from 1; 0 for the whole schedule."""
    levels: Mask
    """The gates that a run of this level passes: all of them, unless it has steps or is one."""
    gates: Mask
    """The gates at which its settings may stop a run."""
    run_limits: tuple[int | None, int | None]
    """Of a step, what all steps of a run may spend together, in micro-dollars and tokens."""
    steps: tuple[Step, ...]
    """The steps that its runs consist of; mostly there are none."""
    scopes: frozenset[str]
    """The limits that its runs count for. A run of steps counts for none; its steps do."""
    wakes_agent: bool
    """Whether its runs are prompts to an agent."""
    emits_message: bool
    """Whether its runs only emit an event: they need no capacity."""
    needs: frozenset[str]
    """What an engine must have for its runs, apart from the agent's runner."""
    starts_plainly: bool
    """Whether its settings let a slot that is on time start at once: the short road of the planner."""
    ends_plainly: bool
    """Whether nothing but its record follows from a success without a result: the short road of the recorder."""

    def __init__(
        self,
        schedule_id: int,
        rev: int,
        name: str,
        agent: str,
        text: str,
        uid: str = "",
        creator: str | None = None,
        step: int = 0,
    ) -> None:
        self.schedule_id = schedule_id
        self.rev = rev
        self.name = name
        self.uid = uid
        self.creator = creator
        self.step = step
        shared, self.definition = _settings(text, step)
        self.timetable = shared.timetable
        self.levels = shared.levels
        self.gates = shared.gates
        self.run_limits = shared.run_limits
        self.steps = shared.steps
        self._text = text if shared.steps else ""
        self.schedule_agent = agent
        self.agent = agent = shared.agent or agent
        self.exclusive = shared.exclusive
        self.scope = f"agent:{agent}" if agent and not shared.steps else None
        self.scopes = frozenset([GLOBAL, self.scope]) if self.scope else _NO_SCOPES if shared.steps else _GLOBAL_ONLY
        self.wakes_agent = shared.wakes_agent
        self.emits_message = shared.emits_message
        self.needs = shared.needs
        self.starts_plainly = shared.starts_plainly and creator is None
        self.ends_plainly = shared.ends_plainly

    @property
    def full_name(self) -> str:
        """The schedule as agent/name."""
        return f"{self.schedule_agent}/{self.name}"

    def step_of(self, number: int) -> CompiledSchedule:
        """One of its steps."""
        return CompiledSchedule(
            self.schedule_id, self.rev, self.name, self.agent, self._text, self.uid, self.creator, number
        )


class Catalog:
    def __init__(
        self, *, cache: bool = True, workdir: str | None = None, out_of_reach: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._workdir = workdir
        self._out_of_reach = out_of_reach
        """The directories that isolated agents cannot write."""
        self._caches = cache
        """False while settings are edited: after a rollback, another edit may get the same revision number."""
        self._cache: dict[CompiledKey, CompiledSchedule] = {}
        self._policies = replace(NO_POLICIES, workdir=workdir)

    def clear(self) -> None:
        """Clear the cache after a rollback."""
        self._cache, self._policies = {}, replace(NO_POLICIES, workdir=self._workdir)

    def policies_at(self, rev: int) -> Policies | None:
        """The policies as they were read last, if they are those of this revision."""
        return self._policies if self._policies.rev == rev else None

    def policies(self, transaction: Transaction) -> Policies:
        """The present policies, read again only after a change."""
        rev = transaction.policy_rev()
        if rev != self._policies.rev:
            found = read_policies(rev, transaction.policies(), transaction.throttles())
            self._policies = replace(found, workdir=self._workdir, out_of_reach=tuple(self._out_of_reach()))
            for trouble in self._policies.unreadable:
                log.error("A policy cannot be read and is ignored: %s", trouble)
        return self._policies

    def find(self, transaction: Transaction, key: CompiledKey) -> CompiledSchedule | Exception | None:
        """One compiled schedule or step; None when there is no such revision."""
        return self.compiled(transaction, [key]).get(key)

    def compiled(
        self, transaction: Transaction, keys: Iterable[CompiledKey]
    ) -> dict[CompiledKey, CompiledSchedule | Exception]:
        """The compiled schedules at these revisions; an exception for a definition that cannot be used."""
        found: dict[CompiledKey, CompiledSchedule | Exception] = {}
        missing: list[CompiledKey] = []
        for key in keys:
            compiled = self._cache.get(key)
            if compiled is None:
                missing.append(key)
            else:
                found[key] = compiled
        if missing:
            if len(self._cache) > _MAX_CACHED:
                self._cache.clear()
            found.update(self._load(transaction, missing))
        return found

    def _load(
        self, transaction: Transaction, keys: list[CompiledKey]
    ) -> dict[CompiledKey, CompiledSchedule | Exception]:
        loaded: dict[CompiledKey, CompiledSchedule | Exception] = {}
        rows = {(row.schedule_id, row.rev): row for row in transaction.definitions({key[:2] for key in keys})}
        for key in keys:
            row = rows.get(key[:2])
            if row is None:
                continue
            try:
                loaded[key] = compiled = CompiledSchedule(*row, step=key[2])
            except Exception as error:  # one bad row must not stop the others
                loaded[key] = error
                continue
            if self._caches:
                self._cache[key] = compiled
        return loaded


def schedule_record(row: ScheduleRow) -> ScheduleRecord:
    values: dict[str, Any] = row._asdict()
    has_live_runs = values.pop("has_live_runs")
    try:
        values["definition"] = _definition(row.definition)
    except Exception as error:  # one bad row must not hide the others
        values |= {"state": "broken", "definition": UNREADABLE, "note": f"{type(error).__name__}: {error}"}
    if values["state"] == "active" and row.next_slot is None and not has_live_runs:
        definition: ScheduleDefinition = values["definition"]
        limit = definition.max_executions
        on_call = bool(definition.on) or isinstance(definition.trigger.when, Never)
        waits_for_calls = on_call and (limit is None or row.executions < limit)
        values["state"] = "active" if waits_for_calls else "completed"
    return ScheduleRecord(**values)


def _definition(text: str) -> ScheduleDefinition:
    """The parsed definition. Readers share it, unless it has values that they could change."""
    shared = _shared(text) if len(text) <= _MAX_SHARED_LENGTH else None
    return decode(text) if shared is None else shared


@lru_cache(maxsize=1_024)
def _shared(text: str) -> ScheduleDefinition | None:
    return None if any(name in text for name in _CHANGEABLE) else decode(text)


_MAX_SHARED_LENGTH = 4_096
_CHANGEABLE = ('"payload"', '"labels"', '"on"')


def run_record(row: RunRow) -> RunRecord:
    values: dict[str, Any] = row._asdict()
    values["state"] = RunState(row.state)
    values["evidence"] = orjson.loads(row.evidence) if row.evidence else None
    values["outcome"] = orjson.loads(row.outcome) if row.outcome else None
    return RunRecord(**values)


def call_context(transaction: Transaction, run_id: int) -> CallContext | None:
    """The newest call that the run stands for, or the run that it is a step of."""
    rows = transaction.calls_of_run(next(iter(transaction.parents_of([run_id])), run_id), 1)
    return _context(rows[0]) if rows else None


def _context(row: CallRow) -> CallContext:
    body: Any = None if row.body is None else orjson.loads(row.body)
    return CallContext(row.key, row.source, row.type, row.text, body)
