"""Schedules, compiled once per revision (`Catalog`), and stored rows as values (`schedule_record`, `run_record`).

`call_context`: the call of a run, as prompts, jobs and approvals see it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from enum import IntFlag, auto
from functools import lru_cache
from typing import Any

import orjson

from matins.engine.gates import ALL, Mask, applicable_gates, level_mask
from matins.engine.inputs import decode_given, merged, with_defaults
from matins.engine.jobs import BUILT_IN, MESSAGE_JOB, wakes_agent
from matins.engine.placement import schedule_needs
from matins.engine.planning import Timetable
from matins.engine.policies import NO_POLICIES, Policies, read_policies
from matins.engine.prompts import CallContext
from matins.engine.schedules import ONCE, UNREADABLE, decode, decode_payload, shared_words
from matins.engine.steps import of_step
from matins.engine.when.triggers import compile_trigger
from matins.model.call import CallRow
from matins.model.rows import CompiledKey, RunRow, ScheduleRow
from matins.model.run import Given, RunRecord, RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord, Step
from matins.model.selector import LABEL
from matins.model.trigger import Never, Once
from matins.store.transaction import Transaction

log = logging.getLogger("matins")
_MAX_CACHED, _MAX_ONE_SHOTS, _MAX_WORDS = 200_000, 2_000, 4_096
GLOBAL = "global"
_GLOBAL_ONLY = frozenset([GLOBAL])
_NO_SCOPES: frozenset[str] = frozenset()
NO_LIMITS: tuple[int | None, int | None] = (None, None)


_compiled_trigger = lru_cache(maxsize=4096)(compile_trigger)


class Special(IntFlag):
    """What keeps the runs of a schedule from the fast paths. Without any of it, a slot that is on time starts as it is
    planned, and nothing but its record follows from a success."""

    STEPS = auto()
    """It has steps, or is one."""
    AGENT = auto()
    """Its runs are prompts to an agent, with threads, usage and denials."""
    MESSAGE = auto()
    """Its runs end as they start."""
    TIMES = auto()
    """Its slots have jitter, or an end."""
    GATES = auto()
    """Its settings may stop a run."""
    COMMAND = auto()
    """The files of its `after_run` are checked before the start."""
    CREATOR = auto()
    """An agent created it."""
    ANSWER = auto()
    """Its answers are delivered. It starts as others do."""
    WATCHED = auto()
    """People hear when a run is late or slow. It starts as others do."""


AT_END = int(Special.STEPS | Special.AGENT | Special.ANSWER)
"""What keeps a success from the fast path. The rest no longer matters once a run has started."""
MAY_EMIT = int(Special.AGENT | Special.MESSAGE)
"""What a run may be that only emits an event: an agent's runner may be `message`."""
AT_START = ~int(Special.ANSWER | Special.WATCHED)
"""What keeps a slot from the fast path."""


class SharedSettings:
    """What follows from the settings of a schedule, or of one of its steps. Schedules share it that differ in nothing
    but the payload and, if they are one-shots, the instant: here, these are those of the first."""

    __slots__ = (
        "agent", "definition", "emits_message", "exclusive", "gates", "input", "labels", "levels", "needs",
        "own_payload", "run_limits", "special", "steps", "timetable", "wakes_agent",
    )  # fmt: skip

    def __init__(self, definition: ScheduleDefinition, step: int) -> None:
        self.levels, self.agent, self.run_limits = ALL, "", NO_LIMITS
        self.input = with_defaults(definition.inputs, definition.payload) if step else None
        self.own_payload = bool(step) and definition.steps[step - 1].payload is not None
        if step:
            self.agent, self.levels = definition.steps[step - 1].agent, level_mask("step")
            self.run_limits = definition.max_cost, definition.max_tokens
            definition = of_step(definition, step)
        elif definition.steps:
            self.levels = level_mask("run")
        self.definition, self.steps = definition, definition.steps
        self.timetable = _timetable(definition)
        self.exclusive = int(self.timetable.exclusive)
        self.gates = applicable_gates(definition) & self.levels
        self.wakes_agent = wakes_agent(definition)
        self.emits_message = definition.job == MESSAGE_JOB
        self.needs = schedule_needs(definition)
        labels = definition.labels
        self.labels = frozenset([f"{LABEL}{key}={labels[key]}" for key in labels]) if labels else _NO_SCOPES
        """The limits of its labels."""
        special = {
            Special.STEPS: step or self.steps,
            Special.AGENT: self.wakes_agent,
            Special.MESSAGE: self.emits_message,
            Special.TIMES: not self.timetable.plain_times,
            Special.GATES: self.gates,
            Special.COMMAND: definition.after_run is not None,
            Special.ANSWER: definition.deliver or definition.deliver_if == "always",
            Special.WATCHED: not step
            and (definition.late_after_ms is not None or definition.slow_after_ms is not None),
        }
        self.special = sum(int(flag) for flag, holds in special.items() if holds)


def _timetable(definition: ScheduleDefinition) -> Timetable:
    once = isinstance(definition.trigger.when, Once)  # remembering its instant would only displace others
    return Timetable(definition, (compile_trigger if once else _compiled_trigger)(definition.trigger))


_by_words: dict[bytes, SharedSettings] = {}


def _settings(text: str, step: int) -> tuple[SharedSettings, bool]:
    """What follows from the settings, and whether they have a payload or an instant of their own."""
    words = None if step else shared_words(text)
    if words is None:
        return SharedSettings(decode(text), step), False
    shared = _by_words.get(words)
    if shared is None:
        if len(_by_words) > _MAX_WORDS:
            _by_words.clear()
        shared = _by_words[words] = SharedSettings(decode(text), 0)
    return shared, True


_remembered = lru_cache(maxsize=4096)(_settings)


class CompiledSchedule:
    """A schedule at one revision, or one of its steps."""

    __slots__ = (
        "_definition", "_input", "_text", "_timetable", "agent", "creator", "emits_message", "exclusive", "gates",
        "given", "levels", "name", "needs", "rev", "run_limits", "schedule_agent", "schedule_id", "scope", "scopes",
        "shared", "signed", "signed_agent", "special", "step", "steps", "uid", "wakes_agent",
    )  # fmt: skip

    uid: str
    """Random, and part of the keys of its runs."""
    creator: str | None
    """The agent that created it; None if a person did."""
    signed: str
    """The name at that time, which digests contain."""
    signed_agent: str
    """The name of the agent at that time."""
    step: int
    """The number of the step, from 1; 0 for the whole schedule."""
    levels: Mask
    """The gates that a run of this level passes: all of them, unless it has steps or is one."""
    gates: Mask
    """The gates at which its settings may stop a run."""
    run_limits: tuple[int | None, int | None]
    """For a step: what all steps of a run may spend together, in micro-dollars and tokens."""
    steps: tuple[Step, ...]
    """The steps that its runs consist of; mostly there are none."""
    scopes: frozenset[str]
    """The limits that its runs count for. A run of steps counts for none; its steps do."""
    wakes_agent: bool
    """Whether its runs are prompts to an agent."""
    emits_message: bool
    """Whether its runs only emit an event: they need no capacity."""
    needs: frozenset[str]
    """What a node must offer for its runs, apart from what their agent needs."""
    shared: SharedSettings
    """Its settings but for the payload and a one-shot's instant, which are decoded when `definition` is asked for."""
    special: int
    """What is `Special` about the schedule: mostly nothing (0), and its runs take the fast paths."""
    given: Given | None
    """What one run was started with; None for all others."""

    def __init__(
        self,
        schedule_id: int,
        rev: int,
        name: str,
        agent: str,
        text: str,
        uid: str = "",
        creator: str | None = None,
        signed: str | None = None,
        signed_agent: str | None = None,
        step: int = 0,
    ) -> None:
        self.schedule_id = schedule_id
        self.rev = rev
        self.name = name
        self.uid = uid
        self.creator = creator
        self.signed = name if signed is None else signed
        self.step = step
        shared, own = (_settings if text.startswith(ONCE) else _remembered)(text, step)
        self.shared = shared
        self._definition = None if own else shared.definition
        self._timetable = None if own and shared.timetable.once else shared.timetable
        self.given = self._input = None  # of all runs but few
        self.levels = shared.levels
        self.gates = shared.gates
        self.run_limits = shared.run_limits
        self.steps = shared.steps
        self._text = text if own or shared.steps else ""
        self.schedule_agent = agent
        self.signed_agent = shared.agent or signed_agent or agent
        self.agent = agent = shared.agent or agent
        self.exclusive = shared.exclusive
        self.scope = f"agent:{agent}" if agent and not shared.steps else None
        self.scopes = frozenset([GLOBAL, self.scope]) if self.scope else _NO_SCOPES if shared.steps else _GLOBAL_ONLY
        if shared.labels and not shared.steps:
            self.scopes |= shared.labels
        self.wakes_agent = shared.wakes_agent
        self.emits_message = shared.emits_message
        self.needs = shared.needs
        self.special = shared.special if creator is None else shared.special | Special.CREATOR
        if shared.definition.inputs:
            self._take(with_defaults(self.definition.inputs, self.definition.payload))

    @property
    def definition(self) -> ScheduleDefinition:
        found = self._definition
        if found is None:
            found = self._definition = decode(self._text)
        return found

    @property
    def timetable(self) -> Timetable:
        found = self._timetable
        if found is None:
            found = self._timetable = _timetable(self.definition)
        return found

    @property
    def payload(self) -> Any:
        """A copy of its own for each who asks."""
        stored = self._text and not self.steps and self._input is None
        return decode_payload(self._text) if stored else deepcopy(self.definition.payload)

    @property
    def input(self) -> Any:
        """The input of its runs: of the whole run, also for a step that has a payload of its own."""
        if self._input is not None:
            return self._input
        return self.shared.input if self.step else self.definition.payload

    def _take(self, value: Any) -> None:
        """Have this input: the payload of a job too, unless a step has one of its own."""
        self._input = value
        if not self.shared.own_payload and self.definition.job not in BUILT_IN:
            self._definition = replace(self.definition, payload=value)

    @property
    def full_name(self) -> str:
        """The schedule as agent/name."""
        return f"{self.schedule_agent}/{self.name}"

    def with_input(self, value: Any, fenced: tuple[str, ...], step: int) -> CompiledSchedule:
        """The same as a step, or the whole, of a run with this input. The definition is that of the step already."""
        made = self.with_given(Given(fenced=fenced))
        made._input, made.step = value, step
        return made

    def step_of(self, number: int) -> CompiledSchedule:
        """One of its steps."""
        step = CompiledSchedule(
            self.schedule_id,
            self.rev,
            self.name,
            self.agent,
            self._text,
            self.uid,
            self.creator,
            self.signed,
            self.signed_agent,
            number,
        )
        return step if self.given is None else step.with_given(self.given)

    def with_given(self, given: Given) -> CompiledSchedule:
        """The schedule for one run, with what that run was started with. The settings are not compiled again."""
        made = object.__new__(CompiledSchedule)
        for name in CompiledSchedule.__slots__:
            setattr(made, name, getattr(self, name))
        made.given = given
        if given.input is not None:
            made._take(merged(self.input, given.input))
        chosen = {"job_prompt": given.prompts.get(str(self.step)), "model": given.model, "effort": given.effort}
        if any(value is not None for value in chosen.values()):
            found = {name: value for name, value in chosen.items() if value is not None}
            made._definition = replace(made.definition, **found)
        return made


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
        self._one_shots: dict[CompiledKey, CompiledSchedule] = {}
        """Each fires once: few are kept, for runs that wait for capacity."""
        self._policies = replace(NO_POLICIES, workdir=workdir)

    def clear(self) -> None:
        """Clear the cache after a rollback."""
        self._cache, self._one_shots = {}, {}
        self._policies = replace(NO_POLICIES, workdir=self._workdir)

    def policies_at(self, rev: int) -> Policies | None:
        """The policies as they were read last, if they are those of this revision."""
        return self._policies if self._policies.rev == rev else None

    def policies(self, transaction: Transaction) -> Policies:
        """The present policies, read again only after a change."""
        rev = transaction.policy_rev()
        if rev != self._policies.rev:
            found = read_policies(rev, transaction.policies(), transaction.throttles())
            if self._policies.agents.keys() - found.agents.keys():  # one may have another name, also in old revisions
                self._cache, self._one_shots = {}, {}
            self._policies = replace(found, workdir=self._workdir, out_of_reach=tuple(self._out_of_reach()))
            for trouble in self._policies.unreadable:
                log.error("A policy cannot be read and is ignored: %s", trouble)
        return self._policies

    def find(self, transaction: Transaction, key: CompiledKey) -> CompiledSchedule | Exception | None:
        """One compiled schedule or step; None when there is no such revision."""
        return self.compiled(transaction, [key]).get(key)

    def of_run(self, transaction: Transaction, run: RunRow | RunRecord) -> CompiledSchedule | Exception | None:
        """What a run runs: its schedule or step at its revision, with what the run was started with."""
        found = self.find(transaction, (run.schedule_id, run.rev, run.step))
        given = decode_given(run.given) if isinstance(run.given, str) else run.given
        return found if given is None or not isinstance(found, CompiledSchedule) else found.with_given(given)

    def compiled(
        self, transaction: Transaction, keys: Iterable[CompiledKey]
    ) -> dict[CompiledKey, CompiledSchedule | Exception]:
        """The compiled schedules at these revisions; an exception for a definition that cannot be used."""
        found: dict[CompiledKey, CompiledSchedule | Exception] = {}
        missing: list[CompiledKey] = []
        cache, one_shots = self._cache, self._one_shots
        for key in keys:
            compiled = cache.get(key)
            if compiled is None and one_shots:
                compiled = one_shots.get(key)
            if compiled is None:
                missing.append(key)
            else:
                found[key] = compiled
        if missing:
            for kept, most in ((self._cache, _MAX_CACHED), (self._one_shots, _MAX_ONE_SHOTS)):
                if len(kept) > most:
                    kept.clear()
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
                kept = self._one_shots if compiled.shared.timetable.once else self._cache
                kept[key] = compiled
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
    values["given"] = decode_given(row.given) if row.given else None
    return RunRecord(**values)


def call_context(transaction: Transaction, run_id: int) -> CallContext | None:
    """The newest call of the run, or of the run that it is a step of."""
    rows = transaction.calls_of_run(next(iter(transaction.parents_of([run_id])), run_id), 1)
    return _context(rows[0]) if rows else None


def _context(row: CallRow) -> CallContext:
    body: Any = None if row.body is None else orjson.loads(row.body)
    return CallContext(row.key, row.source, row.type, row.text, body)
