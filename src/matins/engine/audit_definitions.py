"""What the log of events says about definitions: revisions of schedules, and records of every kind. One that was
changed, deleted or invented in the store does not agree with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from matins.model.audit import BoundRevision, CurrentRevision, StoredEvent
from matins.model.rows import NewSchedule, PolicyRow, ScheduleRow, ScopeRow
from matins.model.subscription import Subscription

SCHEDULE = "schedule"
_STATE = "state"
_LIMIT = "limit"
_REVISED = ("schedule.created", "schedule.updated", "approval.edited", "run.varied")
_SUBSCRIBED = ("subscription.created", "subscription.updated", "subscription.deleted")
_OF_PEOPLE = ("webhook", "function")
"""Kinds of subscriptions with events of their own. The others have nothing to define."""
_REV_BITS = 24
_STOPS = {
    "approval.requested": "waiting", "schedule.paused": "paused", "schedule.auto_paused": "paused",
    "schedule.resumed": None, "schedule.expired": None,
}  # fmt: skip
"""What events say about whether a schedule may run: it waits for a person's answer, or is paused, or neither."""
_RUNNING = {"waiting": ("active", "paused", "completed"), "paused": ("active",)}
"""States that a schedule does not get while it is stopped."""


def fingerprint(*parts: object) -> str:
    """The digest of a definition as it is stored."""
    return _digest("\0".join(map(str, parts)))


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def schedule_fingerprint(row: NewSchedule) -> str:
    """The digest of a new schedule: everything that decides what runs, and who made it."""
    return _digest(
        f"{row.agent}\0{row.name}\0{row.created_by}\0{row.creator_role}\0{row.creator_run}\0{row.parent}\0{row.depth}"
        f"\0None\0None\0{row.definition}"
    )


def revision_fingerprint(row: BoundRevision) -> str:
    """The same of a revision in the store, with its author."""
    return fingerprint(*row[2:])


def subscription_fingerprint(row: Subscription) -> str:
    target = orjson.dumps(row.target, option=orjson.OPT_SORT_KEYS).decode()
    return fingerprint(row.kind, target, orjson.dumps(row.types).decode())


class Entry(NamedTuple):
    """What an event says about a definition."""

    kind: str
    name: str
    """For a revision, the id of its schedule."""
    rev: int
    """0 for records, which have no revisions."""
    digest: str | None
    """None when it was deleted."""
    event: int
    current: bool = True
    """Whether the schedule has this revision. Otherwise a run has it."""


def entries_of(event: StoredEvent) -> Iterator[Entry]:
    """The definitions that an event speaks of."""
    if event.type not in DEFINING or not event.data:
        return
    data: dict[str, Any] = orjson.loads(event.data)
    if event.type in _REVISED:
        current = event.type != "run.varied" and event.run_id is None
        yield Entry(SCHEDULE, str(event.schedule_id), data.get("rev", 1), data["fingerprint"], event.id, current)
    elif event.type in _STOPS:
        if event.type != "approval.requested" or data["kind"] == SCHEDULE:
            yield Entry(_STATE, str(event.schedule_id), 0, _STOPS[event.type], event.id)
    elif event.type in _SUBSCRIBED:
        if data["kind"] in _OF_PEOPLE:
            yield Entry("subscription", data["subscription"], 0, data.get("fingerprint"), event.id)
    elif event.type == "limit.set":
        yield Entry(_LIMIT, data["scope"], 0, str(data["size"]) if data["size"] else None, event.id)
    elif event.type == "history.pruned":
        yield from (Entry(*entry) for entry in data["definitions"])
    else:
        yield Entry(data["kind"], data["name"], 0, data.get("fingerprint"), event.id)


DEFINING = frozenset({*_REVISED, *_SUBSCRIBED, *_STOPS, "policy.set", "policy.deleted", "limit.set", "history.pruned"})
"""The types of events that bind definitions."""


def carried(events: Iterable[StoredEvent]) -> list[Entry]:
    """What events that are pruned say about definitions, which the event about the pruning says instead of them."""
    found: dict[tuple[str, str, int], Entry] = {}
    for event in events:
        for entry in entries_of(event):
            key = entry[:3]
            if key not in found or found[key].event < entry.event:
                found[key] = entry
    return list(found.values())


class Stored(NamedTuple):
    """The definitions that are in the store."""

    current: Sequence[CurrentRevision]
    """Schedules that were ever revised."""
    policies: Sequence[PolicyRow]
    limits: Sequence[ScopeRow]
    subscriptions: Sequence[Subscription]
    stopped: Sequence[ScheduleRow]
    """Schedules that must not run, by the log."""

    def records(self) -> dict[tuple[str, str], str]:
        """The digests of all records by kind and name."""
        found = {(row.kind, row.name): fingerprint(row.definition) for row in self.policies if row.kind != "file"}
        found |= {(_LIMIT, row.scope): str(row.size) for row in self.limits if row.size}
        subscribed = [row for row in self.subscriptions if row.kind in _OF_PEOPLE]
        return found | {("subscription", row.name): subscription_fingerprint(row) for row in subscribed}


class DefinitionCheck:
    """Compares definitions with their events. Revisions are compared as their events come: they never change."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        """The revisions in the log, by `revision_key`."""
        self._current: dict[str, Entry] = {}
        """The entry of the last revision of each schedule that was revised."""
        self._states: dict[str, Entry] = {}
        """What the log said last about each schedule that was ever stopped."""
        self._records: dict[tuple[str, str], Entry] = {}
        self._problems: list[str] = []

    def revised(self, page: Iterable[StoredEvent]) -> tuple[list[Entry], set[int]]:
        """The revisions of which events speak, and their schedules. Other definitions are noted."""
        revisions: list[Entry] = []
        for event in page:
            for entry in entries_of(event):
                if entry.kind == SCHEDULE:
                    revisions.append(entry)
                elif entry.kind == _STATE:
                    if entry.name not in self._states or self._states[entry.name].event < entry.event:
                        self._states[entry.name] = entry
                elif (known := self._records.get(entry[:2])) is None or known.event < entry.event:
                    self._records[entry[:2]] = entry
        return revisions, {int(entry.name) for entry in revisions}

    def compare(self, entries: Iterable[Entry], rows: Iterable[BoundRevision]) -> None:
        """Compare revisions with the rows of their schedules."""
        stored: Mapping[tuple[int, int], BoundRevision] = {row[:2]: row for row in rows}
        for entry in entries:
            row = stored.get((int(entry.name), entry.rev))
            self.seen.add(revision_key(int(entry.name), entry.rev))
            if entry.current and entry.rev > 1 and (
                entry.name not in self._current or self._current[entry.name].rev < entry.rev
            ):  # fmt: skip
                self._current[entry.name] = entry
            if row is None:
                self._problems.append(f"schedule {entry.name}: the definition of event {entry.event} was deleted.")
            elif revision_fingerprint(row) != entry.digest:
                self._problems.append(_changed(SCHEDULE, named(row.agent, row.name), entry))

    def stopped(self) -> list[int]:
        """The schedules that wait for an answer, or are paused, by the log."""
        return [int(entry.name) for entry in self._states.values() if entry.digest is not None]

    def problems(self, stored: Stored) -> Iterator[str]:
        """What does not agree after all events."""
        yield from self._problems
        yield from self._current_problems(stored.current)
        for row in stored.stopped:
            entry = self._states[str(row.id)]
            if row.state in _RUNNING[entry.digest or ""]:
                yield f"schedule {named(row.agent, row.name)}: its state is not the one of event {entry.event}."
        records = stored.records()
        for key, entry in self._records.items():
            if entry.digest is not None and key not in records:
                yield f"{_word(entry.kind)} {entry.name} was deleted, and the log does not say so."
        for key, digest in records.items():
            entry = self._records.get(key)
            if entry is None or entry.digest is None:
                yield f"{_word(key[0])} {key[1]} is not in the log."
            elif entry.digest != digest:
                yield _changed(entry.kind, entry.name, entry)

    def _current_problems(self, rows: Iterable[CurrentRevision]) -> Iterator[str]:
        """A schedule with another revision than its last one: an older one, or one of a run."""
        found = {str(row.schedule_id): row for row in rows}
        for number, row in found.items():
            entry = self._current.get(number)
            if entry is None:
                yield f"schedule {named(row.agent, row.name)}: it has revision {row.rev}, which the log does not say."
            elif (row.rev, row.cursor_rev) != (entry.rev, entry.rev):
                yield _changed(SCHEDULE, named(row.agent, row.name), entry)
        for number, entry in self._current.items():
            if number not in found:
                yield _changed(SCHEDULE, number, entry)


def revision_key(schedule_id: int, rev: int) -> int:
    return schedule_id << _REV_BITS | rev


def named(agent: str, name: str) -> str:
    return f"{agent}/{name}" if agent else name


def _word(kind: str) -> str:
    return kind.replace("_", " ")


def _changed(kind: str, name: str, entry: Entry) -> str:
    return f"{_word(kind)} {name}: its definition is not the one of event {entry.event}."
