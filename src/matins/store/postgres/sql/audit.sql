-- bound_runs(ids: Iterable[int]) -> list[BoundRun]: what the log knows of runs
SELECT id, schedule_id, rev, slot, first_slot, slots, state, epoch, attempt, planned_at, started_at, ended_at, parent, step,
  CASE WHEN owner IS NULL AND started_at IS NOT NULL THEN EXISTS (SELECT 1 FROM runs s WHERE s.parent = r.id)::int ELSE 0 END AS unfolded,
  reason, evidence, outcome
FROM runs r WHERE id = ANY(%(ids)b);

-- bound_revisions(schedule_ids: Iterable[int]) -> list[BoundRevision]: all revisions of these schedules
SELECT r.schedule_id, r.rev, coalesce((SELECT f.agent FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.agent) AS agent,
  coalesce((SELECT f.name FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.name) AS name,
  coalesce((SELECT f.creator FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.created_by) AS created_by,
  s.creator_role, s.creator_run, s.parent, s.depth, r.author,
  r.author_role, r.definition
FROM revisions r JOIN schedules s ON s.id = r.schedule_id WHERE r.schedule_id = ANY(%(schedule_ids)b);

-- bound_attempts(ids: Iterable[int]) -> list[AttemptRow]: all attempts of these runs
SELECT run_id, epoch, owner, started_at FROM attempts WHERE run_id = ANY(%(ids)b);

-- unplanned_runs: runs whose beginning is not in the log
SELECT id FROM runs WHERE planned_at >= %(since)b
EXCEPT SELECT run_id FROM events WHERE type = ANY(%(types)b) AND (data::jsonb ? 'slot' OR data::jsonb ? 'of') ORDER BY 1 LIMIT 10;

-- unlogged_attempts(since: int, types: Iterable[str]) -> list[tuple[int, int]]: run and epoch of attempts that started since
--   an instant without an event of these types; a few of them
SELECT run_id, epoch FROM attempts WHERE started_at >= %(since)b
EXCEPT SELECT run_id, coalesce((data::json ->> 'epoch')::bigint, 1) FROM events WHERE type = ANY(%(types)b) ORDER BY 1, 2 LIMIT 10;

-- unlogged_runs: runs whose end is not in the log
SELECT id FROM runs WHERE state {ended} AND ended_at >= %(since)b
EXCEPT SELECT run_id FROM events WHERE type = ANY(%(types)b) ORDER BY 1 LIMIT 10;

-- unlogged_approvals(since: int) -> list[int]: requests that are not in the log
SELECT id FROM approvals WHERE requested_at >= %(since)b EXCEPT
SELECT (data::json ->> 'approval')::bigint FROM events WHERE type IN ('approval.requested', 'approval.edited') ORDER BY 1 LIMIT 10;

-- unlogged_votes(since: int) -> list[tuple[int, str]]: votes that are not in the log
SELECT approval_id, voter FROM votes WHERE at >= %(since)b EXCEPT
SELECT (data::json ->> 'approval')::bigint, data::json ->> 'who' FROM events WHERE type = 'approval.voted' ORDER BY 1, 2 LIMIT 10;
