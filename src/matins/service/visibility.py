"""What callers see. An agent: names, times, states and reasons of everything; content only of what it made or is.

Only who governs sees the paths of URLs in settings, which may contain keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from matins.api import results
from matins.api.use_case import UseCase
from matins.engine.schedules import PRIVATE_SETTINGS, without_keys
from matins.errors import NotAllowed
from matins.model.access import Principal
from matins.model.run import StepId
from matins.ports import Transaction
from matins.service.core import Core
from matins.service.permissions import governs

_OF_RUN = frozenset(["runs.output", "runs.transcript", "runs.snapshot", "runs.checks", "runs.thread"])
_OF_THREAD = frozenset(["threads.messages"])
_CONTENT: Mapping[type[Any], Mapping[str, Any]] = {
    results.Run: {"outcome": None, "evidence": None, "steps": []},
    results.Schedule: {"prompt": None, "description": None, "labels": {}, "settings": {}},
    results.Mission: {"steps": []},
    results.Approval: {"request": {}},
    results.Event: {"data": {}},
    results.Incident: {"summary": "", "error": None},
    results.Check: {"output": ""},
    results.TimelineRun: {"sentence": None},
    results.Thread: {"channel": None, "session": None, "session_name": None},
}
"""The fields with content, and what replaces them."""
_SCHEDULES = (results.Schedule, results.Mission)
_WITH_SETTINGS = (results.Schedule, results.Snapshot)


@dataclass(frozen=True)
class Visibility:
    core: Core

    def check(self, principal: Principal, use_case: UseCase, values: Mapping[str, Any]) -> None:
        """Raise NotAllowed if an agent asks for the content of something that is not its own."""
        if not self._is_limited(principal):
            return
        with self.core.store.reading() as transaction:
            view = _View(transaction, principal.name)
            if use_case.name in _OF_RUN and not view.owns_run(values["run_id"]):
                raise _not_its_own(principal, f"run {values['run_id']}", "run_id")
            if use_case.name in _OF_THREAD and not view.owns_thread(values["thread_id"]):
                raise _not_its_own(principal, f"thread {values['thread_id']}", "thread_id")

    def shown(self, principal: Principal, result: Any) -> Any:
        """The result without keys, and without the content of what is not the agent's own."""
        if not governs(principal):
            result = _without_keys(result)
        if not self._is_limited(principal):
            return result
        with self.core.store.reading() as transaction:
            return _View(transaction, principal.name).shown(result)

    def _is_limited(self, principal: Principal) -> bool:
        return principal.role == "agent" and self.core.policies().rules_for(principal.name).sees == "own"


@dataclass
class _View:
    transaction: Transaction
    agent: str
    known: dict[int, bool] = field(default_factory=dict[int, bool])

    def shown(self, result: Any) -> Any:
        if isinstance(result, list):
            return [self.shown(item) for item in cast("list[Any]", result)]
        if isinstance(result, results.Explanation):
            return msgspec.structs.replace(result, run=self.shown(result.run))
        if isinstance(result, results.RunDetail):
            own = self._owns(result.run)
            checks = result.checks if own else [_without_content(check) for check in result.checks]
            approvals = self.shown(result.approvals)
            return msgspec.structs.replace(result, run=self.shown(result.run), checks=checks, approvals=approvals)
        if isinstance(result, results.Timeline):
            return msgspec.structs.replace(result, lanes=self.shown(result.lanes))
        if isinstance(result, results.TimelineLane):
            return msgspec.structs.replace(result, runs=self.shown(result.runs))
        if isinstance(result, results.LiveRun):
            return msgspec.structs.replace(result, run=self.shown(result.run))
        if isinstance(result, results.RunFacts):
            sentence = result.sentence if self._owns(result.run) else ""
            return msgspec.structs.replace(result, run=self.shown(result.run), sentence=sentence)
        if type(result) not in _CONTENT or self._owns(result):
            return result
        hidden = _without_content(result)
        return msgspec.structs.replace(hidden, last_run=self.shown(hidden.last_run)) if _has_run(hidden) else hidden

    def owns_run(self, run_id: int | StepId) -> bool:
        run = self.transaction.run(run_id.run if isinstance(run_id, StepId) else run_id)
        return run is None or self._owns_schedule(run.schedule_id)  # the use case reports a missing run

    def owns_thread(self, thread_id: int) -> bool:
        thread = self.transaction.thread(thread_id)
        return thread is None or thread.agent == self.agent

    def _owns(self, result: Any) -> bool:
        if isinstance(result, results.Thread):
            return result.agent == self.agent
        if isinstance(result, _SCHEDULES):
            return self._owns_schedule(int(result.id))
        return result.schedule_id is not None and self._owns_schedule(int(result.schedule_id))

    def _owns_schedule(self, schedule_id: int) -> bool:
        if schedule_id not in self.known:
            row = self.transaction.schedule(schedule_id)
            made = row is not None and row.creator_role == "agent" and row.created_by == f"agent:{self.agent}"
            self.known[schedule_id] = made or (row is not None and row.agent == self.agent)
        return self.known[schedule_id]


def _without_keys(result: Any) -> Any:
    if isinstance(result, list):
        return [_without_keys(item) for item in cast("list[Any]", result)]
    if isinstance(result, _WITH_SETTINGS) and not PRIVATE_SETTINGS.isdisjoint(result.settings):
        return msgspec.structs.replace(result, settings=without_keys(result.settings))
    return result


def _has_run(result: Any) -> bool:
    return isinstance(result, _SCHEDULES) and result.last_run is not None


def _without_content(result: Any) -> Any:
    return msgspec.structs.replace(result, **_CONTENT[type(result)])


def _not_its_own(principal: Principal, what: str, name: str) -> NotAllowed:
    message = f"{principal.name} did not make {what}, and cannot read its content."
    return NotAllowed(message, value=what, field=name, hint='The owner can allow it: agent_rules, "sees: all".')
