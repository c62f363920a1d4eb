-- insert_token: add a token
INSERT INTO tokens (id, hash, name, role, rights, created_at, created_by, expires_at)
VALUES (:id, :hash, :name, :role, :rights, :created_at, :created_by, :expires_at);

-- token: one token
SELECT id, hash, name, role, rights, created_at, created_by, expires_at, revoked_at, used_at FROM tokens WHERE id = :id;

-- tokens: all tokens, the oldest first
SELECT id, hash, name, role, rights, created_at, created_by, expires_at, revoked_at, used_at FROM tokens
ORDER BY created_at, id;

-- revoke_token: revoke a token once
UPDATE tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id;

-- touch_token: set when a token was last used
UPDATE tokens SET used_at = :now WHERE id = :id;

-- insert_session: add a link that opens a browser session
INSERT INTO sessions (id, hash, role, name, rights, token, person, created_at, expires_at)
VALUES (:id, :hash, :role, :name, :rights, :token, :person, :created_at, :expires_at);

-- browser_session: a browser session, or the link that opens it, by the hash of its secret
SELECT id, hash, role, name, rights, token, person, created_at, expires_at, opened_at, used_at, ended_at
FROM sessions WHERE hash = :hash;

-- sessions: all browser sessions, the oldest first
SELECT id, hash, role, name, rights, token, person, created_at, expires_at, opened_at, used_at, ended_at
FROM sessions ORDER BY created_at, id;

-- open_session: make a link a session, once
UPDATE sessions SET hash = :secret, opened_at = :now, expires_at = :until
WHERE id = :id AND hash = :code AND opened_at IS NULL AND ended_at IS NULL RETURNING id;

-- touch_session: set when a session was last used, and when it ends
UPDATE sessions SET used_at = :now, expires_at = :until WHERE id = :id AND ended_at IS NULL;

-- end_sessions: end one session, those that came from a token, or those of a person
UPDATE sessions SET ended_at = :now
WHERE ended_at IS NULL AND expires_at > :now
  AND (id = CAST(:id AS text) OR token = CAST(:token AS text) OR person = CAST(:person AS text)) RETURNING id;

-- delete_sessions: delete sessions that are long over
DELETE FROM sessions WHERE expires_at < :before;

-- idempotent_request: a request with a key, and its response
SELECT digest, status, answer AS response, at FROM requests WHERE principal = :principal AND key = :key;

-- begin_request: add a request that is being processed
INSERT INTO requests (principal, key, digest, at) VALUES (:principal, :key, :digest, :now)
ON CONFLICT DO NOTHING RETURNING key;

-- store_response: set the response of a request
UPDATE requests SET status = :status, answer = :answer WHERE principal = :principal AND key = :key;

-- delete_request: delete a request without a response, so that it can be repeated
DELETE FROM requests WHERE principal = :principal AND key = :key;

-- delete_requests: delete old requests
DELETE FROM requests WHERE at < :before;

-- file_entries: the records that the file defines
SELECT kind, name, path, line, digest FROM file_entries ORDER BY kind, name;

-- upsert_file_entry: store an applied record of the file
INSERT INTO file_entries (kind, name, path, line, digest) VALUES (:kind, :name, :path, :line, :digest)
ON CONFLICT (kind, name) DO UPDATE SET path = excluded.path, line = excluded.line, digest = excluded.digest;

-- delete_file_entry: delete a record that the file no longer defines
DELETE FROM file_entries WHERE kind = :kind AND name = :name;

-- recent_runs: runs of all schedules, or of one agent's, the newest first
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.id < :before AND r.step = 0 AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text)) ORDER BY r.id DESC LIMIT :limit;

-- upcoming: the schedules that fire next, the soonest first
SELECT schedule_id FROM due WHERE due_at IS NOT NULL ORDER BY due_at LIMIT :limit;

-- stopped_schedules: schedules that failures, a budget or their own settings stopped
SELECT id FROM schedules WHERE state <> 'active' AND (state = 'broken' OR (state = 'paused' AND paused_by IN ('failures', 'budget')))
ORDER BY updated_at, id LIMIT :limit;

-- events_before: a page of events, the newest first
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- worker_of: the worker that started an attempt
SELECT w.identity FROM attempts a JOIN workers w ON w.id = a.owner WHERE a.run_id = :run_id AND a.epoch = :epoch;

