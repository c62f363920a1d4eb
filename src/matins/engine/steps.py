"""Steps: their order, which of them comes next, and the outcome of the run that they are parts of.

Missions: schedules with steps. Their status follows from state, trigger and runs; it is not stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import orjson

from matins.engine.jobs import AGENT_JOB
from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.model.run import RunRecord, RunState
from matins.model.schedule import MissionStatus, ScheduleDefinition, ScheduleRecord, ScheduleState, Step
from matins.model.trigger import Never, Once

STEPS_JOB = "steps"
"""The job of a schedule that has steps."""
WAITING_FOR_STEP = "waiting_for_step"
"""The reason of a step that waits for another one."""
_WORST = (
    RunState.FAILED, RunState.OVER_BUDGET, RunState.UNKNOWN, RunState.INTERRUPTED, RunState.CANCELLED, RunState.DENIED,
    RunState.EXPIRED, RunState.SKIPPED,
)  # fmt: skip
"""The outcome of a run is the first of these that one of its steps has."""


class StepState(NamedTuple):
    state: RunState
    pending: bool = False
    """Whether the step waits for another one."""

    @property
    def ended(self) -> bool:
        return not self.state.live


class Advance(NamedTuple):
    ready: tuple[int, ...]
    """The steps that may start now, by number."""
    skipped: Mapping[int, int]
    """The steps that will never start, each with the step that it waited for."""
    outcome: RunState | None
    """The outcome of the whole run; None while a step is live."""


def advance(after: Sequence[Sequence[int]], states: Mapping[int, StepState]) -> Advance:
    """What follows from the states of all steps. `after` has the numbers that each step waits for."""
    found = dict(states)
    skipped: dict[int, int] = {}
    for number in ordered(after):
        blocking = [other for other in after[number - 1] if found[other].ended and not _succeeded(found[other])]
        if found[number].pending and blocking:
            skipped[number] = blocking[0]
            found[number] = StepState(RunState.SKIPPED)
    ready = tuple(
        number
        for number, state in sorted(found.items())
        if state.pending and all(_succeeded(found[other]) for other in after[number - 1])
    )
    return Advance(ready, skipped, _outcome([state.state for state in found.values()]))


def _succeeded(state: StepState) -> bool:
    return state.state is RunState.SUCCEEDED


def _outcome(states: Sequence[RunState]) -> RunState | None:
    if any(state.live for state in states):
        return None
    return next((worst for worst in _WORST if worst in states), RunState.SUCCEEDED)


def numbers_after(steps: Sequence[Step]) -> list[tuple[int, ...]]:
    """The numbers, from 1, of the steps that each step waits for."""
    numbers = {step.title: number for number, step in enumerate(steps, 1)}
    return [tuple(numbers[title] for title in step.after) for step in steps]


def ordered(after: Sequence[Sequence[int]]) -> list[int]:
    """The numbers of the steps, each behind those that it waits for. There is no cycle."""
    found: dict[int, None] = {}

    def visit(number: int) -> None:
        for other in after[number - 1]:
            if other not in found:
                visit(other)
        found[number] = None

    for number in range(1, len(after) + 1):
        if number not in found:
            visit(number)
    return list(found)


def repeated(after: Sequence[Sequence[int]], succeeded: Sequence[int], start: int | None) -> set[int]:
    """The steps that run again: those that did not succeed, `start`, and all that wait for one of them."""
    again = {number for number in range(1, len(after) + 1) if number not in succeeded or number == start}
    for number in ordered(after):
        if again.intersection(after[number - 1]):
            again.add(number)
    return again


def before(steps: Sequence[Step], number: int) -> list[Step]:
    """The steps that a step waits for, directly or through others, in the order of the schedule."""
    after, found = numbers_after(steps), set[int]()
    left = list(after[number - 1])
    while left:
        other = left.pop()
        if other not in found:
            found.add(other)
            left += after[other - 1]
    return [steps[other - 1] for other in sorted(found)]


def answer_field(title: str) -> str:
    """The placeholder of a step's answer."""
    return f"steps.{slug(title)}.text"


def answer_text(result: Any) -> str:
    """The result of a step as text: what an agent answered, or a job's result as JSON."""
    if isinstance(result, Mapping) and isinstance(result.get("text"), str):  # type: ignore[attr-defined]
        return cast("str", result["text"])
    return result if isinstance(result, str) else "" if result is None else orjson.dumps(result).decode()


def slug(title: str) -> str:
    """The name of a step in placeholders: `{{steps.run-all-tests.text}}`."""
    return "-".join(re.findall(r"\w+", title.lower()))


def check_steps(steps: Sequence[Step]) -> None:
    """Raise if titles are equal or unknown, or steps wait for each other in a cycle."""
    titles = [step.title for step in steps]
    seen: dict[str, str] = {}
    for number, title in enumerate(titles, 1):
        field = f"steps[{number}].title"
        if not slug(title):
            raise InvalidInput(f'Step {number} needs a title with a letter or a digit, not "{title}".', field=field)
        if slug(title) in seen:
            message = f'Two steps have the title "{title}".'
            if (other := seen[slug(title)]) != title:
                message = f'The titles "{other}" and "{title}" are the same in placeholders: {slug(title)}.'
            raise InvalidInput(message, value=title, field=field, hint="Give each step a title of its own.")
        seen[slug(title)] = title
    for number, step in enumerate(steps, 1):
        for title in step.after:
            if title not in titles:
                message = f'Step "{step.title}" waits for "{title}", but there is no such step.'
                raise InvalidInput(message, value=title, field=f"steps[{number}].after", hint=nearest(title, titles))
    cycle = _cycle(numbers_after(steps))
    if cycle:
        path = " → ".join(f'"{titles[number - 1]}"' for number in cycle)
        hint = 'Remove one of the titles from "after".'
        raise InvalidInput(f"Steps wait for each other: {path}.", field=f"steps[{cycle[0]}].after", hint=hint)


def _cycle(after: Sequence[Sequence[int]]) -> list[int]:
    """The numbers of steps that wait for each other, the first one again at the end; empty when there is none."""
    done: set[int] = set()
    path: list[int] = []

    def visit(number: int) -> list[int]:
        if number in path:
            return [*path[path.index(number) :], number]
        if number in done:
            return []
        path.append(number)
        found = next((cycle for other in after[number - 1] if (cycle := visit(other))), list[int]())
        path.pop()
        done.add(number)
        return found

    return next((cycle for number in range(1, len(after) + 1) if (cycle := visit(number))), list[int]())


def jobs_of(definition: ScheduleDefinition) -> list[str]:
    """The jobs that runs of a schedule need: its own, or those of its steps."""
    return list(dict.fromkeys(step.job or AGENT_JOB for step in definition.steps)) or [definition.job]


def with_agent_renamed(definition: ScheduleDefinition, agent: str, name: str) -> ScheduleDefinition:
    """The definition in which the steps of an agent have its new name."""
    steps = tuple(replace(step, agent=name) if step.agent == agent else step for step in definition.steps)
    return replace(definition, steps=steps)


def parts_of(definition: ScheduleDefinition, agent: str) -> list[tuple[ScheduleDefinition, str]]:
    """What runs of a schedule consist of, each with its agent: the schedule itself, or its steps."""
    if not definition.steps:
        return [(definition, agent)]
    return [(of_step(definition, number), step.agent or agent) for number, step in enumerate(definition.steps, 1)]


def of_step(definition: ScheduleDefinition, number: int) -> ScheduleDefinition:
    """The definition of one step: the settings of the schedule, with the step's own in their place."""
    step = definition.steps[number - 1]
    job = step.job or AGENT_JOB
    job_prompt, harmless = definition.step_jobs[number - 1] if definition.step_jobs else (None, False)
    prompts = job == AGENT_JOB and step.command is None
    own: dict[str, Any] = {
        "job": job,
        "job_prompt": job_prompt,
        "harmless": harmless,
        "step_jobs": (),
        "prompt": step.prompt or (step.title if prompts else None),
        "command": step.command,
        "stdin": step.stdin,
        "workdir": step.workdir or definition.workdir,
        "environment": tuple({**dict(definition.environment), **dict(step.environment)}.items()),
        "work_source": step.work_source,
        "retries": step.retries,
        "on_unknown": step.on_unknown or definition.on_unknown,
        "max_cost": step.max_cost,
        "max_tokens": None,
        "steps": (),
        "ends_at": None,
        "max_executions": None,
        "pause_after_failures": None,
    }
    if any(step.title in other.after for other in definition.steps):
        own["deliver_if"] = "text"  # others wait for its answer: it is not the news
    for name in ("payload", "target", "timeout_ms", "approval"):
        if (value := getattr(step, name)) is not None:
            own[name] = value
    if step.payload is not None:  # the inputs of the run are in its prompt, and not in this payload
        own["inputs"] = ()
    return replace(definition, **own)


_STATES: dict[ScheduleState, MissionStatus] = {
    "pending": "draft",
    "rejected": "cancelled",
    "broken": "paused",
    "paused": "paused",
    "expired": "completed",
}
"""States that decide, whatever the runs are."""
_OUTCOMES: dict[RunState, MissionStatus] = {
    RunState.SUCCEEDED: "completed",
    RunState.CANCELLED: "cancelled",
    RunState.DENIED: "cancelled",
    RunState.EXPIRED: "cancelled",
}
"""What remains of a mission that does not wait for a time. All others: failed."""

_TIME = frozenset(["when", "ends_at", "max_executions", "catch_up"])
"""The settings of a mission's time."""
GOT_SCHEDULE = ("schedule.created", "schedule.timed")
"""The events by which a mission got the schedule that it has. A change of its time is another one."""
MISSION_ABORTED = "mission_aborted"
"""The reason of runs that end because their mission is aborted."""


def is_draft(definition: ScheduleDefinition) -> bool:
    """Whether nothing but a person starts the mission."""
    return isinstance(definition.trigger.when, Never) and not definition.on


def is_recurring(definition: ScheduleDefinition) -> bool:
    """Whether the mission repeats without a limit."""
    once = isinstance(definition.trigger.when, Once) or definition.max_executions is not None
    return not once and not is_draft(definition)


def gets_schedule(before: ScheduleDefinition, names: Iterable[str]) -> bool:
    """Whether an edit gives a mission another schedule: it had none, or every setting of its time is given."""
    return is_draft(before) or set(names) >= _TIME


def deciding_run(newest: RunRecord | None, started: RunRecord | None) -> RunRecord | None:
    """The run that the status follows from: the last one that started, unless a later one decides without a start."""
    if newest is None or started is None:
        return newest
    # The status does not follow from a manual run that never began, nor from a skipped slot.
    denied_or_missed = newest.slot is not None and newest.state is not RunState.SKIPPED
    decides = newest.started_at is not None or newest.reason == MISSION_ABORTED or denied_or_missed
    return newest if decides else started


def mission_status(schedule: ScheduleRecord, last: RunRecord | None, *, active: bool) -> MissionStatus:
    """The status of a mission. `last`: its deciding run; `active`: whether a run has started and not ended."""
    if active:
        return "active"
    if schedule.state in _STATES:
        return _STATES[schedule.state]
    if is_draft(schedule.definition):
        return "draft" if last is None or not _concerns(schedule, last) else _OUTCOMES.get(last.state, "failed")
    if schedule.state == "active":
        return "recurring" if is_recurring(schedule.definition) else "scheduled"
    return "completed" if last is None or is_recurring(schedule.definition) else _OUTCOMES.get(last.state, "failed")


def _concerns(schedule: ScheduleRecord, last: RunRecord) -> bool:
    """Whether a run says something of the draft as it is: it was started as such, or cancelled since."""
    cancelled = last.state is RunState.CANCELLED and (last.ended_at or 0) >= schedule.updated_at
    return not last.state.live and (last.rev == schedule.rev or cancelled)
