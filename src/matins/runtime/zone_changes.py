"""New data of time zones: an engine that starts with other data than before computes next slots again.

The store has the data from which slots were computed, by zone. A cursor does not say which of them it is from, so that
a fire writes no more than before: it is from the newest data by which it is a slot. Several are kept only while engines
with different data run beside each other. Only a start compares, so that those engines do not undo each other's work
for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from matins.engine.when.triggers import Trigger, compile_trigger, moved_slot
from matins.engine.when.zones import Zone, load_zone
from matins.errors import MatinsError, TimezoneError
from matins.model.rows import CompiledKey, NewEvent, ScheduleRow
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.new_runs import skip_covered
from matins.store import Store
from matins.store.transaction import Transaction

log = logging.getLogger("matins")
_PAGE = 500
_NEVER_CHANGES = "UTC"


def note_zones(transaction: Transaction, triggers: Iterable[Trigger]) -> None:
    """Note the data from which the slots of new or edited schedules are computed."""
    zones = {one.zone.name: one.zone for one in triggers if one.has_wall_times}
    for name in sorted(zones.keys() - {_NEVER_CHANGES}):
        transaction.note_zone(name, zones[name].digest, zones[name].data)


def compare_zones(store: Store, catalog: Catalog, worker: int, now: int) -> None:
    """Compare the data of the zones in use with those from which slots were computed, and move what changed."""
    with store.reading() as transaction:
        known = transaction.zone_versions()
    zones = _present({version.name for version in known})
    changed = {one.name for one in known if one.name in zones and one.digest != zones[one.name].digest}
    if not zones:
        return
    schedule_ids = _schedules_in(store, catalog, changed) if changed else []
    with store.transaction(now) as transaction:
        # Cursors before other rows, as everywhere. An engine that starts at the same time waits here.
        transaction.lock_due(schedule_ids)
        rows = transaction.schedules_with(schedule_ids) if schedule_ids else []
        moved = {name: _move(transaction, catalog, zones[name], rows, now) for name in sorted(changed)}
        for name, zone in sorted(zones.items()):
            transaction.use_zone(name, zone.digest, zone.data, now)
            if moved.get(name):
                transaction.note_moves(name, zone.digest, moved[name], now)
            transaction.forget_zone(name, zone.digest, worker)
    for name, count in moved.items():
        if count:
            log.warning("The data of time zone %s changed: %s.", name, moved_text(count))


def moved_text(count: int) -> str:
    return "1 schedule moved" if count == 1 else f"{count} schedules moved"


def _present(names: Iterable[str]) -> dict[str, Zone]:
    found: dict[str, Zone] = {}
    for name in sorted(names):
        try:
            found[name] = load_zone(name)
        except TimezoneError as error:  # a schedule in it is marked as broken when it is due
            log.warning("The data of time zone %s cannot be read: %s", name, error)
    return found


def _schedules_in(store: Store, catalog: Catalog, zones: set[str]) -> list[int]:
    """The schedules with a next slot that follows from the data of these zones."""
    found: list[int] = []
    page: Sequence[ScheduleRow] = ()
    while True:
        with store.reading() as transaction:
            page = transaction.schedules(page[-1].id if page else 0, None, _PAGE)
            compiled = catalog.compiled(transaction, [_key(row) for row in page if row.due_at is not None])
        for (schedule_id, _, _), item in compiled.items():
            if isinstance(item, CompiledSchedule) and _is_in(item.timetable.trigger, zones):
                found.append(schedule_id)
        if len(page) < _PAGE:
            return sorted(found)


def _key(row: ScheduleRow) -> CompiledKey:
    return row.id, row.rev, 0


def _is_in(trigger: Trigger, zones: set[str]) -> bool:
    return trigger.has_wall_times and trigger.zone.name in zones


def _move(transaction: Transaction, catalog: Catalog, zone: Zone, rows: list[ScheduleRow], now: int) -> int:
    """Move the next slots of a zone to those of its present data. Returns the number of schedules that moved."""
    versions = transaction.lock_zone(zone.name)
    known = [zone if one.digest == zone.digest else Zone(one.name, one.data) for one in versions]
    compiled = catalog.compiled(transaction, [_key(row) for row in rows if row.due_at is not None])
    moved = 0
    for row in rows:
        item = compiled.get(_key(row))
        if isinstance(item, CompiledSchedule) and _is_in(item.timetable.trigger, {zone.name}):
            moved += _move_one(transaction, row, item, known, now)
    if moved:
        data = {"zone": zone.name, "schedules": moved, "before": versions[0].digest, "digest": zone.digest}
        transaction.events.append(NewEvent(now, "zone.changed", None, None, data))
    return moved


def _move_one(transaction: Transaction, row: ScheduleRow, item: CompiledSchedule, known: list[Zone], now: int) -> bool:
    slot, present = row.next_slot, item.timetable.trigger
    assert slot is not None  # it is due
    before = _source(present, slot, known)
    if before is present:
        return False
    since = min(row.updated_at, now)  # a clock that was ahead wrote later ones
    following = skip_covered(transaction, row.id, present, moved_slot(before, present, slot, since))
    if following == slot:
        return False
    transaction.replace_cursor(row.id, following, item.timetable.due_at(row.id, following), row.rev)
    data = {"from": slot, "to": following, "zone": present.zone.name}
    transaction.events.append(NewEvent(now, "schedule.replanned", row.id, None, data))
    return True


def _source(present: Trigger, slot: int, known: list[Zone]) -> Trigger | None:
    """The trigger by the newest data by which there is a slot then: the one that it was computed with."""
    for zone in known:
        trigger = present if zone is present.zone else _by(present, zone)
        if trigger is not None and trigger.count(slot, slot + 1):
            return trigger
    return None


def _by(present: Trigger, zone: Zone) -> Trigger | None:
    try:
        return compile_trigger(present.definition, zone=zone)
    except MatinsError:  # a rule that has no time at all by these data
        return None
