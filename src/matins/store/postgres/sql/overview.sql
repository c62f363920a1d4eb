-- records_of(schedule_ids: Iterable[int], low: int, high: int, since: int, until: int) -> list[RecordSpan]: the records of
--   these schedules in a range of ids that lie in a window, the newest first
SELECT r.id, r.schedule_id, s.name, s.agent, r.rev, r.state, r.slot, r.slots, coalesce(r.started_at, r.slot, r.planned_at) AS begins,
  r.reason, r.not_before, r.started_at, r.ended_at
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.id >= %(low)b AND r.id < %(high)b AND r.step = 0 AND r.schedule_id = ANY(%(schedule_ids)b)
  AND coalesce(r.started_at, r.slot, r.planned_at) < %(until)b
  AND CASE WHEN r.started_at IS NULL THEN coalesce(r.slot, r.planned_at) ELSE coalesce(r.ended_at, %(until)b) END >= %(since)b
ORDER BY r.id DESC;

-- last_records(schedule_ids: Iterable[int], limit: int) -> list[RecentRecord]: the last records of each schedule, the newest
--   first
SELECT r.schedule_id, r.id, r.state, r.slot, r.slots, r.attempt, r.planned_at, r.started_at, r.ended_at, r.reason
FROM unnest(%(schedule_ids)b) j (id) CROSS JOIN LATERAL (
  SELECT schedule_id, id, state, slot, slots, attempt, planned_at, started_at, ended_at, reason FROM runs
  WHERE schedule_id = j.id AND step = 0 ORDER BY id DESC LIMIT %(limit)b) r
ORDER BY r.schedule_id, r.id DESC;

-- spent_by(run_ids: Iterable[int]) -> list[RunCost]: what these runs have spent so far, each with its steps
SELECT j.id AS run_id, CAST(sum(p.money) AS bigint) AS money, CAST(sum(p.tokens) AS bigint) AS tokens
FROM unnest(%(run_ids)b) j (id) CROSS JOIN LATERAL (
  SELECT money, tokens FROM spend WHERE run_id = j.id
  UNION ALL SELECT money, tokens FROM spend WHERE run_id IN (SELECT id FROM runs WHERE parent = j.id)) p
GROUP BY j.id;

-- run_places(run_ids: Iterable[int]) -> list[RunPlace]: the agents of runs, the processes that run them, and those that
--   started their present attempts
SELECT r.id, s.agent, w.identity AS worker, b.identity AS starter FROM runs r JOIN schedules s ON s.id = r.schedule_id
LEFT JOIN workers w ON w.id = r.owner LEFT JOIN attempts a ON a.run_id = r.id AND a.epoch = r.epoch
LEFT JOIN workers b ON b.id = a.owner WHERE r.id = ANY(%(run_ids)b);
