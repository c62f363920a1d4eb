"""Work items and their sources.

Work items: claimed before an agent starts, and updated with the outcome.

The port for work sources, and the checks of their settings.

Work sources: agents claim items there, and Matins reports the outcomes.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from matins.engine.inputs import with_defaults
from matins.engine.jobs import parse_inputs
from matins.engine.policies import Policies
from matins.engine.prompts import WorkItem
from matins.engine.settings import ParseContext
from matins.errors import InvalidInput, MatinsError
from matins.executors.registry import JobRegistry
from matins.model.clock import Clock
from matins.model.policies import KIND_SETTINGS, WorkSourceDefinition
from matins.model.run import Outcome
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import settings_of
from matins.plugins import installed
from matins.runtime.agent_folders import folder_of

KINDS = "matins.work_sources"
_UNREADABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


class WorkSourceUnavailable(MatinsError):  # noqa: N818 - it names a state of the source
    """The work source is busy, or its response is invalid. The call may be retried."""

    code = "work_source_unavailable"
    retryable = True


class WorkSource(Protocol):
    """A source of work items. Every call may be repeated after a crash: it completes the first one."""

    name: str

    def check(self, now: int) -> None:
        """Raise what a claim would raise, as far as that is known on this machine. Nothing is claimed or requested."""
        ...

    def claim(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds. Otherwise claim the item with the highest priority, the oldest first."""
        ...

    def held(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds. Nothing is claimed."""
        ...

    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def release(self, item_id: str, run_key: str, now: int) -> None:
        """Release the item, if this run holds it."""
        ...


@dataclass(frozen=True)
class SourceKind:
    """A kind of work source, registered by entry point."""

    open: Callable[[WorkSourceDefinition, str | Path | None], WorkSource]
    """The source, by its definition and the directory where relative paths start."""
    check: Callable[[WorkSourceDefinition], WorkSourceDefinition] = lambda source: source
    """The definition, normalized. Raises for an invalid setting."""


def check_work_source(source: WorkSourceDefinition) -> WorkSourceDefinition:
    """The source, normalized. Raises for an invalid setting, or one of another kind."""
    defaults = WorkSourceDefinition(source.name, source.kind)
    for name in settings_of(WorkSourceDefinition):
        if name not in ("kind", *KIND_SETTINGS[source.kind]) and getattr(source, name) != getattr(defaults, name):
            message = f'A work source of kind {source.kind} has no setting "{name}".'
            hint = f"Known: {', '.join(KIND_SETTINGS[source.kind])}."
            raise InvalidInput(message, value=name, field=name, hint=hint)
    return _kind_of(source).check(source)


def open_source(definition: WorkSourceDefinition, workdir: str | Path | None) -> WorkSource:
    """The work source. Nothing is read or requested before its first call."""
    return _kind_of(definition).open(definition, workdir)


def _kind_of(source: WorkSourceDefinition) -> SourceKind:
    kind = installed(KINDS).get(source.kind)
    if kind is None:
        message = f"Work sources of kind {source.kind} are not available: their plug-in cannot be loaded."
        raise InvalidInput(message, value=source.kind, field="kind", hint="See the log.")
    return kind


def readable(text: str, max_length: int) -> str:
    """The text, shortened, without characters that do not belong in a text file."""
    clean = _UNREADABLE.sub("", text).strip()
    return clean if len(clean) <= max_length else f"{clean[: max_length - 1]}…"


def not_held(item_id: str, run_key: str, state: str) -> str:
    return f"Work item {item_id} is not held by run {run_key}: {state}."


log = logging.getLogger("matins")
_MAX_REPORT_LENGTH = 4_000


class NoWork(Exception):  # noqa: N818 - the name is the finding
    """The work source has no item to claim."""


class ItemChanged(Exception):  # noqa: N818 - the name is the finding
    """The item is not the one that a person approved."""


class HeldWorkItem(NamedTuple):
    """An item that a run has claimed. The key identifies the run, so the item is found again after a crash."""

    source: WorkSource
    item: WorkItem
    key: str

    def report(self, outcome: Outcome, clock: Clock, *, will_retry: bool = False) -> str | None:
        """Report the outcome to the source. Returns the error, if any. With `will_retry`, the item is released and
        the retry claims it again: an item must not stay claimed if the retry never happens."""
        now, turn = clock.now_ms(), outcome.turn
        text = ((turn.text if turn else "") or outcome.error or "")[:_MAX_REPORT_LENGTH]
        try:
            if outcome.succeeded:
                self.source.done(self.item, self.key, text, now)
            elif (
                will_retry
                or outcome.cancelled
                or outcome.interrupted
                or outcome.target_gone
                or outcome.limit is not None
            ):
                self.source.release(self.item.id, self.key, now)
            elif not outcome.lost:
                self.source.failed(self.item, self.key, text, now)
        except MatinsError as error:  # the run has its outcome; the failed report is logged and returned
            log.warning("the outcome of work item %s could not be reported: %s", self.item.id, error)
            return error.message
        return None

    def concluded(self, outcome: Outcome, clock: Clock, *, will_retry: bool) -> Outcome:
        """Report the outcome to the source. Returns it with the item."""
        error = self.report(outcome, clock, will_retry=will_retry)
        about = {"item": self.item.id, "source": self.item.source, "untold": error}
        return replace(outcome, result={**(outcome.result or {}), "work": about})


def source_of(
    definition: ScheduleDefinition, agent: str, policies: Policies, jobs: JobRegistry, workdir: str, now: int
) -> WorkSource | None:
    """The work source of a schedule or a step: the one that it names, or that of its job; None without one."""
    name, job = definition.work_source, jobs.get(definition.job)
    if name is None and job is not None and job.work_source is not None:
        known = policies.agents.get(agent)
        folder = workdir if known is None else folder_of(known, workdir)
        payload = with_defaults(definition.inputs, definition.payload)
        return open_source(job.work_source(parse_inputs(job, payload, ParseContext(now))), folder)
    if name is None:
        return None
    return named_source(name, policies, workdir)


def named_source(name: str, policies: Policies, workdir: str) -> WorkSource:
    found = policies.work_sources.get(name)
    if found is None:
        hint = f"matins work-sources set {shlex.quote(name)} --kind tasks"
        raise InvalidInput(f'There is no work source "{name}".', value=name, field="work_source", hint=hint)
    return open_source(found, workdir)


def give_back(source: WorkSource, run_key: str, now: int) -> None:
    """Release the item that a run holds, if it holds one."""
    item = source.held(run_key, now)
    if item is not None:
        source.release(item.id, run_key, now)


def find_held(source: WorkSource, key: str, clock: Clock) -> HeldWorkItem | None:
    """The item that a run has already claimed, if any."""
    item = source.held(key, clock.now_ms())
    return None if item is None else HeldWorkItem(source, item, key)


def claim_item(source: WorkSource, key: str, clock: Clock) -> HeldWorkItem:
    item = source.claim(key, clock.now_ms())
    if item is None:
        raise NoWork(source.name)
    return HeldWorkItem(source, item, key)
