-- next_ready: the instant at which the next ready run of these places may start
SELECT min((SELECT not_before FROM runs WHERE state = {ready} AND place = p.value
  AND (scope IS NULL OR scope NOT IN (SELECT value FROM json_each(:without)))
  AND (:without = '[]' OR NOT EXISTS (SELECT 1 FROM schedule_labels l WHERE l.schedule_id = runs.schedule_id
    AND 'label.' || l.key || '=' || l.value IN (SELECT value FROM json_each(:without))))
  ORDER BY not_before LIMIT 1))
FROM json_each(:places) p;

-- live(schedule_ids: Iterable[int]) -> list[LiveRun]: the live runs of these schedules, without their steps, the oldest first
SELECT r.schedule_id, r.id, r.state, r.backfill, r.reason FROM json_each(:schedule_ids) j JOIN runs r ON r.schedule_id = j.value
WHERE r.state {live} AND r.parent IS NULL ORDER BY r.schedule_id, r.id;

-- insert_run: add a run
INSERT INTO runs (id, schedule_id, rev, slot, request_key, state, exclusive, scope, epoch, attempt, owner, not_before,
  planned_at, started_at, ended_at, slots, first_slot, reason, evidence, place)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- ready: runs of a place that may start
SELECT id, schedule_id, rev, slot, epoch, attempt, slots, first_slot, planned_at, cancelling, cleared, step, not_before, given, for_slot
FROM runs
WHERE state = {ready} AND place = :place AND not_before <= :now AND (scope IS NULL OR scope NOT IN (SELECT value FROM json_each(:without)))
  AND (:without = '[]' OR NOT EXISTS (SELECT 1 FROM schedule_labels l WHERE l.schedule_id = runs.schedule_id
    AND 'label.' || l.key || '=' || l.value IN (SELECT value FROM json_each(:without))))
ORDER BY not_before LIMIT :limit;

-- claim: from ready to starting, at a new epoch
UPDATE runs SET state = {starting}, epoch = epoch + 1, attempt = attempt + 1, owner = ?3, started_at = ?4
WHERE id = ?1 AND epoch = ?2 AND state = {ready} RETURNING id;

-- change_states: a named transition of a started run, only at its own epoch
UPDATE runs SET state = ?5, not_before = ?6, ended_at = ?7, reason = ?8, outcome = ?9, 
  evidence = CASE WHEN ?10 IS NULL THEN evidence WHEN evidence ->> '$.by' IS NULL THEN ?10
    ELSE json_set(?10, '$.by', json(evidence -> '$.by')) END,
  cleared = cleared | ?11, epoch = epoch + ?12
WHERE id = ?1 AND epoch = ?2 AND state BETWEEN ?3 AND ?4;

-- succeed: end a started run as succeeded, only at its own epoch
UPDATE runs SET state = {succeeded}, not_before = NULL, ended_at = ?3, reason = NULL, outcome = ?4
WHERE id = ?1 AND epoch = ?2 AND state BETWEEN {starting} AND {held};

-- release: make a claimed run that did not start ready again; the attempt is not counted
UPDATE runs SET state = {ready}, attempt = attempt - 1, owner = NULL, not_before = ?3 WHERE id = ?1 AND epoch = ?2 AND state = {starting}
RETURNING id;

-- promote: make the oldest queued run of each of these schedules ready, if no other run is active; those of a backfill last.
--   To sort the queue would read all of it
UPDATE runs SET state = {ready}, not_before = :now, reason = NULL WHERE id IN (
  SELECT (SELECT CASE WHEN q.backfill IS NULL THEN q.id ELSE coalesce((
      SELECT other.id FROM runs other WHERE other.schedule_id = j.value AND other.state {live} AND other.state = {queued}
        AND other.parent IS NULL AND other.backfill IS NULL ORDER BY other.id LIMIT 1), q.id) END
    FROM runs q WHERE q.schedule_id = j.value AND q.state {live} AND q.state = {queued} AND q.parent IS NULL ORDER BY q.id LIMIT 1)
  FROM json_each(:ids) j
  WHERE NOT EXISTS (SELECT 1 FROM runs o WHERE o.schedule_id = j.value AND o.state {live} AND o.state < {queued} AND o.parent IS NULL
    AND (o.backfill IS NULL OR o.reason = 'checking'))
    AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.schedule_id = j.value AND o.state {live} AND o.state > {queued} AND o.parent IS NULL))
RETURNING id, schedule_id;

-- mark_cancelling: mark started runs as cancelling
UPDATE runs SET cancelling = 1 WHERE id IN (SELECT value FROM json_each(:ids)) AND state BETWEEN {starting} AND {held} AND cancelling = 0
RETURNING id, schedule_id, owner;

-- live_runs: the live runs among these
SELECT r.id, r.schedule_id, r.rev, r.slot, r.epoch, r.attempt, r.state, r.owner, r.cancelling, r.step
FROM json_each(:ids) j JOIN runs r ON r.id = j.value WHERE r.state {live};

-- runs_of(schedule_id: int, before: int, limit: int) -> list[RunRow]: a schedule's runs, the newest first
-- The index alone finds the page, before rows are read.
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM (SELECT id FROM runs INDEXED BY runs_slot WHERE schedule_id = :schedule_id AND step = 0 AND id < :before ORDER BY id DESC LIMIT :limit) page
  CROSS JOIN runs r ON r.id = page.id CROSS JOIN schedules s ON s.id = r.schedule_id ORDER BY r.id DESC;

-- previous_state(schedule_id: int, run_id: int) -> int | None: the outcome of the run before this one
SELECT state FROM runs INDEXED BY runs_slot WHERE schedule_id = :schedule_id AND step = 0 AND id < :run_id AND state IN ({succeeded}, {failed}, {interrupted}, {unknown}) ORDER BY id DESC LIMIT 1;

-- reserve_run_ids: reserve a block of run ids
UPDATE meta SET value = value + :size WHERE key = 'next_run_id' RETURNING value - :size;

-- newest_runs(schedule_ids: Iterable[int]) -> list[RunRow]: the last run of each schedule that has any; the index on slots
--   finds it, and manual runs have no slot
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM json_each(:schedule_ids) j JOIN schedules s ON s.id = j.value
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- started_runs(schedule_ids: Iterable[int]) -> list[RunRow]: the last run of each schedule that has started; later ones may
--   have been skipped
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM json_each(:schedule_ids) j JOIN schedules s ON s.id = j.value
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL AND started_at IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL AND started_at IS NOT NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- prunable(ended_before: int, now: int, limit: int) -> list[int]: runs that ended before an instant. A run stays while its
--   slot is to come, or the cursor is not past it: its slot must not run again
SELECT id FROM (SELECT id, schedule_id, slot, ended_at, state, step FROM runs ORDER BY id LIMIT 20000) r
WHERE step = 0 AND ended_at < :ended_before AND state {ended} AND (slot IS NULL OR slot <= :now
  AND NOT EXISTS (SELECT 1 FROM due d WHERE d.schedule_id = r.schedule_id AND d.next_slot <= r.slot))
ORDER BY id LIMIT :limit;

-- prunable_beyond(newest: int, now: int, limit: int) -> list[int]: ended runs beyond the newest ones of their schedule,
--   likewise
SELECT id FROM (
  SELECT id, schedule_id, slot, state, row_number() OVER (PARTITION BY schedule_id ORDER BY id DESC) AS place FROM runs
  WHERE step = 0) r
WHERE place > :newest AND state {ended} AND (slot IS NULL OR slot <= :now
  AND NOT EXISTS (SELECT 1 FROM due d WHERE d.schedule_id = r.schedule_id AND d.next_slot <= r.slot))
ORDER BY id LIMIT :limit;

-- note_purged: record the last slots of runs that will be deleted
UPDATE schedules SET purged_slot = p.slot FROM (
  SELECT schedule_id, max(slot) AS slot FROM runs WHERE id IN (SELECT value FROM json_each(:ids)) GROUP BY schedule_id) p
WHERE schedules.id = p.schedule_id AND p.slot > coalesce(purged_slot, p.slot - 1);

-- delete_answers: delete the answers of runs
DELETE FROM answers WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_runs: delete ended runs
DELETE FROM runs WHERE id IN (SELECT value FROM json_each(:ids)) AND state {ended};
