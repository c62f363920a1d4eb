"""Answers of runs: who gets one, whether and when it is sent, and the sentence about it. Pure: `now` is an argument.

The text of an answer is in the outcome of its run; rows of answers and events have only its digest.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from matins.engine.jobs import wakes_agent
from matins.engine.policies import Policies
from matins.engine.quiet_hours import quiet_until
from matins.engine.reasons import local_time
from matins.engine.selectors import label_of
from matins.engine.steps import parts_of
from matins.engine.when.durations import HOUR_MS
from matins.errors import Conflict, NotAllowed
from matins.model.destination import (
    ANSWER,
    FINAL,
    NOBODY,
    PENDING,
    THREAD,
    AnswerRow,
    AnswerState,
    DeliverIf,
    Destination,
)
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition
from matins.model.words import Sentence

FAILED = frozenset([RunState.FAILED, RunState.OVER_BUDGET, RunState.UNKNOWN, RunState.INTERRUPTED])
"""The ends that `deliver_on: failed` means."""
SAME, EMPTY, NOTHING, TOLD = "same", "empty", "nothing", "incident"
"""Why an answer is withheld. `same` is followed by the run with the same answer: `same:830`."""
QUIET, DIGEST = "quiet_hours", "digest"
"""What an answer waits for."""
UNSENT = "No destination gets its answers."
SILENCE = "If there is nothing to report, answer only NOTHING_TO_REPORT."
"""What `deliver_if: news` adds to a prompt. `executors/runners/outcomes.py` recognises the answer."""
UNKNOWN, DELETED = "unknown", "deleted"
"""Why an answer is discarded without an attempt."""


# -- who


def inherit_delivery(definition: ScheduleDefinition, parent: ScheduleDefinition | None) -> ScheduleDefinition:
    """The settings of what an agent adds: its answers go where those of the agent's run go, unless it names others."""
    if parent is None or definition.deliver or definition.attach or not (parent.deliver or parent.attach):
        return definition
    on, condition = definition.deliver_on or parent.deliver_on, definition.deliver_if or parent.deliver_if
    return replace(definition, deliver=parent.deliver, attach=parent.attach, deliver_on=on, deliver_if=condition)


def destinations_of(definition: ScheduleDefinition, agent: str, policies: Policies) -> tuple[str, ...]:
    """The names of those that get the answers: the schedule's, else the agent's, else those of the file."""
    found = policies.agents.get(agent)
    return definition.deliver or (() if found is None else found.deliver) or policies.deliver.to


def recipients(
    notice: str, policies: Policies, definitions: Iterable[ScheduleDefinition | None], without: str | None = None
) -> tuple[str, ...]:
    """The destinations that get messages about an incident, in their order. A schedule may name its own, or none; else
    those with its label get them, and those without one."""
    found: dict[str, None] = {}
    for definition in definitions:
        own, on = (definition.notify, definition.notify_on) if definition is not None else ((), ())
        if notice in (on or policies.notify.on):
            found |= dict.fromkeys(own or _usual(definition, policies))
    if without in found:  # a destination that does not work: the others get the message, whatever is usual
        found = dict.fromkeys(policies.destinations)
    return tuple(name for name in found if name in policies.destinations and name not in (NOBODY, without))


def _usual(definition: ScheduleDefinition | None, policies: Policies) -> Iterable[str]:
    """Those that get messages about a schedule that names none. What none would get, and what is about no schedule, is
    for all of them."""
    names = policies.notify.to or (*policies.destinations,)
    if definition is None:
        return names
    labels = [(name, getattr(policies.destinations.get(name), "label", None)) for name in names]
    return [name for name, label in labels if label is None or label_of(definition.labels, label)] or names


def reaches_nobody(definition: ScheduleDefinition, agent: str, policies: Policies) -> bool:
    """Whether nobody would get the answers of its runs, which have some: those of agents and of commands."""
    asks = any(wakes_agent(part) for part, _ in parts_of(definition, agent))
    in_chat = definition.target is not None and definition.target.channel is not None and "chat" in policies.records
    return asks and not in_chat and not destinations_of(definition, agent, policies)


def deliver_command(policies: Policies) -> str:
    """What makes answers arrive: at the first destination, or in a folder."""
    first = next(iter(policies.destinations), None)
    if first is not None:
        return f"matins deliver set --to {shlex.quote(first)}"
    return "matins destinations set notes --kind file --to ~/reports && matins deliver set --to notes"


# -- whether


def answer_text(outcome: Any) -> str:
    """What a run answered: the last message of its agent, the output of its command, the text that its job returned."""
    match outcome:
        case {"result": {"text": str(text)}} | {"result": str(text)}:
            return text.strip()
        case _:
            return ""


def is_silent(outcome: Any) -> bool:
    """Whether the agent declared that there is nothing to report."""
    match outcome:
        case {"result": {"declared": "nothing"}}:
            return True
        case _:
            return False


def asks_for_silence(definition: ScheduleDefinition, agent: str, policies: Policies) -> bool:
    """Whether an agent is asked to say so when there is nothing to report. Told to every agent, it would contradict
    their own prompts."""
    condition = definition.deliver_if or policies.deliver.condition
    return condition == "news" and NOBODY not in destinations_of(definition, agent, policies)


def joined_answers(answers: Sequence[tuple[str, str]]) -> str:
    """The answers of several steps, by title."""
    told = [(title, text) for title, text in answers if text]
    return told[0][1] if len(told) == 1 else "\n\n".join(f"## {title}\n\n{text}" for title, text in told)


def digest_of(text: str) -> str:
    """What equal answers have in common."""
    return sha256(" ".join(text.split()).encode(errors="replace")).hexdigest()[:32]


class ChatPlace(NamedTuple):
    """Where a run's thread is in chat."""

    service: str
    channel: str


class NewAnswer(NamedTuple):
    """The decision about an answer and a destination."""

    destination: str
    state: AnswerState
    reason: str | None = None


def decide(
    state: RunState,
    outcome: Any,
    definition: ScheduleDefinition,
    agent: str,
    policies: Policies,
    place: ChatPlace | None,
    last: Callable[[str], tuple[int, str] | None],
) -> list[NewAnswer]:
    """Who gets the answer of a run that ended so. `last`: the run and the digest of the last answer that went to a
    destination."""
    names = destinations_of(definition, agent, policies)
    failed, condition = state in FAILED, definition.deliver_if or policies.deliver.condition
    if NOBODY in names or (outcome is None and not failed and condition != "always"):  # a job that returned nothing
        return []
    found: list[NewAnswer] = []
    if place is not None:  # the person who asked in chat gets the failure too
        found.append(_answer(f"{THREAD}:{place.service}", failed, outcome, condition, last))
    if ("failed" if failed else "succeeded") not in (definition.deliver_on or policies.deliver.on):
        return found
    told = recipients("failed", policies, [definition]) if failed else ()
    for name in _distinct(names, policies.destinations, place):
        if name not in policies.destinations:
            found.append(NewAnswer(name, "discarded", UNKNOWN))
        elif name in told:
            found.append(NewAnswer(name, "withheld", TOLD))
        else:
            found.append(_answer(name, failed, outcome, condition, last))
    return found


def _answer(
    name: str,
    failed: bool,
    outcome: Any,
    condition: DeliverIf,
    last: Callable[[str], tuple[int, str] | None],
) -> NewAnswer:
    if failed or condition == "always":  # a failure is never silent
        return NewAnswer(name, "queued")
    text = answer_text(outcome)
    if is_silent(outcome):
        return NewAnswer(name, "withheld", NOTHING)
    if not text:
        return NewAnswer(name, "withheld", EMPTY)
    before = last(name) if condition == "changed" else None
    if before is not None and before[1] == digest_of(text):
        return NewAnswer(name, "withheld", f"{SAME}:{before[0]}")
    return NewAnswer(name, "queued")


def _distinct(names: Iterable[str], destinations: Mapping[str, Destination], place: ChatPlace | None) -> Iterable[str]:
    """The names without those that lead where another one, or the thread, leads."""
    seen = set[Any]()
    for name in dict.fromkeys(names):
        found = destinations.get(name)
        if found is None:
            yield name
            continue
        if place is not None and (found.kind, found.to) == (place.service, (place.channel,)):
            continue
        address = found.kind, found.url, found.to, found.token, found.person
        if address not in seen:
            seen.add(address)
            yield name


def message_recipients(
    definition: ScheduleDefinition, agent: str, policies: Policies, to: Sequence[str] | None
) -> tuple[str, ...]:
    """Who gets a message that an agent sends during its run: only destinations of its schedule."""
    names = destinations_of(definition, agent, policies)
    known = () if NOBODY in names else tuple(name for name in names if name in policies.destinations)
    if not known:
        hint = "Ask the owner to set deliver, or answer: the run keeps it."
        raise Conflict("This schedule delivers its answers nowhere.", field="to", hint=hint)
    for name in to or ():
        if name not in known:
            message = f'This schedule does not deliver to "{name}".'
            raise NotAllowed(message, value=name, field="to", hint=f"Its destinations: {', '.join(known)}.")
    return tuple(dict.fromkeys(to)) if to else known


# -- when


def quiet_hours_until(destination: Destination, policies: Policies, now: int) -> int | None:
    """The end of the quiet hours of the destination's person; None outside of them."""
    hours = policies.quiet_hours_of(destination.person)
    return None if hours is None else quiet_until(hours, now)


def waits_until(
    destination: Destination, policies: Policies, sent_this_hour: int, now: int, *, limited: bool
) -> tuple[str, int] | None:
    """What an answer waits for, and until when: the end of the person's quiet hours, or the digest on the hour. None
    when it is sent at once."""
    quiet = None if ANSWER in destination.urgent else quiet_hours_until(destination, policies, now)
    if quiet is not None:
        return QUIET, quiet
    full = limited and sent_this_hour >= destination.max_per_hour
    return (DIGEST, (now // HOUR_MS + 1) * HOUR_MS) if full else None


# -- the sentence about it


def destination_label(name: str) -> str:
    """`phone`; for the place of a thread in chat, `the thread in slack`."""
    service = name.removeprefix(f"{THREAD}:")
    return name if service == name else f"the thread in {service}"


def unsent_reason(
    state: RunState, outcome: Any, definition: ScheduleDefinition, agent: str, policies: Policies
) -> str | None:
    """Why nobody gets the answer of a run that has one."""
    names, failed = destinations_of(definition, agent, policies), state in FAILED
    if failed or state is not RunState.SUCCEEDED or (not names and not answer_text(outcome)):
        return None
    if not names:
        return 'The answer was not sent: "deliver" is not set.'
    if NOBODY in names:
        return 'The answer was not sent: "deliver" is none.'
    if "succeeded" not in (definition.deliver_on or policies.deliver.on):
        return 'The answer was not sent: "deliver_on" is failed.'
    return "There is no answer: the job returned nothing." if outcome is None else None


def is_delivered(answers: Sequence[AnswerRow]) -> bool | None:
    """Whether all have arrived; None while one is under way, and where there was no recipient."""
    sent = [answer for answer in answers if answer.state != "withheld"]
    failed = any(answer.state not in ("delivered", *PENDING) for answer in sent)
    if failed:
        return False
    return None if not sent or any(answer.state in PENDING for answer in sent) else True


def answer_sentence(answer: AnswerRow, zone: str) -> Sentence:
    """What became of an answer at a destination."""
    name, error = destination_label(answer.destination), answer.error
    what = f"Message {answer.number}: " if answer.number else ""
    match answer.state:
        case "delivered":
            return Sentence(f"{what}Delivered to {name} at {_clock(answer.sent_at, zone)}.", error)
        case "withheld":
            return Sentence(f"{what}Withheld from {name}: {_withheld(answer.reason or '')}.")
        case "unconfirmed":
            return Sentence(f"{what}Sent to {name}, and not confirmed.", error)
        case "discarded":
            fixed = {UNKNOWN: "there is no such destination", DELETED: "the destination was deleted"}
            why = fixed.get(answer.reason or "")
            return (
                Sentence(f"{what}Not delivered to {name}.", error)
                if why is None
                else Sentence(f"{what}Not delivered to {name}: {why}.")
            )
        case _:
            pass
    if answer.reason == QUIET:
        return Sentence(
            f"{what}Waiting for the end of quiet hours to be sent to {name}: {_time(answer.next_at, zone)}."
        )
    if answer.reason == DIGEST:
        return Sentence(f"{what}Waiting for the digest to {name}, above its limit: {_time(answer.next_at, zone)}.")
    if answer.state == "retrying":
        return Sentence(f"{what}Not yet delivered to {name}; the next attempt: {_time(answer.next_at, zone)}.", error)
    return Sentence(f"{what}On its way to {name}.")


def _withheld(reason: str) -> str:
    code, _, run = reason.partition(":")
    return {
        EMPTY: "the answer is empty",
        NOTHING: "the agent had nothing to report",
        TOLD: "it hears of the incident",
        SAME: f"the answer is the same as that of run {run}",
    }[code]


def command_of(answer: AnswerRow) -> str | None:
    """The command that sends an answer again which did not arrive."""
    if answer.number != FINAL or answer.state not in ("unconfirmed", "discarded"):
        return None
    to = THREAD if answer.destination.startswith(f"{THREAD}:") else answer.destination
    return f"matins runs deliver {answer.run_id} --to {shlex.quote(to)}"


def _clock(at: int | None, zone: str) -> str:
    return "an unknown time" if at is None else local_time(at // 1000 * 1000, zone, at - 1000).rpartition(" ")[0]


def _time(at: int | None, zone: str) -> str:
    return "soon" if at is None else local_time(at // 1000 * 1000, zone)
