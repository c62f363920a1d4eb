"""The catalogue of events: their types, the names of other systems for them, and the CloudEvents form."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import orjson

from matins.engine.when.triggers import EPOCH
from matins.errors import InvalidInput
from matins.model.event import StoredEvent

PREFIX = "matins."


class EventKind(NamedTuple):
    """A type of event, described in one sentence."""

    type: str
    help: str
    is_terminal: bool = False
    """Whether a run ends with the event."""
    of_jobs: bool = False
    """Whether jobs write the event. They write no other."""


_KINDS = (
    EventKind("schedule.created", "A schedule was added, or proposed by an agent."),
    EventKind("schedule.updated", "Settings of a schedule were changed."),
    EventKind("schedule.timed", "A schedule with steps got a time. The data has its next run."),
    EventKind("schedule.retimed", "The time of a schedule with steps was changed. The data has its next run."),
    EventKind("schedule.paused", "A schedule was paused. It starts no new runs until it is resumed."),
    EventKind("schedule.auto_paused", "A schedule was paused because too many of its runs failed in a row."),
    EventKind("schedule.resumed", "A schedule was resumed."),
    EventKind("schedule.expired", "A schedule reached its end date."),
    EventKind("schedule.broken", "A schedule cannot be read. It is set aside; the data has the reason."),
    EventKind(
        "schedule.replanned",
        "The next slot of a schedule moved because the clock went back, or the data of its time zone changed.",
    ),
    EventKind("schedule.missed", "One slot or several were missed because no engine was running.", is_terminal=True),
    EventKind("schedule.deleted", "A schedule was deleted. Its history is kept."),
    EventKind("backfill.started", "A backfill was started: runs for past slots."),
    EventKind("backfill.paused", "A backfill was paused: by a person, its failures, a budget, or with its schedule."),
    EventKind("backfill.resumed", "A backfill was resumed."),
    EventKind("backfill.done", "A backfill has no slot left to run."),
    EventKind("backfill.cancelled", "A backfill was cancelled."),
    EventKind("schedule.undeleted", "A deleted schedule came back: paused, or as a proposal."),
    EventKind("schedule.ping_address", "A schedule got an address for pings, or another one. The data never has it."),
    EventKind("schedule.renamed", "A schedule got another name. The data has both."),
    EventKind("bulk.started", "An action on many schedules or runs began. The data has the choice, number and reason."),
    EventKind("bulk.done", "An action on many schedules or runs ended. The data has how many it changed."),
    EventKind("run.planned", "A run was created for a slot. It starts as soon as there is capacity."),
    EventKind("run.varied", "A run was started with settings of its own."),
    EventKind("run.queued", "A run waits for another run of its schedule."),
    EventKind("run.promoted", "A queued run became ready to start."),
    EventKind("run.deferred", "A run was deferred until a time, or until the condition that blocks it ends."),
    EventKind("run.checking", "A run waits for the guard, its pre-check or a hook."),
    EventKind("run.awaiting_approval", "A run waits for approval."),
    EventKind("run.suspended", "A run stopped waiting, but its schedule is paused."),
    EventKind("run.ready", "A run passed all gates and is ready to start."),
    EventKind("reputation.attested", "A job computed the score of an agent, and its digest.", of_jobs=True),
    EventKind("run.no_node", "Runs wait because no live node offers what they need."),
    EventKind("node.cordoned", "A node takes no new runs."),
    EventKind("node.draining", "A node takes no new runs, and is to be empty."),
    EventKind("node.opened", "A node takes runs again."),
    EventKind("engine.cannot_start", "The machine of an engine cannot start agents, and leaves them to other engines."),
    EventKind("engine.can_start", "The machine of an engine can start agents again, or the engine has stopped."),
    EventKind("run.started", "An attempt of a run started."),
    EventKind("run.thread_assigned", "A run was assigned to a conversation, new or continued."),
    EventKind("run.adopted", "A run continues under a new worker because its worker is gone."),
    EventKind("run.released", "A run was claimed, did not start, and was released."),
    EventKind("run.not_here", "A node lacks what a run needs, and leaves it to other nodes."),
    EventKind("run.retrying", "An attempt failed or was lost. The run will be retried."),
    EventKind("run.held", "A run needs a person: it cannot be ended, or its worker is gone."),
    EventKind("run.reported", "An agent reported the outcome of its run, which continues."),
    EventKind("run.message", "An agent sent a message during its run: to whom, and a digest of the text."),
    EventKind("run.late", "A slot has not started within `late_after`, or started later than that."),
    EventKind("run.slow", "A run has not ended within `slow_after`."),
    EventKind("run.cancelling", "A started run was requested to end."),
    EventKind("run.succeeded", "A run succeeded.", is_terminal=True),
    EventKind("run.failed", "A run failed and will not be retried.", is_terminal=True),
    EventKind("run.cancelled", "A run was cancelled.", is_terminal=True),
    EventKind("run.skipped", "A slot was skipped by a policy, a check or a hook.", is_terminal=True),
    EventKind(
        "run.withdrawn",
        "The record of a slot was withdrawn because the clock had been ahead. The slot is still to come.",
    ),
    EventKind("run.shortened", "A run covers fewer slots than before because the clock had been ahead."),
    EventKind("run.blocked", "The guard blocked a run.", is_terminal=True),
    EventKind("run.missed", "A run could not start within its grace.", is_terminal=True),
    EventKind("run.denied", "A run was denied.", is_terminal=True),
    EventKind("run.expired", "A run was not approved in time.", is_terminal=True),
    EventKind(
        "run.over_budget",
        "A run did not start because its budget is spent, or was stopped at its limit.",
        is_terminal=True,
    ),
    EventKind("run.interrupted", "A run was interrupted because its scheduler stopped.", is_terminal=True),
    EventKind("run.unknown", "The outcome of a run is unknown.", is_terminal=True),
    EventKind("message.emitted", "A schedule emitted its message for subscribers."),
    EventKind("call.received", "A call from outside arrived. The data has its outcome and its runs."),
    EventKind("call.refused", "Calls to an inbound endpoint were refused because they were not signed correctly."),
    EventKind("approval.requested", "Approval was requested for a run, a proposed schedule or a budget."),
    EventKind("approval.voted", "A person approved or denied a request; others may still be needed."),
    EventKind("approval.edited", "An approver changed what was requested. It is requested again."),
    EventKind("approval.approved", "A request was approved."),
    EventKind("approval.denied", "A request was denied."),
    EventKind("approval.expired", "A request expired without a decision."),
    EventKind("approval.used", "An approved run started. Its approval is used up."),
    EventKind("approval.voided", "A request became void because its subject changed."),
    EventKind(
        "budget.warning", "A budget reached the share at which people get a message. The data has what is spent."
    ),
    EventKind(
        "budget.exceeded", "A run spent more than its budget. Its schedule is paused, and approval is requested."
    ),
    EventKind(
        "incident.opened", "An incident was opened. The data has its kind, and the destinations that get a message."
    ),
    EventKind("incident.reminded", "An incident continues, and destinations get a reminder."),
    EventKind(
        "incident.acknowledged", "A person acknowledged an incident. No more messages are sent until it is over."
    ),
    EventKind("incident.resolved", "An incident is over."),
    EventKind("incident.digest", "Messages that were held back are sent as one."),
    EventKind("throttle.set", "A provider was throttled until a time."),
    EventKind("throttle.deleted", "A throttle was deleted before its end."),
    EventKind("throttle.ended", "A throttle ended."),
    EventKind("policy.set", "Quiet hours, a budget, a price, a hook or another policy was created or changed."),
    EventKind("policy.deleted", "A policy was deleted."),
    EventKind("zone.changed", "The data of a time zone changed. The data has the number of schedules that moved."),
    EventKind("file.applied", "A file was applied. The data has what was added, removed and changed."),
    EventKind("limit.set", "A concurrency limit was created or changed."),
    EventKind("subscription.created", "A webhook or a named function was subscribed to events."),
    EventKind("subscription.updated", "The types of events of a subscription were changed."),
    EventKind("subscription.paused", "A subscription was paused. It receives nothing until it is resumed."),
    EventKind("subscription.resumed", "A subscription was resumed. It continues where it was."),
    EventKind("subscription.deleted", "A subscription was deleted."),
    EventKind("answer.delivered", "The answer of a run was delivered to a destination, which confirmed it."),
    EventKind("answer.undelivered", "The answer of a run was not delivered, or not confirmed."),
    EventKind("answer.requested", "The answer of a run was requested to be sent again."),
    EventKind("delivery.discarded", "An event could not be delivered and will not be retried."),
    EventKind("delivery.requested", "An event was requested to be delivered again."),
    EventKind("token.created", "A token was created. The data has its owner and rights, never the token."),
    EventKind("token.renamed", "The token of an agent got its new name. The data has both."),
    EventKind("token.revoked", "A token was revoked."),
    EventKind(
        "link.created",
        "A code that links a person to a user of chat was created. The data has its person, never the code.",
    ),
    EventKind(
        "session.created", "A link that logs a browser in was created. The data has its principal, never the link."
    ),
    EventKind("session.opened", "A browser logged in. The data has its principal, and the token of its link."),
    EventKind(
        "session.mailed", "A link to sign in was mailed, or could not be: the data has its person and the problem."
    ),
    EventKind(
        "sign_in.refused", "A browser was not signed in. The data has the reason and the person, not what was typed."
    ),
    EventKind("person.invited", "A person was invited. The data has the role, never the link."),
    EventKind("person.password_set", "A person set a password."),
    EventKind("person.left", "A person left: their sessions, tokens and open votes ended. The data has the numbers."),
    EventKind("grant.set", "The grants of a person changed. The data has all of them."),
    EventKind("session.ended", "A browser session ended: by logging out, by revocation, with its token or its person."),
    EventKind("run.erased", "The words of a run were erased. The data has the hashes of its events, which stay."),
    EventKind("history.runs_pruned", "Old runs were deleted. The data has their ids, as pairs of first and last."),
    EventKind("history.pruned", "Old events were deleted. The data says where each chain begins now."),
    EventKind(
        "store.restored",
        "The store is an older copy: a backup was restored, or a server failed over. The data has the reason.",
    ),
    EventKind("store.backed_up", "The store was backed up."),
    EventKind("store.promoted", "The store moved here. The data says from where, and what was carried."),
    EventKind("hook.failed", "A hook that runs after a run failed. The run is not affected."),
)
_OF_STEPS = tuple(
    EventKind(f"step.{kind.type.removeprefix('run.')}", f"A step of a run: the same as `{kind.type}` for a run.")
    for kind in _KINDS
    if kind.type.startswith("run.")
    and kind.type
    not in ("run.queued", "run.promoted", "run.checking", "run.blocked", "run.shortened", "run.late", "run.slow")
)
EVENTS = {kind.type: kind for kind in (*_KINDS, *_OF_STEPS)}
TERMINAL_EVENTS = frozenset(kind.type for kind in _KINDS if kind.is_terminal)
"""The types that end a whole run. Each has exactly one event of these types."""
PIPELINE_EVENTS = frozenset(["run.succeeded", "run.failed", "run.unknown", "run.over_budget", "run.interrupted"])
"""The ends of runs that other schedules can follow. What did not run starts nothing."""
Ping = Literal["start", "success", "fail"]
PING_EVENTS: dict[str, Ping] = {
    "run.started": "start",
    "run.succeeded": "success",
    "run.skipped": "success",
    **dict.fromkeys(
        ("run.failed", "run.missed", "schedule.missed", "run.unknown", "run.interrupted", "run.over_budget"), "fail"
    ),
}
"""Events for which the URL of a schedule is called. A slot that was skipped as planned counts as a success."""
NOTICE_EVENTS = frozenset(["incident.opened", "incident.reminded", "incident.resolved", "incident.digest"])
"""The events that destinations get, if `notify` selects them."""
ALIASES: dict[str, tuple[str, ...]] = {
    "schedule:created": ("schedule.created", "schedule.timed", "schedule.retimed"),
    "schedule:triggered": ("run.started",),
    "schedule:completed": (*sorted(PIPELINE_EVENTS), "run.cancelled"),
    "schedule:expired": ("schedule.expired",),
    "schedule.skipped": ("run.skipped",),
    "schedule_approval_request": ("approval.requested",),
    "MessageEvent": ("message.emitted",),
}
"""Other systems' names for the types."""


def canonical(name: str) -> tuple[str, ...]:
    """The types that a name means: Matins' own, with or without its prefix, or another system's."""
    plain = name.removeprefix(PREFIX)
    found = ALIASES.get(plain, (plain,))
    if not EVENTS.keys() >= set(found):
        close = difflib.get_close_matches(plain, [*EVENTS, *ALIASES], n=1)
        hint = f'Did you mean "{close[0]}"?' if close else "The names are in docs/events.md."
        raise InvalidInput(f'There is no event "{name}".', value=name, field="types", hint=hint)
    return found


def canonical_types(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """The types of a subscription; no names means all types."""
    if names is None:
        return ()
    types = tuple(sorted({kind for name in ([names] if isinstance(names, str) else names) for kind in canonical(name)}))
    if not types:
        raise InvalidInput(
            '"types" must name at least one event.', value=[], field="types", hint="Omit it for all events."
        )
    return types


def to_cloudevent(event: StoredEvent, store_id: str, schedule_name: str | None) -> dict[str, Any]:
    """CloudEvents 1.0. Ids are strings: they may be larger than a number in JSON."""
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{store_id}-{event.id}",
        "source": f"{PREFIX.removesuffix('.')}/{store_id}",
        "type": PREFIX + event.type,
        "time": (EPOCH + timedelta(milliseconds=event.at)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": orjson.loads(event.data) if event.data else {},
    }
    if event.schedule_id is not None:
        document |= {"subject": f"schedules/{event.schedule_id}", "scheduleid": str(event.schedule_id)}
    if event.run_id is not None:
        document |= {"subject": f"runs/{event.run_id}", "runid": str(event.run_id)}
    if schedule_name is not None:
        document["schedulename"] = schedule_name
    return document
