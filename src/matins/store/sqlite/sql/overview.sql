-- records_of(schedule_ids: Iterable[int], low: int, high: int, since: int, until: int) -> list[RecordSpan]: the records of
--   these schedules in a range of ids that lie in a window, the newest first
SELECT r.id, r.schedule_id, s.name, s.agent, r.rev, r.state, r.slot, r.slots, coalesce(r.started_at, r.slot, r.planned_at) AS begins,
  r.reason, r.not_before, r.started_at, r.ended_at
FROM runs r CROSS JOIN schedules s ON s.id = r.schedule_id
WHERE r.id >= :low AND r.id < :high AND r.step = 0 AND r.schedule_id IN (SELECT value FROM json_each(:schedule_ids))
  AND coalesce(r.started_at, r.slot, r.planned_at) < :until
  AND CASE WHEN r.started_at IS NULL THEN coalesce(r.slot, r.planned_at) ELSE coalesce(r.ended_at, :until) END >= :since
ORDER BY r.id DESC;

-- last_records(schedule_ids: Iterable[int], limit: int) -> list[RecentRecord]: the last records of each schedule, the newest
--   first
-- The index on slots finds them; manual runs have no slot.
SELECT r.schedule_id, r.id, r.state, r.slot, r.slots, r.attempt, r.planned_at, r.started_at, r.ended_at, r.reason
FROM json_each(:schedule_ids) j CROSS JOIN runs r ON r.id IN (SELECT id FROM (
  SELECT id FROM (SELECT id FROM runs WHERE schedule_id = j.value AND step = 0 AND slot IS NOT NULL ORDER BY slot DESC LIMIT :limit)
  UNION ALL SELECT id FROM (SELECT id FROM runs WHERE schedule_id = j.value AND step = 0 AND slot IS NULL ORDER BY id DESC LIMIT :limit)
) newest ORDER BY id DESC LIMIT :limit)
ORDER BY r.schedule_id, r.id DESC;

-- spent_by(run_ids: Iterable[int]) -> list[RunCost]: what these runs have spent so far, each with its steps
SELECT j.value AS run_id, CAST(sum(p.money) AS bigint) AS money, CAST(sum(p.tokens) AS bigint) AS tokens
FROM json_each(:run_ids) j JOIN spend p ON p.run_id = j.value OR p.run_id IN (SELECT id FROM runs WHERE parent = j.value)
GROUP BY j.value;

-- run_places(run_ids: Iterable[int]) -> list[RunPlace]: the agents of runs, the processes that run them, and those that
--   started their present attempts
SELECT r.id, s.agent, w.identity AS worker, b.identity AS starter FROM json_each(:run_ids) j JOIN runs r ON r.id = j.value
JOIN schedules s ON s.id = r.schedule_id LEFT JOIN workers w ON w.id = r.owner
LEFT JOIN attempts a ON a.run_id = r.id AND a.epoch = r.epoch LEFT JOIN workers b ON b.id = a.owner;
