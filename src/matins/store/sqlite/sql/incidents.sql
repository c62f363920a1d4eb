-- open_incidents(schedule_ids: Iterable[int]) -> list[IncidentRow]: incidents of these schedules that are not resolved, the
--   oldest first
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE schedule_id IN (SELECT value FROM json_each(:schedule_ids)) AND resolved_at IS NULL ORDER BY id;

-- incident_events(after: int, upto: int, types: Iterable[str]) -> list[StoredEvent]: events of these types, and
--   the successes, and what never ran, of schedules that have an incident, in order
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > :after AND id <= :upto AND (
  type IN (SELECT value FROM json_each(:types)) OR (type IN ('run.succeeded', 'run.skipped', 'run.blocked', 'run.denied', 'run.expired') AND schedule_id IN (
    SELECT schedule_id FROM incidents WHERE resolved_at IS NULL
    UNION ALL SELECT schedule_id FROM events
    WHERE id > :after AND id <= :upto AND type IN (SELECT value FROM json_each(:types)))))
ORDER BY id;

-- opened_since(schedule_ids: Iterable[int], since: int) -> list[tuple[int, str, int]]: by schedule and kind, the number of
--   incidents that were opened since an instant, and told
SELECT schedule_id, kind, count(*) FROM incidents
WHERE schedule_id IN (SELECT value FROM json_each(:schedule_ids)) AND opened_at > :since AND told > 0 GROUP BY schedule_id, kind;

-- incident_ids(count: int) -> list[int]: ids for new incidents
WITH RECURSIVE new (id) AS (
  SELECT coalesce(max(id), 0) + 1 FROM incidents UNION ALL SELECT id + 1 FROM new LIMIT :count)
SELECT id FROM new;

-- insert_incident: add an incident
INSERT INTO incidents (id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told,
  told_times, next_at, acknowledged_at, acknowledged_by, resolved_at, resolution)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- update_incident: replace what changes in an incident
UPDATE incidents SET summary = ?5, quote = ?6, error = ?7, run_id = ?8, times = ?9, details = ?10, last_at = ?12, told = ?13,
  told_times = ?14, next_at = ?15, acknowledged_at = ?16, acknowledged_by = ?17, resolved_at = ?18, resolution = ?19
WHERE id = ?1;

-- insert_notice: note a message that is sent now, or held for the digest of an instant
INSERT INTO notices (destination, at, title, held_until) VALUES (?, ?, ?, ?);
