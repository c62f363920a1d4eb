-- insert_event: add a link to a chain
INSERT INTO events (writer, seq, at, type, schedule_id, run_id, data, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- insert_writer: add a connection that writes events
INSERT INTO writers (uuid, opened_at) VALUES (?1, ?2) RETURNING id;

-- heads: the last link of every chain that grew since a seal
SELECT e.writer, e.seq, e.hash, e.id FROM writers w JOIN events e
  ON e.id = (SELECT id FROM events WHERE writer = w.id AND id > :since ORDER BY id DESC LIMIT 1)
ORDER BY e.writer;

-- links(ids: Iterable[int]) -> list[EventLink]: where events are in their chains
SELECT id, writer, seq, hash FROM events WHERE id IN (SELECT value FROM json_each(:ids));

-- last_event: the newest event
SELECT max(id) FROM events;

-- last_seal: the newest seal
SELECT upto, hash FROM seals ORDER BY id DESC LIMIT 1;

-- insert_seal: add a seal over the heads of all chains
INSERT INTO seals (at, upto, heads, hash) VALUES (:now, :newest, :heads, :hash);

-- events_after(event_id: int, limit: int) -> list[StoredEvent]: a page of events
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > :event_id ORDER BY id LIMIT :limit;

-- prunable_events: the last old event of each chain; the newest event is kept, because ids continue from it
SELECT writer, max(seq) FROM events
WHERE id < coalesce((SELECT id FROM events WHERE at >= :before ORDER BY id LIMIT 1), (SELECT max(id) FROM events)) GROUP BY writer;

-- event_hash: the hash of one link
SELECT hash FROM events WHERE writer = :writer AND seq = :seq;

-- mark_pruned: set where a chain starts
UPDATE writers SET pruned_seq = :seq, pruned_hash = :hash WHERE id = :writer AND pruned_seq < :seq;

-- pruned_of_types: events of these types among the first events of a chain
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events
WHERE writer = :writer AND seq <= :seq AND type IN (SELECT value FROM json_each(:types));

-- delete_events: delete the first events of a chain
DELETE FROM events WHERE writer = :writer AND seq <= :seq;
