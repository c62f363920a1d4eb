-- Pages of schedules and runs that match a filter.

-- schedule_columns: part: what is read of schedules `s` with their revisions `v` and cursors `d`
s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs;

-- needs_attention: part: schedules that a person should look at
(s.state IN ('broken', 'pending') OR s.paused_by IN ('failures', 'budget') OR d.failures > 0 OR s.id IN (
  SELECT schedule_id FROM runs WHERE state {live} AND (state = {held} OR reason = 'awaiting_approval')));

-- of_tab: part: schedules of a tab of the list
(:tab = 'all' OR (:tab = 'active' AND s.state = 'active') OR (:tab = 'paused' AND s.state = 'paused')
  OR (:tab = 'agents' AND s.creator_role = 'agent') OR (:tab = 'attention' AND {{needs_attention}}));

-- listed: part: schedules of a filter; the conditions of its selector are put in
(s.state = 'removed') = CAST(:deleted AS boolean) /* selected */ AND {{of_tab}};

-- listed_created: a page of schedules that match a filter, the oldest first
SELECT {{schedule_columns}}
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.id > :after AND {{listed}} ORDER BY s.id LIMIT :limit;

-- listed_name: the same, by name
SELECT {{schedule_columns}}
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE (:after = 0 OR (s.name, s.agent) > (SELECT name, agent FROM schedules WHERE id = :after)) AND {{listed}}
ORDER BY s.name, s.agent LIMIT :limit;

-- listed_next: the same, those that fire soonest first
SELECT {{schedule_columns}}
FROM due d JOIN schedules s ON s.id = d.schedule_id JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev
WHERE d.due_at IS NOT NULL AND (:after = 0 OR (d.due_at, d.schedule_id) > (SELECT due_at, schedule_id FROM due WHERE schedule_id = :after))
  AND {{listed}} ORDER BY d.due_at, d.schedule_id LIMIT :limit;

-- listed_never: the same, those that have no next slot
SELECT {{schedule_columns}}
FROM due d JOIN schedules s ON s.id = d.schedule_id JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev
WHERE d.due_at IS NULL AND s.id > :after AND {{listed}} ORDER BY s.id LIMIT :limit;

-- schedules_called(name: str, agent: str | None) -> list[ScheduleRow]: the schedules of this name that are not deleted, of
--   one agent or of any
SELECT {{schedule_columns}}
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.name = :name AND s.state <> 'removed' AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text)) ORDER BY s.id;

-- deleted_called(name: str, agent: str | None) -> list[ScheduleRow]: deleted schedules of this name, the last deleted first
SELECT {{schedule_columns}}
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.name = :name AND s.state = 'removed' AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text))
ORDER BY s.updated_at DESC, s.id DESC;

-- fires_next: whether a schedule has a next slot
SELECT 1 FROM due WHERE schedule_id = :id AND due_at IS NOT NULL;

-- tab_counts: the number of schedules in each tab of the list
SELECT count(*) AS "all", count(*) FILTER (WHERE s.state = 'active') AS active,
  count(*) FILTER (WHERE {{needs_attention}}) AS attention, count(*) FILTER (WHERE s.state = 'paused') AS paused,
  count(*) FILTER (WHERE s.creator_role = 'agent') AS agents
FROM schedules s JOIN due d ON d.schedule_id = s.id
WHERE s.state <> 'removed' /* selected */;

-- run_columns: part: what is read of runs `r` with their schedules `s`
r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill;

-- listed_run: part: runs of a filter
r.id >= :low AND r.id < :before AND r.step = 0
  AND (CAST(:states AS bigint) IS NULL OR (CAST(:states AS bigint) >> CAST(r.state AS integer)) & 1 = 1)
  AND (CAST(:reason AS text) IS NULL OR r.reason = CAST(:reason AS text))
  AND (CAST(:min_duration AS bigint) IS NULL OR r.ended_at - r.started_at >= CAST(:min_duration AS bigint)
    OR (r.ended_at IS NULL AND r.started_at <= CAST(:started_before AS bigint)))
  AND (CAST(:min_cost AS bigint) IS NULL OR {{run_cost}} >= CAST(:min_cost AS bigint)) /* of selected */;

-- run_cost: part: what a run has spent so far, with its steps
coalesce((SELECT p.money FROM spend p WHERE p.run_id = r.id), 0)
  + coalesce((SELECT sum(p.money) FROM runs t JOIN spend p ON p.run_id = t.id WHERE t.parent = r.id), 0);

-- may_read: part: runs of schedules `s` whose content a reader may know, and that a filter is about
(CAST(:schedule_id AS bigint) IS NULL OR r.schedule_id = CAST(:schedule_id AS bigint))
  AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text))
  AND (CAST(:reader AS text) IS NULL OR s.agent = CAST(:reader AS text)
    OR (s.creator_role = 'agent' AND s.created_by = 'agent:' || CAST(:reader AS text)));

-- listed_runs: a page of runs that match a filter, the newest first
SELECT {{run_columns}} FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE {{listed_run}} AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text)) ORDER BY r.id DESC LIMIT :limit;

-- listed_runs_of: the same, of one schedule
SELECT {{run_columns}} FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.schedule_id = :schedule_id AND {{listed_run}} ORDER BY r.id DESC LIMIT :limit;
