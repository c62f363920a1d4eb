-- bound_runs(ids: Iterable[int]) -> list[BoundRun]: what the log knows of runs
SELECT id, schedule_id, rev, slot, first_slot, slots, state, epoch, attempt, planned_at, started_at, ended_at, parent, step,
  CASE WHEN owner IS NULL AND started_at IS NOT NULL THEN EXISTS (SELECT 1 FROM runs s WHERE s.parent = r.id) ELSE 0 END AS unfolded,
  reason, evidence, outcome
FROM runs r WHERE id IN (SELECT value FROM json_each(:ids));

-- bound_revisions(schedule_ids: Iterable[int]) -> list[BoundRevision]: all revisions of these schedules
SELECT r.schedule_id, r.rev, coalesce((SELECT f.agent FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.agent) AS agent,
  coalesce((SELECT f.name FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.name) AS name,
  coalesce((SELECT f.creator FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.created_by) AS created_by,
  s.creator_role, s.creator_run, s.parent, s.depth, r.author,
  r.author_role, r.definition
FROM revisions r JOIN schedules s ON s.id = r.schedule_id WHERE r.schedule_id IN (SELECT value FROM json_each(:schedule_ids));

-- bound_attempts(ids: Iterable[int]) -> list[AttemptRow]: all attempts of these runs
SELECT run_id, epoch, owner, started_at FROM attempts WHERE run_id IN (SELECT value FROM json_each(:ids));

-- unplanned_runs: runs whose beginning is not in the log
SELECT id FROM runs WHERE planned_at >= :since
EXCEPT SELECT run_id FROM events WHERE type IN (SELECT value FROM json_each(:types)) AND (data -> '$.slot' IS NOT NULL OR data -> '$.of' IS NOT NULL) ORDER BY 1 LIMIT 10;

-- unlogged_attempts(since: int, types: Iterable[str]) -> list[tuple[int, int]]: run and epoch of attempts that started since
--   an instant without an event of these types; a few of them
SELECT run_id, epoch FROM attempts WHERE started_at >= :since
EXCEPT SELECT run_id, coalesce(data ->> '$.epoch', 1) FROM events WHERE type IN (SELECT value FROM json_each(:types)) ORDER BY 1, 2 LIMIT 10;

-- unlogged_runs: runs whose end is not in the log
SELECT id FROM runs WHERE state {ended} AND ended_at >= :since
EXCEPT SELECT run_id FROM events WHERE type IN (SELECT value FROM json_each(:types)) ORDER BY 1 LIMIT 10;

-- unlogged_approvals(since: int) -> list[int]: requests that are not in the log
SELECT id FROM approvals WHERE requested_at >= :since EXCEPT
SELECT CAST(data ->> '$.approval' AS INTEGER) FROM events WHERE type IN ('approval.requested', 'approval.edited') ORDER BY 1 LIMIT 10;

-- unlogged_votes(since: int) -> list[tuple[int, str]]: votes that are not in the log
SELECT approval_id, voter FROM votes WHERE at >= :since EXCEPT
SELECT CAST(data ->> '$.approval' AS INTEGER), data ->> '$.who' FROM events WHERE type = 'approval.voted' ORDER BY 1, 2 LIMIT 10;
