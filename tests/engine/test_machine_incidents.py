"""A machine that cannot start agents is one incident, until it can again or its engine stops. Row B17."""

from __future__ import annotations

from matins.delivery.decisions import EVENT_TYPES, decide
from matins.model.event import StoredEvent

HOUR_MS = 3_600_000


def event(kind: str, at: int, number: int) -> StoredEvent:
    values = dict.fromkeys(StoredEvent._fields)
    return StoredEvent(**{**values, "id": number, "type": kind, "at": at})  # type: ignore[arg-type]


def test_b17_a_machine_opens_one_incident_and_ends_its_own() -> None:
    """B17"""
    data = {"host": "one", "worker": 7, "reason": "No space left on device"}
    assert {"engine.cannot_start", "engine.can_start"} <= EVENT_TYPES
    (opened,) = decide(event("engine.cannot_start", 5, 1), data, [], lambda trouble: 0, 5)
    assert (opened.action, opened.tell, opened.incident.kind) == ("opened", True, "engine")
    assert opened.incident.summary == "one cannot start agents, and leaves them to other engines."
    assert opened.incident.quote == "No space left on device"
    known = [opened.incident._replace(id=3)]
    (again,) = decide(event("engine.cannot_start", 6, 2), data, known, lambda trouble: 0, 6)
    assert (again.action, again.tell) == ("repeated", False)
    assert decide(event("engine.can_start", 7, 3), {**data, "host": "two"}, known, lambda trouble: 0, 7) == []
    (ended,) = decide(event("engine.can_start", 8, 4), data, known, lambda trouble: 0, 8)
    assert (ended.action, ended.incident.resolution, ended.incident.resolved_at) == ("resolved", "ended", 8)
