-- open_incidents(schedule_ids: Iterable[int]) -> list[IncidentRow]: incidents of these schedules that are not resolved, the
--   oldest first
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE schedule_id IN (SELECT value FROM json_each(:schedule_ids)) AND resolved_at IS NULL ORDER BY id;

-- incident_events(after: int, upto: int, types: Iterable[str], limit: int) -> list[StoredEvent]: events of these types, and
--   the successes of schedules that have an incident, in order
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > :after AND id <= :upto AND (
  type IN (SELECT value FROM json_each(:types)) OR (type = 'run.succeeded' AND schedule_id IN (
    SELECT schedule_id FROM incidents WHERE resolved_at IS NULL
    UNION ALL SELECT schedule_id FROM events
    WHERE id > :after AND id <= :upto AND type IN (SELECT value FROM json_each(:types)))))
ORDER BY id LIMIT :limit;
