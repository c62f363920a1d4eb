"""Every event by its name: one catalogue, the names of other systems for it, and the CloudEvents shape."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

import orjson

from matins.engine.when.triggers import EPOCH
from matins.errors import InvalidInput
from matins.model.records import StoredEvent

PREFIX = "matins."


class EventKind(NamedTuple):
    """What an event of this type says, in a sentence."""

    type: str
    says: str
    ends: bool = False
    """Whether a run is over with it."""


_KINDS = (
    EventKind("schedule.created", "A schedule was made, or proposed by an agent."),
    EventKind("schedule.updated", "A schedule says something else from now on."),
    EventKind("schedule.paused", "A schedule starts nothing new until it is resumed."),
    EventKind("schedule.auto_paused", "A schedule was paused because too many of its runs failed in a row."),
    EventKind("schedule.resumed", "A schedule goes on."),
    EventKind("schedule.expired", "A schedule's end date has come."),
    EventKind("schedule.broken", "A schedule cannot be used and was set aside, with the reason."),
    EventKind("schedule.replanned", "A schedule's next slot was found anew after the clock went back."),
    EventKind("schedule.missed", "Nobody was there for a slot, or for a range of them.", ends=True),
    EventKind("schedule.removed", "A schedule was removed; its history stays."),
    EventKind("run.planned", "A slot has its run, which may start as soon as there is room."),
    EventKind("run.queued", "A run waits for another run of its schedule."),
    EventKind("run.promoted", "A queued run may start now."),
    EventKind("run.deferred", "A run is put off, until a time or until what holds it up is over."),
    EventKind("run.checking", "A run waits for its guard, pre-check or hook."),
    EventKind("run.awaiting_approval", "A run waits for people to approve it."),
    EventKind("run.suspended", "A run could go on, but its schedule is paused."),
    EventKind("run.cleared", "A run has waited and may start now."),
    EventKind("run.started", "An attempt of a run began."),
    EventKind("run.landed", "A run has its conversation: a new one, or one that goes on."),
    EventKind("run.adopted", "A run whose worker is gone still runs, and has a new worker."),
    EventKind("run.released", "A run that was claimed and had not begun was given back."),
    EventKind("run.retrying", "An attempt failed or was lost, and the run is tried again."),
    EventKind("run.held", "A run has not ended and nobody can end it, or its worker is gone: a person decides."),
    EventKind("run.cancelling", "A started run was asked to end."),
    EventKind("run.succeeded", "A run ended well.", ends=True),
    EventKind("run.failed", "A run failed, and is not tried again.", ends=True),
    EventKind("run.cancelled", "A run was cancelled.", ends=True),
    EventKind("run.skipped", "A slot came, and a policy, a check or a hook let it pass by.", ends=True),
    EventKind("run.blocked", "The guard said no to a run.", ends=True),
    EventKind("run.missed", "A run could not start within its grace.", ends=True),
    EventKind("run.denied", "People denied a run.", ends=True),
    EventKind("run.expired", "Nobody approved a run in time.", ends=True),
    EventKind("run.over_budget", "There was no money or no tokens for a run, or it was ended at its limit.", ends=True),
    EventKind("run.interrupted", "A run was cut off because its scheduler stopped.", ends=True),
    EventKind("run.unknown", "Nobody knows how a run ended.", ends=True),
    EventKind("message.emitted", "A schedule says its message: whoever listens acts on it."),
    EventKind("approval.requested", "People are asked about a run, a proposed schedule or a budget."),
    EventKind("approval.vote", "Somebody answered."),
    EventKind("approval.edited", "What was asked was changed by the approver, and is asked anew."),
    EventKind("approval.approved", "It was approved."),
    EventKind("approval.denied", "It was denied."),
    EventKind("approval.expired", "Nobody answered in time."),
    EventKind("approval.used", "A run that was approved starts: the approval is used up."),
    EventKind("approval.void", "What was asked is about something else by now."),
    EventKind("budget.exceeded", "A run spent more than it may: its schedule is paused, and people are asked."),
    EventKind("throttle.activated", "A provider serves nobody for a while."),
    EventKind("throttle.lifted", "Somebody said that a provider serves again."),
    EventKind("throttle.ended", "A provider serves again."),
    EventKind("policy.set", "Quiet hours, a budget, a price, a hook or another policy was made or changed."),
    EventKind("policy.dropped", "A policy is no more."),
    EventKind("file.applied", "What a file says holds from now on: what was added, removed and changed."),
    EventKind("limit.set", "So many runs at once from now on."),
    EventKind("subscription.created", "Somebody wants to hear of events: a webhook, or a function by name."),
    EventKind("subscription.paused", "A subscription gets nothing until it is resumed."),
    EventKind("subscription.resumed", "A subscription goes on where it stood."),
    EventKind("subscription.dropped", "A subscription is no more."),
    EventKind("delivery.given_up", "An event could not be delivered, and is not tried again."),
    EventKind("delivery.requested", "Somebody wants an event delivered again."),
    EventKind("token.created", "Somebody was given a key: whose it is and what it may, never the key."),
    EventKind("token.revoked", "A key opens nothing any more."),
    EventKind("store.copied", "A copy of the whole store was made."),
    EventKind("hook.failed", "A hook that learns how runs end did not end well itself; nothing follows from it."),
)
CATALOGUE = {kind.type: kind for kind in _KINDS}
ENDS = frozenset(kind.type for kind in _KINDS if kind.ends)
"""The types with which a run is over; each run has exactly one event of these."""
ALIASES = {
    "schedule:created": "schedule.created",
    "schedule:triggered": "run.started",
    "schedule:completed": "run.succeeded",
    "schedule:expired": "schedule.expired",
    "schedule.skipped": "run.skipped",
    "schedule_approval_request": "approval.requested",
    "MessageEvent": "message.emitted",
}
"""The names that other systems give them."""


def canonical(name: str) -> str:
    """The type that a name means: our own, with or without its prefix, or another system's."""
    plain = name.removeprefix(PREFIX)
    found = ALIASES.get(plain, plain)
    if found not in CATALOGUE:
        close = difflib.get_close_matches(plain, [*CATALOGUE, *ALIASES], n=1)
        hint = f'did you mean "{close[0]}"?' if close else "the names are in docs/events.md"
        raise InvalidInput(f'There is no event "{name}"', value=name, field="types", hint=hint)
    return found


def canonical_types(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """The types that somebody wants to hear of; none named: all."""
    if names is None:
        return ()
    types = tuple(sorted({canonical(name) for name in ([names] if isinstance(names, str) else names)}))
    if not types:
        raise InvalidInput('"types" names no event', value=[], field="types", hint="leave it out for all of them")
    return types


def to_cloudevent(event: StoredEvent, store_id: str, schedule_name: str | None) -> dict[str, Any]:
    """CloudEvents 1.0. Ids are texts: they may be larger than a number in JSON."""
    told: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{store_id}-{event.id}",
        "source": f"{PREFIX.removesuffix('.')}/{store_id}",
        "type": PREFIX + event.type,
        "time": (EPOCH + timedelta(milliseconds=event.at)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": orjson.loads(event.data) if event.data else {},
    }
    if event.schedule_id is not None:
        told |= {"subject": f"schedules/{event.schedule_id}", "scheduleid": str(event.schedule_id)}
    if event.run_id is not None:
        told |= {"subject": f"runs/{event.run_id}", "runid": str(event.run_id)}
    if schedule_name is not None:
        told["schedulename"] = schedule_name
    return told
