-- The log of events, its chains and its seals.

-- last_written() -> int: the latest instant of the newest events; 0 when there are none
SELECT coalesce(max(at), 0) FROM (SELECT at FROM events ORDER BY id DESC LIMIT 1000) newest;

-- logged(after: int, limit: int) -> list[StoredEvent]: a page of all events by id, also of those that subscribers do not see
--   yet
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > :after ORDER BY id LIMIT :limit;

-- last_pruning() -> StoredEvent | None: the newest event that says which events were deleted
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE type = 'history.pruned' ORDER BY id DESC LIMIT 1;

-- events_before(event_id: int, limit: int) -> list[StoredEvent]: a page of events, the newest first
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id < :event_id ORDER BY id DESC LIMIT :limit;

-- event_horizon() -> int: the last event id up to which all events are visible
SELECT id FROM event_horizon;

-- event(event_id: int) -> StoredEvent | None: one event
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id = :event_id;

-- writers() -> list[WriterRow]: writers, for verification
SELECT id, pruned_seq, pruned_hash FROM writers ORDER BY id;

-- seals(after: int, limit: int) -> list[SealRow]: a page of seals, for verification
SELECT id, at, heads, hash FROM seals WHERE id > :after ORDER BY id LIMIT :limit;

-- newest_seal() -> SealRow | None: the last seal
SELECT id, at, heads, hash FROM seals ORDER BY id DESC LIMIT 1;

-- delete_seals: delete the first seals
DELETE FROM seals WHERE id <= :last;

-- link_hash: the hash of an event
SELECT hash FROM events WHERE id = :id;

-- pruned_until: the number of the last pruned event of a writer
SELECT pruned_seq FROM writers WHERE uuid = :writer;
