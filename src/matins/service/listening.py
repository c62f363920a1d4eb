"""What schedules listen to: resolved, stored for calls, and free of circles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from matins.engine.calls import listening
from matins.errors import Conflict, MatinsError
from matins.model.call import CallTrigger, Listener, OnSchedule
from matins.model.schedule import ScheduleRecord
from matins.service.core import Core
from matins.store.transaction import Transaction


def listen(core: Core, transaction: Transaction, schedule_ids: Sequence[int]) -> None:
    """Store what these schedules listen to. Raises if one follows a schedule that does not exist, or itself."""
    schedules = [core.schedule(transaction, number) for number in schedule_ids]
    follows = any(isinstance(trigger, OnSchedule) for schedule in schedules for trigger in schedule.definition.on)
    if follows:
        transaction.lock_policies()  # otherwise two concurrent changes could close a circle
    for schedule in schedules:
        transaction.set_listeners(schedule.id, list(_listeners(core, transaction, schedule)))
    if follows:
        _check_circles(core, transaction, schedules)


def _listeners(core: Core, transaction: Transaction, schedule: ScheduleRecord) -> Iterator[Listener]:
    for trigger in schedule.definition.on:
        source, name = listening(trigger)
        agent = ""
        if isinstance(trigger, OnSchedule):
            followed = _followed(core, transaction, trigger)
            agent, name = followed.agent, followed.name
        yield Listener(source, name, agent, schedule.id)


def _followed(core: Core, transaction: Transaction, trigger: CallTrigger) -> ScheduleRecord:
    try:
        return core.find(transaction, listening(trigger)[1], None)
    except MatinsError as error:
        error.field = "on"  # type: ignore[attr-defined]
        raise


def _check_circles(core: Core, transaction: Transaction, schedules: Sequence[ScheduleRecord]) -> None:
    followers: dict[int, list[int]] = defaultdict(list)
    for source, follower in transaction.pipelines():
        followers[source].append(follower)
    for schedule in schedules:
        circle = _circle(schedule.id, followers)
        if circle:
            names = " → ".join(core.schedule(transaction, number).name for number in circle)
            message = f"The schedules would start each other for ever: {names}."
            raise Conflict(message, value=schedule.name, field="on", hint="Let one of them follow another schedule.")


def _circle(start: int, followers: Mapping[int, Sequence[int]]) -> list[int] | None:
    """A way from a schedule back to itself."""
    came_from: dict[int, int] = {}
    left = [start]
    while left:
        here = left.pop()
        for following in followers.get(here, ()):
            if following == start:
                way = [here]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return [*reversed(way), start]
            if following not in came_from:
                came_from[following] = here
                left.append(following)
    return None
