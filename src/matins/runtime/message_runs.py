"""Messages: runs that only emit an event. They end in the transaction that starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from matins.engine.inputs import merged
from matins.engine.jobs import MESSAGE_JOB, full_prompt
from matins.engine.policies import Policies
from matins.engine.prompts import PromptContext, build_prompt, render
from matins.engine.steps import answer_field, answer_text
from matins.errors import InvalidInput
from matins.model.rows import NewEvent
from matins.model.run import AgentTurn, Outcome, RunState
from matins.runtime import recorder
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.runtime.catalog import CompiledSchedule, call_context
from matins.runtime.run_context import previous_state, step_results
from matins.store.transaction import Transaction


def emit(transaction: Transaction, attempts: Sequence[Attempt], policies: Policies, now: int) -> list[Attempt]:
    """Emit the messages among these, and return the others, which are to be started.

    The event, the end of the run and the cursor are written in one transaction.
    """
    ended: list[AttemptEnd] = []
    left: list[Attempt] = []
    for attempt in attempts:
        if is_message(attempt.compiled, policies):
            ended.append(AttemptEnd(attempt, _emitted(transaction, attempt, now)))
        else:
            left.append(attempt)
    recorder.record(transaction, ended, now, policies)
    return left


def is_message(item: CompiledSchedule, policies: Policies) -> bool:
    """Whether the job is `message`, or the agent's runner is."""
    if item.wakes_agent:
        agent = policies.agents.get(item.agent)
        return agent is not None and agent.runner == MESSAGE_JOB and item.definition.command is None
    return item.emits_message


def prompt_context(attempt: Attempt, previous: RunState | None, steps: Mapping[str, Any]) -> PromptContext:
    compiled = attempt.compiled
    local = None if attempt.nominal_slot is None else compiled.timetable.trigger.local(attempt.nominal_slot).isoformat()
    late = 0 if attempt.nominal_slot is None else max(0, attempt.started_at - attempt.nominal_slot)
    before = None if previous is None else previous.label
    return PromptContext(
        compiled.name, compiled.agent, attempt.run_id, attempt.number, local, late, attempt.slots, before,
        steps={answer_field(title): answer_text(result) for title, result in steps.items()},
        input=compiled.input, fenced=() if compiled.given is None else compiled.given.fenced,
    )  # fmt: skip


def _emitted(transaction: Transaction, attempt: Attempt, now: int) -> Outcome:
    compiled = attempt.compiled
    called = call_context(transaction, attempt.run_id) if compiled.definition.on else None
    results = step_results(transaction, attempt)
    context = prompt_context(attempt, previous_state(transaction, attempt), results)._replace(call=called)
    try:
        data = _rendered(compiled, context)
    except InvalidInput as error:
        return Outcome(False, error=f"The message was not emitted: {error.message} ({error.hint})")
    transaction.events.append(NewEvent(now, "message.emitted", compiled.schedule_id, attempt.run_id, data))
    text = str(data.get("text", ""))
    return Outcome(True, {"message": data}, turn=AgentTurn(text, "", None) if compiled.wakes_agent else None)


def _rendered(compiled: CompiledSchedule, context: PromptContext) -> dict[str, Any]:
    """The template with its fields filled in. Matins sets the source."""
    definition = compiled.definition
    payload = _filled(definition.payload, context)
    if compiled.given is not None:  # what is given to a run has no placeholders
        payload = merged(payload, compiled.given.input)
    given: dict[str, Any] = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if payload is not None and not isinstance(payload, dict):
        given = {"text": payload}
    if compiled.wakes_agent:
        given = {**given, "text": build_prompt(full_prompt(definition), context, prefix=definition.prompt_prefix)}
    source: Any = given.get("source")
    own = {"channel": "scheduler", "connector_id": str(compiled.schedule_id)}
    return {**given, "source": {**(cast("dict[str, Any]", source) if isinstance(source, dict) else {}), **own}}


def _filled(value: Any, context: PromptContext) -> Any:
    if isinstance(value, str):
        return render(value, context)
    if isinstance(value, list):
        return [_filled(item, context) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _filled(item, context) for key, item in cast("dict[str, Any]", value).items()}
    return value
