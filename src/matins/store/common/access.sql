-- insert_token: a new key
INSERT INTO tokens (id, hash, name, role, rights, created_at, created_by, expires_at)
VALUES (:id, :hash, :name, :role, :rights, :created_at, :created_by, :expires_at);

-- token: one key
SELECT id, hash, name, role, rights, created_at, created_by, expires_at, revoked_at, used_at FROM tokens WHERE id = :id;

-- tokens: every key, the oldest first
SELECT id, hash, name, role, rights, created_at, created_by, expires_at, revoked_at, used_at FROM tokens
ORDER BY created_at, id;

-- revoke_token: it opens nothing any more
UPDATE tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id;

-- touch_token: when it was last used
UPDATE tokens SET used_at = :now WHERE id = :id;

-- idempotent_request: what was answered to a request with a key
SELECT digest, status, answer AS response, at FROM requests WHERE principal = :principal AND key = :key;

-- begin_request: somebody answers it
INSERT INTO requests (principal, key, digest, at) VALUES (:principal, :key, :digest, :now)
ON CONFLICT DO NOTHING RETURNING key;

-- store_response: what was answered
UPDATE requests SET status = :status, answer = :answer WHERE principal = :principal AND key = :key;

-- delete_request: it was not answered, and may come again
DELETE FROM requests WHERE principal = :principal AND key = :key;

-- delete_requests: those of long ago
DELETE FROM requests WHERE at < :before;

-- file_entries: what a file defines
SELECT kind, name, path, line, digest FROM file_entries ORDER BY kind, name;

-- upsert_file_entry: as it was applied
INSERT INTO file_entries (kind, name, path, line, digest) VALUES (:kind, :name, :path, :line, :digest)
ON CONFLICT (kind, name) DO UPDATE SET path = excluded.path, line = excluded.line, digest = excluded.digest;

-- delete_file_entry: it is nobody's any more
DELETE FROM file_entries WHERE kind = :kind AND name = :name;

-- recent_runs: runs of all schedules, or of an agent's, the newest first
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.id < :before AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text)) ORDER BY r.id DESC LIMIT :limit;

-- upcoming: the schedules that fire next, the soonest first
SELECT schedule_id FROM due WHERE due_at IS NOT NULL ORDER BY due_at LIMIT :limit;

-- events_before: a page of events, the newest first
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- worker_of: who began an attempt
SELECT w.identity FROM attempts a JOIN workers w ON w.id = a.owner WHERE a.run_id = :run_id AND a.epoch = :epoch;

