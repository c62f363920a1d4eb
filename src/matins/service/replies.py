"""Replies: what people say to an agent in its thread becomes a run there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from matins.api.results import Run
from matins.engine.jobs import AGENT_JOB
from matins.engine.prompts import check_prompt_text
from matins.engine.schedules import encode
from matins.errors import Conflict, NotFound
from matins.model.access import Principal
from matins.model.agent import Target
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.thread import Thread
from matins.service.core import Core
from matins.service.runs import Runs
from matins.store.transaction import Transaction

_FIELD = re.compile(r"\{(?=\{)")


@dataclass(frozen=True)
class Replies:
    core: Core
    runs: Runs

    def reply(self, principal: Principal, thread_id: int, text: str, *, key: str | None = None) -> Run:
        prompt = _FIELD.sub("{ ", check_prompt_text(text, "text"))  # what people say has no placeholders
        now, core = self.core.clock.now_ms(), self.core
        with core.store.transaction(now) as transaction:
            thread, schedule = self._spoken_to(transaction, thread_id)
            definition = _reply_definition(schedule.definition, thread, prompt)
            result = self.runs.start_with(transaction, principal, schedule, encode(definition), key, now)
        core.notify()
        return result

    def _spoken_to(self, transaction: Transaction, thread_id: int) -> tuple[Thread, ScheduleRecord]:
        """The thread, and the schedule of the last run in it, with its cursor locked."""
        thread, last = transaction.thread(thread_id), transaction.last_run_in(thread_id)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}.", value=thread_id, field="thread")
        if last is None:
            message, hint = f"No run has happened in thread {thread_id}.", "Speak after the first answer."
            raise Conflict(message, value=thread_id, field="thread", hint=hint)
        run = self.core.run(transaction, last)
        transaction.lock_due([run.schedule_id])
        schedule = self.core.schedule(transaction, run.schedule_id)
        if schedule.state == "removed" or schedule.agent != thread.agent:
            message = f'The schedule "{schedule.name}" of thread {thread_id} was deleted.'
            raise Conflict(
                message, value=thread_id, field="thread", hint="Add a schedule with this thread as its target."
            )
        return thread, schedule


def _reply_definition(definition: ScheduleDefinition, thread: Thread, prompt: str) -> ScheduleDefinition:
    """The settings of the schedule, for a run that only speaks in the thread. Words are not skipped, so they queue."""
    return replace(
        definition,
        job=AGENT_JOB,
        prompt=prompt,
        prompt_prefix=False,
        payload=None,
        steps=(),
        work_source=None,
        on=(),
        overlap="queue",
        target=Target("thread", thread.channel, thread=thread.id),
        job_prompt=None,
        harmless=definition.harmless and definition.job == AGENT_JOB,
        step_jobs=(),
    )
