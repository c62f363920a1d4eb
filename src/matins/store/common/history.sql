-- last_written: the latest instant of the newest events, which other processes may have written
SELECT max(at) FROM (SELECT at FROM events ORDER BY id DESC LIMIT 1000) newest;

-- logged: a page of events, for verification
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > :after ORDER BY id LIMIT :limit;

-- last_of_type: the newest event of a type
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE type = :type ORDER BY id DESC LIMIT 1;

-- all_writers: writers, for verification
SELECT id, pruned_seq, pruned_hash FROM writers ORDER BY id;

-- seals: a page of seals, for verification
SELECT id, at, heads, hash FROM seals WHERE id > :after ORDER BY id LIMIT :limit;

-- newest_seal: the last seal
SELECT id, at, heads, hash FROM seals ORDER BY id DESC LIMIT 1;

-- delete_seals: delete the first seals
DELETE FROM seals WHERE id <= :last;

-- count_bound: how many runs were created and ended since an instant, and how many attempts started
SELECT count(*) FILTER (WHERE planned_at >= :since), count(*) FILTER (WHERE state {ended} AND ended_at >= :since),
  (SELECT count(*) FROM attempts WHERE started_at >= :since) FROM runs;

-- meta: a value of the store
SELECT value FROM meta WHERE key = :key;

-- set_meta: set a value of the store
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- set_recorded: set the last slot that has a record and is still to come, if it differs
INSERT INTO meta (key, value) VALUES ('recorded_until', :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE meta.value <> excluded.value RETURNING key;

-- delete_meta: delete a value of the store
DELETE FROM meta WHERE key = :key;

-- renew_incarnation: give the store another incarnation, unless another process has done so
UPDATE meta SET value = :new WHERE key = 'incarnation' AND value = :old RETURNING value;

-- link_hash: the hash of an event
SELECT hash FROM events WHERE id = :id;

-- pruned_until: the number of the last pruned event of a writer
SELECT pruned_seq FROM writers WHERE uuid = :writer;

-- bound_revision: one revision, for its digest
SELECT r.schedule_id, r.rev, s.agent, s.name, s.created_by, s.creator_role, s.creator_run, s.parent, s.depth, r.author,
  r.author_role, r.definition
FROM revisions r JOIN schedules s ON s.id = r.schedule_id WHERE r.schedule_id = :id AND r.rev = :rev;

-- current_revisions: schedules that were revised, and the revisions that they and their cursors have
SELECT s.id AS schedule_id, s.agent, s.name, s.rev, d.rev AS cursor_rev FROM schedules s JOIN due d ON d.schedule_id = s.id
WHERE s.rev <> 1 OR d.rev <> 1;

-- count_revisions: the number of revisions of all schedules
SELECT count(*) FROM revisions;

-- revisions: all revisions, with the names of their schedules
SELECT r.schedule_id, r.rev, s.agent, s.name FROM revisions r JOIN schedules s ON s.id = r.schedule_id
ORDER BY r.schedule_id, r.rev;
