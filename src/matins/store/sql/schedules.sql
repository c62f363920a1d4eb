-- Schedules and their revisions.

-- schedules_named(name: str, agent: str | None) -> list[int]: schedules with this name that are not deleted
SELECT id FROM schedules WHERE name = :name AND state <> 'removed' AND (CAST(:agent AS text) IS NULL OR agent = CAST(:agent AS text))
ORDER BY id;

-- schedule(schedule_id: int) -> ScheduleRow | None: one schedule
SELECT s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.id = :schedule_id;

-- schedules(after: int, agent: str | None, limit: int) -> list[ScheduleRow]: a page of schedules by id
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

-- stopped_schedules(limit: int) -> list[int]: schedules that failures, a budget or their own settings stopped
SELECT id FROM schedules WHERE state <> 'active' AND (state = 'broken' OR (state = 'paused' AND paused_by IN ('failures', 'budget')))
ORDER BY updated_at, id LIMIT :limit;

-- ended_pauses(now: int, limit: int) -> list[int]: schedules whose pause has ended
SELECT id FROM schedules WHERE paused_until <= :now AND state = 'paused' ORDER BY paused_until LIMIT :limit;

-- paused_by(by: str) -> list[tuple[int, str, str]]: (id, agent, name) of the schedules that `by` has paused
SELECT id, agent, name FROM schedules WHERE state = 'paused' AND paused_by = :by ORDER BY id;

-- set_paused_until(schedule_id: int, until: int | None) -> None: set the end of a pause
UPDATE schedules SET paused_until = :until WHERE id = :schedule_id;

-- count_agent_schedules(name: str) -> int: the number of schedules that an agent created and that can still run
SELECT count(*) FROM schedules s JOIN due d ON d.schedule_id = s.id
WHERE s.creator_role = 'agent' AND s.created_by = :name AND (s.state IN ('pending', 'paused') OR (s.state = 'active' AND (
  d.next_slot IS NOT NULL OR EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}))));

-- purged_slot(schedule_id: int) -> int | None: the last slot of a schedule whose run is deleted
SELECT purged_slot FROM schedules WHERE id = :schedule_id;

-- last_change: the last event, up to an instant, that started or stopped a schedule
SELECT type, at, data FROM events
WHERE schedule_id = :id AND at <= :at AND type IN ('schedule.created', 'schedule.paused', 'schedule.resumed', 'schedule.broken')
ORDER BY id DESC LIMIT 1;

-- set_pause(schedule_id: int, pause: str) -> None: set the pause of several schedules that a schedule belongs to
UPDATE schedules SET pause_id = :pause WHERE id = :schedule_id AND state = 'paused';

-- paused_in(pause: str | None) -> list[PausedSchedule]: the schedules of a pause, or of all pauses of several schedules
SELECT id, agent, name, pause_id, paused_by, paused_at, paused_until, note FROM schedules
WHERE state = 'paused' AND pause_id IS NOT NULL AND (CAST(:pause AS text) IS NULL OR pause_id = CAST(:pause AS text)) ORDER BY id;

-- last_revision(schedule_id: int) -> int: the highest revision of a schedule
SELECT max(rev) FROM revisions WHERE schedule_id = :schedule_id;

-- set_author(schedule_id: int, rev: int, author: str, role: str, at: int) -> None: set who made a revision, and when
UPDATE revisions SET author = :author, author_role = :role, at = :at WHERE schedule_id = :schedule_id AND rev = :rev;

-- authors(schedule_id: int, rev: int) -> list[tuple[str, str]]: the authors of the changes up to a revision, the last first;
--   empty for the first revision. The owner answers for everything before the owner's revision
SELECT author, author_role FROM revisions WHERE schedule_id = :schedule_id AND rev <= :rev AND author IS NOT NULL AND rev >= (
  SELECT coalesce(max(rev), 0) FROM revisions WHERE schedule_id = :schedule_id AND rev <= :rev AND author_role = 'owner')
ORDER BY rev DESC;

-- history(schedule_id: int, before: int, limit: int) -> list[RevisionRow]: the settings that a schedule has had, the newest
--   first, without those of single runs
SELECT v.rev, v.definition, coalesce(v.author, s.created_by) AS author, coalesce(v.at, s.created_at) AS at,
  coalesce((SELECT f.name FROM former_names f WHERE f.schedule_id = v.schedule_id AND f.rev >= v.rev ORDER BY f.rev LIMIT 1), s.name) AS name
FROM revisions v JOIN schedules s ON s.id = v.schedule_id
WHERE v.schedule_id = :schedule_id AND v.rev < :before AND (v.author IS NOT NULL OR v.rev = 1) ORDER BY v.rev DESC LIMIT :limit;

-- rename_schedule(schedule_id: int, agent: str, name: str, creator: str, now: int) -> None: set the agent and the name of a
--   schedule, and the name of who made it
UPDATE schedules SET agent = :agent, name = :name, updated_at = :now,
  paused_by = CASE WHEN paused_by = created_by THEN :creator ELSE paused_by END, created_by = :creator WHERE id = :schedule_id;

-- keep_name(schedule_id: int, rev: int, agent: str, name: str, creator: str, now: int) -> None: keep what a schedule, and who
--   made it, was called up to a revision
INSERT INTO former_names (schedule_id, rev, agent, name, creator, at) VALUES (:schedule_id, :rev, :agent, :name, :creator, :now);

-- renamed_from(name: str, agent: str | None) -> list[tuple[str, str, int]]: agent and name of the schedules that had this name,
--   and since when they do not, the last first
SELECT s.agent, s.name, f.at FROM former_names f JOIN schedules s ON s.id = f.schedule_id
WHERE f.name = :name AND (s.name <> f.name OR s.agent <> f.agent) AND s.state <> 'removed' AND (CAST(:agent AS text) IS NULL OR f.agent = CAST(:agent AS text))
ORDER BY f.at DESC, f.schedule_id;

-- insert_run_revision(schedule_id: int, rev: int, definition: str) -> None: store settings for one run. The schedule itself
--   does not change
INSERT INTO revisions (schedule_id, rev, definition) VALUES (:schedule_id, :rev, :definition);

-- delete_labels: delete the labels of a schedule
DELETE FROM schedule_labels WHERE schedule_id = :id;

-- schedules_of(agent: str) -> list[int]: the schedules of an agent, also deleted ones
SELECT id FROM schedules WHERE agent = :agent ORDER BY id;
