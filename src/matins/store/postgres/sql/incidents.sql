-- open_incidents(schedule_ids: Iterable[int]) -> list[IncidentRow]: incidents of these schedules that are not resolved, the
--   oldest first
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE schedule_id = ANY(%(schedule_ids)b) AND resolved_at IS NULL ORDER BY id;

-- incident_events(after: int, upto: int, types: Iterable[str]) -> list[StoredEvent]: events of these types, and
--   the successes, and what never ran, of schedules that have an incident, in order
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > %(after)b AND id <= %(upto)b AND (
  type = ANY(%(types)b) OR (type IN ('run.succeeded', 'run.skipped', 'run.blocked', 'run.denied', 'run.expired') AND schedule_id IN (
    SELECT schedule_id FROM incidents WHERE resolved_at IS NULL
    UNION ALL SELECT schedule_id FROM events WHERE id > %(after)b AND id <= %(upto)b AND type = ANY(%(types)b))))
ORDER BY id;

-- opened_since(schedule_ids: Iterable[int], since: int) -> list[tuple[int, str, int]]: by schedule and kind, the number of
--   incidents that were opened since an instant, and told
SELECT schedule_id, kind, count(*) FROM incidents
WHERE schedule_id = ANY(%(schedule_ids)b) AND opened_at > %(since)b AND told > 0 GROUP BY schedule_id, kind;

-- incident_ids(count: int) -> list[int]: ids for new incidents
SELECT nextval('incidents_id_seq') FROM generate_series(1, %(count)b);

-- copy_incidents: add incidents
COPY incidents (id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told,
  told_times, next_at, acknowledged_at, acknowledged_by, resolved_at, resolution) FROM STDIN (FORMAT binary);

-- update_incidents: replace what changes in incidents
UPDATE incidents i SET summary = u.summary, quote = u.quote, error = u.error, run_id = u.run_id, times = u.times,
  details = u.details, last_at = u.last_at, told = u.told, told_times = u.told_times, next_at = u.next_at,
  acknowledged_at = u.acknowledged_at, acknowledged_by = u.acknowledged_by, resolved_at = u.resolved_at, resolution = u.resolution
FROM unnest(%(id)b, %(summary)b, %(quote)b, %(error)b, %(run_id)b, %(times)b, %(details)b, %(last_at)b, %(told)b, %(told_times)b,
  %(next_at)b, %(acknowledged_at)b, %(acknowledged_by)b, %(resolved_at)b, %(resolution)b) u (id, summary, quote, error, run_id,
  times, details, last_at, told, told_times, next_at, acknowledged_at, acknowledged_by, resolved_at, resolution)
WHERE i.id = u.id;

-- copy_notices: note messages that are sent now, or held for the digest of an instant
COPY notices (destination, at, title, held_until) FROM STDIN (FORMAT binary);
