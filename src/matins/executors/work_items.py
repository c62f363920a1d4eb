"""Work items: claimed before an agent starts, and updated with the outcome."""

from __future__ import annotations

import logging
import shlex
from typing import NamedTuple

from matins.engine.jobs import parse_inputs
from matins.engine.policies import Policies
from matins.engine.prompts import WorkItem
from matins.engine.settings import ParseContext
from matins.errors import InvalidInput, MatinsError
from matins.executors.registry import JobRegistry
from matins.model.clock import Clock
from matins.model.run import Outcome
from matins.model.schedule import ScheduleDefinition
from matins.runtime.agent_folders import folder_of
from matins.work.sources import WorkSource, open_source

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


def source_of(
    definition: ScheduleDefinition, agent: str, policies: Policies, jobs: JobRegistry, workdir: str, now: int
) -> WorkSource | None:
    """The work source of a schedule or a step: the one that it names, or that of its job; None without one."""
    name, job = definition.work_source, jobs.get(definition.job)
    if name is None and job is not None and job.work_source is not None:
        known = policies.agents.get(agent)
        folder = workdir if known is None else folder_of(known, workdir)
        return open_source(job.work_source(parse_inputs(job, definition.payload, ParseContext(now))), folder)
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
