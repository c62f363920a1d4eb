-- insert_writer: add a connection that writes events
INSERT INTO writers (uuid, opened_at) VALUES (%(uuid)b, %(now)b) RETURNING id;

-- heads: the last link of every chain that grew since a seal
SELECT DISTINCT ON (e.writer) e.writer, e.seq, e.hash, e.id FROM events e JOIN writers w ON w.id = e.writer
WHERE e.id >= %(since)b AND e.seq > w.sealed_seq ORDER BY e.writer, e.seq DESC;

-- links(ids: Iterable[int]) -> list[EventLink]: where events are in their chains
SELECT id, writer, seq, hash FROM events WHERE id = ANY(%(ids)b);

-- last_seal: the newest seal
SELECT hash FROM seals ORDER BY id DESC LIMIT 1;

-- insert_seal: add a seal over the heads of all chains
INSERT INTO seals (at, heads, hash) VALUES (%(now)b, %(heads)b, %(hash)b);

-- events_after(event_id: int, limit: int) -> list[StoredEvent]: a page of events
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events
WHERE id > %(event_id)b AND id < (
  SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + value::bigint) << 22 FROM meta WHERE key = 'xact_base')
ORDER BY id LIMIT %(limit)b;

-- prunable_events: the last one of the oldest events before the first that is not older than an instant
WITH oldest AS (SELECT id, at FROM events ORDER BY id LIMIT 100000)
SELECT max(id) FROM oldest WHERE NOT EXISTS (SELECT FROM oldest o WHERE o.at >= %(before)b AND o.id <= oldest.id);

-- mark_pruned: set where chains start; ids have the order of every chain
UPDATE writers w SET pruned_seq = e.seq, pruned_hash = e.hash
FROM (SELECT DISTINCT ON (writer) writer, seq, hash FROM events WHERE id <= %(last)b ORDER BY writer, id DESC) e
WHERE w.id = e.writer RETURNING w.id;

-- pruned_of_types: events of these types among the first events of the chains
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events
WHERE id <= %(last)b AND type = ANY(%(types)b) ORDER BY id;

-- delete_events: delete the first events of the chains
DELETE FROM events WHERE id <= %(last)b;

-- first_event_id: the first event id of this transaction
SELECT (pg_current_xact_id()::text::bigint + value::bigint) << 22 FROM meta WHERE key = 'xact_base';

-- callers_chain: the chain of this transaction of a caller, or one that no other transaction continues, with older events. A
--   snapshot for the whole transaction may not show its end: then a new one is opened
SELECT writer, event_id, seq, hash FROM callers_chains WHERE event_id >> 22 = %(first)b::bigint >> 22
  OR (event_id < %(first)b AND current_setting('transaction_isolation') = 'read committed')
ORDER BY event_id DESC LIMIT 1 FOR UPDATE SKIP LOCKED;

-- set_callers_chain: set the end of a chain that transactions of callers continue
INSERT INTO callers_chains VALUES (%(writer)b, %(event_id)b, %(seq)b, %(hash)b)
ON CONFLICT (writer) DO UPDATE SET event_id = excluded.event_id, seq = excluded.seq, hash = excluded.hash;

-- insert_events: add a few links to a chain, with ids of this transaction; their ids
INSERT INTO events (id, writer, seq, at, type, schedule_id, run_id, data, hash)
SELECT ((pg_current_xact_id()::text::bigint + m.value::bigint) << 22) + u.nth - 1, u.writer, u.seq, u.at, u.type, u.schedule_id,
  u.run_id, u.data, u.hash
FROM meta m, unnest(%(writer)b, %(seq)b, %(at)b, %(type)b, %(schedule_id)b, %(run_id)b, %(data)b, %(hash)b::bytea[])
  WITH ORDINALITY u (writer, seq, at, type, schedule_id, run_id, data, hash, nth)
WHERE m.key = 'xact_base' RETURNING id;

-- copy_events: add links to a chain
COPY events (id, writer, seq, at, type, schedule_id, run_id, data, hash) FROM STDIN (FORMAT binary);

-- lock_seals: lock the seals; the end of the last one, and the event below which all events are visible
SELECT s.value::bigint, (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + b.value::bigint) << 22
FROM meta s, meta b WHERE s.key = 'sealed' AND b.key = 'xact_base' FOR UPDATE OF s;

-- mark_sealed: set how far each chain is sealed
UPDATE writers w SET sealed_seq = u.seq FROM unnest(%(writer)b, %(seq)b) u (writer, seq) WHERE w.id = u.writer;

-- sealed_below: set where the next seal starts
UPDATE meta SET value = %(horizon)b::bigint::text WHERE key = 'sealed' AND value::bigint < %(horizon)b::bigint;
