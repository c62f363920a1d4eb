-- Incidents, and the messages about them.

-- incident_window(after: int, upto: int, count: int) -> int: the id up to which there are at most `count` events. Ids have
--   gaps, in PostgreSQL wide ones
SELECT coalesce((SELECT id FROM events WHERE id > :after AND id <= :upto ORDER BY id LIMIT 1 OFFSET :count - 1), :upto);

-- incident(incident_id: int) -> IncidentRow | None: one incident
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE id = :incident_id;

-- unresolved_incidents(schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]: a page of incidents that are
--   not resolved, the newest first; of all schedules, or of one
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE resolved_at IS NULL AND id < :before AND (CAST(:schedule_id AS bigint) IS NULL OR schedule_id = :schedule_id)
ORDER BY id DESC LIMIT :limit;

-- incidents(schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]: a page of all incidents, the newest
--   first
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE id < :before AND (CAST(:schedule_id AS bigint) IS NULL OR schedule_id = :schedule_id) ORDER BY id DESC LIMIT :limit;

-- due_incidents(now: int, limit: int) -> list[IncidentRow]: incidents that are looked at again now, the longest due first
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE next_at <= :now ORDER BY next_at, id LIMIT :limit;

-- next_notice() -> int | None: when an incident is looked at again, or a digest is due
SELECT min(at) FROM (
  SELECT (SELECT min(next_at) FROM incidents WHERE next_at IS NOT NULL) AS at
  UNION ALL SELECT (SELECT min(held_until) FROM notices WHERE held_until IS NOT NULL)) moments;

-- prune_incidents: delete incidents that were resolved long ago
DELETE FROM incidents WHERE resolved_at < :before;

-- sent_since(destination: str, since: int) -> int: the number of messages that were sent to a destination since an instant
SELECT count(*) FROM notices WHERE destination = :destination AND at > :since AND held_until IS NULL;

-- held_notices: messages whose digest is due, the oldest first
SELECT id, destination, at, title FROM notices WHERE held_until <= :now ORDER BY id;

-- delete_held: delete messages that a digest told
DELETE FROM notices WHERE held_until <= :now;

-- prune_notices: forget messages that were sent long ago
DELETE FROM notices WHERE held_until IS NULL AND at < :before;
