-- due_oldest: due schedules, the longest waiting first
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE due_at <= :now ORDER BY due_at LIMIT :limit /* lock free */;

-- due_newest: the same, the latest first, so that a backlog does not delay schedules that are on time
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE due_at <= :now ORDER BY due_at DESC LIMIT :limit /* lock free */;

-- next_due: the instant of the next due schedule
SELECT min(due_at) FROM due WHERE due_at IS NOT NULL;

-- cursors: a page of cursors that have a slot
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE schedule_id > :after AND due_at IS NOT NULL ORDER BY schedule_id LIMIT :limit /* lock */;

-- schedules_named: schedules with this name that are not deleted
SELECT id FROM schedules WHERE name = :name AND state <> 'removed' AND (CAST(:agent AS text) IS NULL OR agent = CAST(:agent AS text))
ORDER BY id;

-- schedule: one schedule
SELECT s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.id = :id;

-- schedules: a page of schedules by id
SELECT s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.id > :after AND s.state <> 'removed' AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text))
ORDER BY s.id LIMIT :limit;

-- edit_schedule: set the next revision
UPDATE schedules SET rev = :rev, updated_at = :now WHERE id = :id;

-- set_schedule_state: set the state (paused, active, broken or removed) and its reason
UPDATE schedules SET state = :state, note = :note, paused_by = :by, paused_at = :at, updated_at = :now,
  paused_until = NULL, pause_id = NULL
WHERE id = :id;

-- replace_cursor: set the next slot of a schedule after an edit, a pause or a clock change
UPDATE due SET next_slot = :slot, due_at = :due_at, rev = :rev, paused = :paused, waiting = :waiting,
  failed_at = CASE WHEN rev = :rev AND paused = :paused THEN failed_at END -- an edit, a pause or its end is a new start
WHERE schedule_id = :id;

-- zone_versions: the data of time zones from which slots were computed, those of the last start first
SELECT name, digest, data, used_at, moved_at, moved FROM zone_versions ORDER BY name, used_at DESC, digest;

-- lock_zone: the same of one zone, locked
SELECT name, digest, data, used_at, moved_at, moved FROM zone_versions WHERE name = :name ORDER BY used_at DESC, digest /* lock */;

-- note_zone: data from which slots are computed
INSERT INTO zone_versions (name, digest, data, used_at) VALUES (:name, :digest, :data, 0) ON CONFLICT DO NOTHING;

-- use_zone: data with which an engine starts
INSERT INTO zone_versions (name, digest, data, used_at) VALUES (:name, :digest, :data, :now)
ON CONFLICT (name, digest) DO UPDATE SET used_at = excluded.used_at;

-- note_moves: slots moved to those of these data
UPDATE zone_versions SET moved_at = :now, moved = :count WHERE name = :name AND digest = :digest;

-- last_move: the last event since an instant that moved the next slot of a schedule to other data of its zone
SELECT type, at, data FROM events
WHERE schedule_id = :id AND at >= :since AND type = 'schedule.replanned' AND data LIKE :like ORDER BY id DESC LIMIT 1;

-- forget_zone: other data of a zone, unless a worker that started before they were last used may still use them
DELETE FROM zone_versions AS z WHERE name = :name AND digest <> :digest AND NOT EXISTS (
  SELECT 1 FROM workers w WHERE w.stopped_at IS NULL AND w.id <> :worker AND (z.used_at = 0 OR w.started_at <= z.used_at));
