-- What the log must agree with.

-- count_bound: how many runs were created and ended since an instant, and how many attempts started
SELECT count(*) FILTER (WHERE planned_at >= :since), count(*) FILTER (WHERE state {ended} AND ended_at >= :since),
  (SELECT count(*) FROM attempts WHERE started_at >= :since) FROM runs;

-- bound_revision(schedule_id: int, rev: int) -> BoundRevision: one revision, for its digest
SELECT r.schedule_id, r.rev, coalesce((SELECT f.agent FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.agent) AS agent,
  coalesce((SELECT f.name FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.name) AS name,
  coalesce((SELECT f.creator FROM former_names f WHERE f.schedule_id = r.schedule_id AND f.rev >= r.rev ORDER BY f.rev LIMIT 1), s.created_by) AS created_by,
  s.creator_role, s.creator_run, s.parent, s.depth, r.author,
  r.author_role, r.definition
FROM revisions r JOIN schedules s ON s.id = r.schedule_id WHERE r.schedule_id = :schedule_id AND r.rev = :rev;

-- current_revisions() -> list[CurrentRevision]: schedules that were revised, and the revisions that they and their cursors
--   have
SELECT s.id AS schedule_id, s.agent, s.name, s.rev, d.rev AS cursor_rev FROM schedules s JOIN due d ON d.schedule_id = s.id
WHERE s.rev <> 1 OR d.rev <> 1;

-- count_revisions() -> int: the number of revisions of all schedules
SELECT count(*) FROM revisions;

-- revisions() -> list[tuple[int, int, str, str]]: schedule, revision, agent and name of all revisions
SELECT r.schedule_id, r.rev, s.agent, s.name FROM revisions r JOIN schedules s ON s.id = r.schedule_id
ORDER BY r.schedule_id, r.rev;
