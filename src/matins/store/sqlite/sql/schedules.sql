-- definitions: the definitions of schedules at a revision
SELECT s.id AS schedule_id, v.rev, s.name, s.agent, v.definition, s.uid,
  CASE WHEN s.creator_role = 'agent' THEN s.created_by END AS creator,
  (SELECT f.name FROM former_names f WHERE f.schedule_id = v.schedule_id AND f.rev >= v.rev ORDER BY f.rev LIMIT 1) AS signed,
  (SELECT f.agent FROM former_names f WHERE f.schedule_id = v.schedule_id AND f.rev >= v.rev ORDER BY f.rev LIMIT 1) AS signed_agent
FROM json_each(:keys) j JOIN revisions v ON v.schedule_id = j.value ->> 0 AND v.rev = j.value ->> 1
JOIN schedules s ON s.id = v.schedule_id;

-- last_schedule: the newest schedule id
SELECT max(id) FROM schedules;

-- taken_names: the first of these (agent, name) that exists
SELECT s.name FROM json_each(:names) j JOIN schedules s ON s.name = j.value ->> 1 AND s.agent = j.value ->> 0
WHERE s.state <> 'removed' LIMIT 1;

-- insert_schedule: add a schedule
INSERT INTO schedules (id, agent, name, state, rev, created_at, updated_at, created_by, creator_role, creator_run, parent, depth)
VALUES (?1, ?2, ?3, ?5, 1, ?4, ?4, ?6, ?7, ?8, ?9, ?10);

-- insert_revision: add a definition
INSERT INTO revisions (schedule_id, rev, definition) VALUES (?, ?, ?);

-- schedules_with(schedule_ids: Iterable[int]) -> list[ScheduleRow]: schedules by their ids
SELECT s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs
FROM json_each(:schedule_ids) j JOIN schedules s ON s.id = j.value
JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id;

-- insert_label: add a label of a schedule
INSERT INTO schedule_labels (key, value, schedule_id) VALUES (?, ?, ?);
