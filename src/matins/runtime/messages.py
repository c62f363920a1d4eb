"""Messages: runs that only emit an event. They end in the transaction that starts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from matins.engine.policies import Policies
from matins.engine.prompts import Fire, build_prompt, fill
from matins.engine.schedules import MESSAGE_JOB
from matins.errors import InvalidInput
from matins.model.rows import NewEvent
from matins.model.run import Conversation, Outcome, RunState
from matins.ports import Transaction
from matins.runtime import recorder
from matins.runtime.catalog import Known
from matins.runtime.work import Ended, Work


def emit(transaction: Transaction, works: Sequence[Work], policies: Policies, now: int) -> list[Work]:
    """Emit the messages among these, and return the others, which are to be started.

    The event, the end of the run and the cursor are written in one transaction.
    """
    ended: list[Ended] = []
    left: list[Work] = []
    for work in works:
        if is_message(work.known, policies):
            ended.append(Ended(work, _emitted(transaction, work, now)))
        else:
            left.append(work)
    recorder.record(transaction, ended, now, limited=True)
    return left


def is_message(item: Known, policies: Policies) -> bool:
    """Whether the job is `message`, or the agent's runner is."""
    if item.talks:
        agent = policies.agents.get(item.agent)
        return agent is not None and agent.runner == MESSAGE_JOB
    return item.emits


def fire_of(work: Work, previous: RunState | None) -> Fire:
    known = work.known
    local = None if work.slot is None else known.rule.trigger.local(work.slot).isoformat()
    late = 0 if work.slot is None else max(0, work.started_at - work.slot)
    before = None if previous is None else previous.label
    return Fire(known.name, known.agent, work.run_id, work.attempt, local, late, work.slots, before)


def _emitted(transaction: Transaction, work: Work, now: int) -> Outcome:
    known = work.known
    state = transaction.previous_state(known.schedule_id, work.run_id)
    fire = fire_of(work, None if state is None else RunState(state))
    try:
        data = _rendered(known, fire)
    except InvalidInput as error:
        return Outcome(False, error=f"The message was not emitted: {error.message} ({error.hint})")
    transaction.events.append(NewEvent(now, "message.emitted", known.schedule_id, work.run_id, data))
    said = str(data.get("text", ""))
    return Outcome(True, {"message": data}, told=Conversation(said, "", None) if known.talks else None)


def _rendered(known: Known, fire: Fire) -> dict[str, Any]:
    """The template with its fields filled in. Matins sets the source."""
    words = known.definition
    payload = _filled(words.payload, fire)
    given: dict[str, Any] = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if payload is not None and not isinstance(payload, dict):
        given = {"text": payload}
    if known.talks:
        given = {**given, "text": build_prompt(words.prompt, fire)}
    source: Any = given.get("source")
    own = {"channel": "scheduler", "connector_id": str(known.schedule_id)}
    return {**given, "source": {**(cast("dict[str, Any]", source) if isinstance(source, dict) else {}), **own}}


def _filled(value: Any, fire: Fire) -> Any:
    if isinstance(value, str):
        return fill(value, fire)
    if isinstance(value, list):
        return [_filled(item, fire) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _filled(item, fire) for key, item in cast("dict[str, Any]", value).items()}
    return value
