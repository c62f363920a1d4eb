"""Cortex's `schedules.json` as a format of the file, with computed fields: next and last runs, pauses, throttles."""

from __future__ import annotations

from functools import partial
from secrets import token_hex
from typing import Any

import orjson

from matins.config.cortex import (
    PROFILE,
    Profiles,
    is_task_id,
    read,
    task_of,
    with_profiles,
    with_task,
    without_task,
    write_computed,
)
from matins.config.file import ConfigFile, Content, FileFormat, NewEntry
from matins.config.reader import ParsedFile
from matins.engine.gates.state import BY_BUDGET, BY_FAILURES
from matins.engine.policies import Policies
from matins.model.clock import Clock
from matins.model.policies import Throttle
from matins.model.rows import FileEntry
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.trigger import Once
from matins.records.kind import RecordContext
from matins.runtime.catalog import Catalog, run_record
from matins.service.file.plan import APPLIED, applied_text, find_schedule
from matins.store import Store
from matins.store.transaction import Transaction

SKIPPED_BY = ("pre_check", "target_gone")
"""The reasons of skipped runs that Cortex records as `lastSkipped`."""
_RUNS = 100
_MAX_ID = 1 << 62


def refresh(store: Store, clock: Clock, file: ConfigFile) -> bool:
    """Write the computed fields, unless the file is not applied yet. Returns whether the file was written."""
    content = file.read()
    with store.reading() as transaction:
        if content.file is None or applied_text(transaction) != content.text:
            return False
        policies = Catalog(cache=False).policies(transaction)
        names = [entry.name for entry in transaction.file_entries() if entry.kind == "schedule"]
        found = [find_schedule(transaction, name) for name in names]
        now = clock.now_ms()
        computed = {s.name: _computed(transaction, s, policies, now) for s in found if s is not None}
    text = write_computed(content.text, computed, _throttle(policies, now))
    if text == content.text:
        return False
    with file.writing():
        _note(store, clock, file, file.replace(content, text))
    return True


def _with_agents(parsed: ParsedFile, transaction: Transaction, policies: Policies) -> ParsedFile:
    """All tasks with an agent. One without a profile keeps the agent that it has; a new one has the active profile."""
    applied = [entry.name.partition("/") for entry in transaction.file_entries() if entry.kind == "schedule"]
    return with_profiles(parsed, Profiles(policies.default_agent, {name: agent for agent, _, name in applied}))


def _new_task(name: str | None, agent: str, definition: ScheduleDefinition) -> NewEntry | None:
    task = task_of(agent, definition) if name is None or is_task_id(name) else None
    if task is None:
        return None
    task_id = name or token_hex(4)
    return NewEntry(task_id, partial(with_task, task={"id": task_id, **task}))


def _note(store: Store, clock: Clock, file: ConfigFile, content: Content) -> None:
    """Store the entries of the written file: a pause in it is not a change when the file is read again."""
    now = clock.now_ms()
    with store.reading() as transaction:
        parsed = _with_agents(file.parse(content.text), transaction, Catalog(cache=False).policies(transaction))
    interpretation = file.interpret(parsed, RecordContext(now, clock.local_zone(), {"USD": 1.0}))
    with store.transaction(now) as transaction:
        known = {entry.name: entry for entry in transaction.file_entries() if entry.kind == "schedule"}
        entries = [FileEntry(e.kind, e.name, str(file.path), e.line, e.digest) for e in interpretation.entries]
        transaction.upsert_file_entries(e for e in entries if e.name in known and known[e.name] != e)
        transaction.upsert_policy(*APPLIED, orjson.dumps(content.text).decode(), now, file.path.name)


def _computed(transaction: Transaction, schedule: ScheduleRecord, policies: Policies, now: int) -> dict[str, Any]:
    runs = [run_record(row) for row in transaction.runs_of(schedule.id, _MAX_ID, _RUNS)]
    ran = next((run.started_at for run in runs if run.state is RunState.SUCCEEDED), None)
    skipped = next((r.ended_at for r in runs if r.state is RunState.SKIPPED and r.reason in SKIPPED_BY), None)
    by, at = _pause(schedule, policies, now)
    computed = {
        "createdAt": schedule.created_at,
        "nextRun": schedule.next_slot if by is None and schedule.state == "active" else None,
        "isPaused": by is not None,
        "pausedAt": at,
        "pausedBy": by,
    }
    last = {"lastRun": ran, "lastSkipped": skipped}  # values from runs before Matins stay
    return computed | {name: value for name, value in last.items() if value is not None}


def _pause(schedule: ScheduleRecord, policies: Policies, now: int) -> tuple[str | None, int | None]:
    """Who paused the task, and when. A user's pause is first: the end of a throttle must not seem to end it."""
    if schedule.state == "paused":
        labels = {BY_FAILURES: "failures", BY_BUDGET: "budget"}
        return labels.get(schedule.paused_by or "", "user"), schedule.paused_at
    throttle = policies.throttle_of(schedule.definition.provider, schedule.agent, now)
    if throttle is None or schedule.state != "active" or isinstance(schedule.definition.trigger.when, Once):
        return None, None
    return "rate-limit", throttle.activated_at


def _throttle(policies: Policies, now: int) -> dict[str, Any] | None:
    """The throttle that ends last."""
    lasting = [throttle for throttle in policies.throttles.values() if throttle.resets_at > now]
    return _document(max(lasting, key=lambda throttle: throttle.resets_at)) if lasting else None


def _document(throttle: Throttle) -> dict[str, Any]:
    return {
        "resetsAt": throttle.resets_at,
        "activatedAt": throttle.activated_at,
        "affectedModes": list(throttle.affects),
        "provider": throttle.provider,
    }


def _not_pausable(definition: ScheduleDefinition) -> str | None:
    """A one-shot is run or removed."""
    return "is of type once" if isinstance(definition.trigger.when, Once) else None


SCHEDULES_JSON = FileFormat(
    suffix=".json",
    read=read,
    complete=_with_agents,
    default_agent=lambda parsed: parsed.simple.get(PROFILE),
    agents_must_exist=False,
    entry_of=_new_task,
    without=without_task,
    refresh=refresh,
    not_pausable=_not_pausable,
)
