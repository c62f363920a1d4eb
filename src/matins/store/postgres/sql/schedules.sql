-- definitions: the definitions of schedules at a revision
SELECT s.id AS schedule_id, v.rev, s.name, s.agent, v.definition, s.uid,
  CASE WHEN s.creator_role = 'agent' THEN s.created_by END AS creator,
  (SELECT f.name FROM former_names f WHERE f.schedule_id = v.schedule_id AND f.rev >= v.rev ORDER BY f.rev LIMIT 1) AS signed,
  (SELECT f.agent FROM former_names f WHERE f.schedule_id = v.schedule_id AND f.rev >= v.rev ORDER BY f.rev LIMIT 1) AS signed_agent
FROM unnest(%(ids)b, %(revs)b) u (id, rev)
JOIN revisions v ON v.schedule_id = u.id AND v.rev = u.rev JOIN schedules s ON s.id = v.schedule_id;

-- taken_names: the first of these (agent, name) that exists
SELECT s.name FROM unnest(%(agents)b, %(names)b) u (agent, name) JOIN schedules s ON s.name = u.name AND s.agent = u.agent
WHERE s.state <> 'removed' LIMIT 1;

-- schedule_ids: ids for new schedules
SELECT nextval('schedule_ids') FROM generate_series(1, %(count)b);

-- insert_schedules: add schedules, their definitions and their cursors
WITH u AS MATERIALIZED (
  SELECT * FROM unnest(%(id)b, %(agent)b, %(name)b, %(definition)b, %(next_slot)b, %(due_at)b, %(state)b, %(created_by)b,
      %(creator_role)b, %(creator_run)b, %(parent)b, %(depth)b)
    u (id, agent, name, definition, slot, due_at, state, created_by, creator_role, creator_run, parent, depth)),
s AS (INSERT INTO schedules (id, agent, name, state, rev, created_at, updated_at, created_by, creator_role, creator_run,
    parent, depth)
  SELECT id, agent, name, state, 1, %(now)b, %(now)b, created_by, creator_role, creator_run, parent, depth FROM u),
v AS (INSERT INTO revisions (schedule_id, rev, definition) SELECT id, 1, definition FROM u)
INSERT INTO due (schedule_id, next_slot, due_at, rev, paused) SELECT id, slot, due_at, 1, state <> 'active' FROM u;

-- schedules_with(schedule_ids: Iterable[int]) -> list[ScheduleRow]: schedules by their ids
SELECT s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.id = ANY(%(schedule_ids)b);

-- insert_labels: add labels of schedules
INSERT INTO schedule_labels (key, value, schedule_id) SELECT * FROM unnest(%(key)b, %(value)b, %(schedule_id)b);
