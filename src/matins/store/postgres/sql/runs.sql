-- next_ready: the instant at which the next ready run of these places may start
SELECT min(r.not_before) FROM unnest(%(places)b) p (place) CROSS JOIN LATERAL (
  SELECT not_before FROM runs WHERE state = {ready} AND place = p.place AND (scope IS NULL OR scope <> ALL(%(without)b))
    AND (cardinality(CAST(%(without)b AS text[])) = 0 OR NOT EXISTS (SELECT FROM schedule_labels l
      WHERE l.schedule_id = runs.schedule_id AND 'label.' || l.key || '=' || l.value = ANY(%(without)b)))
  ORDER BY not_before LIMIT 1) r;

-- live(schedule_ids: Iterable[int]) -> list[LiveRun]: the live runs of these schedules, without their steps, the oldest first
SELECT schedule_id, id, state, backfill, reason FROM runs WHERE schedule_id = ANY(%(schedule_ids)b) AND state {live} AND parent IS NULL ORDER BY schedule_id, id;

-- ready: runs of these places that may start
SELECT r.id, r.schedule_id, r.rev, r.slot, r.epoch, r.attempt, r.slots, r.first_slot, r.planned_at,
  r.cancelling, r.cleared, r.step, r.not_before, r.given, r.for_slot
FROM unnest(%(places)b) p (place) CROSS JOIN LATERAL (
  SELECT id, schedule_id, rev, slot, epoch, attempt, slots, first_slot, planned_at, cancelling, cleared, step, not_before, given, for_slot
  FROM runs
  WHERE state = {ready} AND place = p.place AND not_before <= %(now)b AND (scope IS NULL OR scope <> ALL(%(without)b))
    AND (cardinality(CAST(%(without)b AS text[])) = 0 OR NOT EXISTS (SELECT FROM schedule_labels l
      WHERE l.schedule_id = runs.schedule_id AND 'label.' || l.key || '=' || l.value = ANY(%(without)b)))
  ORDER BY not_before LIMIT %(limit)b FOR UPDATE SKIP LOCKED) r
ORDER BY r.not_before LIMIT %(limit)b;

-- claim: from ready to starting, at a new epoch
UPDATE runs r SET state = {starting}, epoch = r.epoch + 1, attempt = r.attempt + 1, owner = u.owner, started_at = u.now
FROM unnest(%(run_id)b, %(epoch)b, %(owner)b, %(now)b) u (id, epoch, owner, now)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state = {ready} RETURNING r.id;

-- change_states: named transitions of started runs, only at their own epochs
UPDATE runs r SET state = u.target, not_before = u.not_before, ended_at = u.ended_at, reason = u.reason, outcome = u.outcome,
  evidence = CASE WHEN u.evidence IS NULL THEN r.evidence WHEN r.evidence::jsonb -> 'by' IS NULL THEN u.evidence
    ELSE (u.evidence::jsonb || jsonb_build_object('by', r.evidence::jsonb -> 'by'))::text END, cleared = r.cleared | u.gates_passed, epoch = r.epoch + u.new_epoch
FROM unnest(%(run_id)b, %(epoch)b, %(low)b, %(high)b, %(target)b, %(not_before)b, %(ended_at)b, %(reason)b, %(outcome)b,
    %(evidence)b, %(gates_passed)b, %(new_epoch)b)
  u (id, epoch, low, high, target, not_before, ended_at, reason, outcome, evidence, gates_passed, new_epoch)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state BETWEEN u.low AND u.high
RETURNING u.id, u.epoch, r.cancelling;

-- succeed: end started runs as succeeded, only at their own epochs
UPDATE runs r SET state = {succeeded}, not_before = NULL, ended_at = u.ended_at, reason = NULL, outcome = u.outcome
FROM unnest(%(run_id)b, %(epoch)b, %(ended_at)b, %(outcome)b) u (id, epoch, ended_at, outcome)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state BETWEEN {starting} AND {held} RETURNING u.id, u.epoch;

-- release: make a claimed run that did not start ready again; the attempt is not counted
UPDATE runs r SET state = {ready}, attempt = r.attempt - 1, owner = NULL, not_before = u.not_before
FROM unnest(%(run_id)b, %(epoch)b, %(not_before)b) u (id, epoch, not_before)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state = {starting} RETURNING r.id;

-- promote: make the oldest queued run of each of these schedules ready, if no other run is active; those of a backfill last. OFFSET 0: few have a
--   queue, and only those are asked for other runs, each by the index, where EXISTS would read all live runs
UPDATE runs SET state = {ready}, not_before = %(now)b, reason = NULL WHERE state = {queued} AND id = ANY(ARRAY(
  SELECT q.id FROM (SELECT j.id AS schedule_id, oldest.id FROM unnest(%(ids)b) j (id) CROSS JOIN LATERAL (
    SELECT CASE WHEN r.backfill IS NULL THEN r.id ELSE coalesce((
        SELECT other.id FROM runs other WHERE other.schedule_id = j.id AND other.state {live} AND other.state = {queued}
          AND other.parent IS NULL AND other.backfill IS NULL ORDER BY other.id LIMIT 1), r.id) END AS id
    FROM runs r WHERE r.schedule_id = j.id AND r.state {live} AND r.state = {queued} AND r.parent IS NULL ORDER BY r.id LIMIT 1) oldest OFFSET 0) q
  WHERE (SELECT id FROM runs o WHERE o.schedule_id = q.schedule_id AND o.state {live} AND o.state < {queued} AND o.parent IS NULL
      AND (o.backfill IS NULL OR o.reason = 'checking') LIMIT 1) IS NULL
    AND (SELECT id FROM runs o WHERE o.schedule_id = q.schedule_id AND o.state {live} AND o.state > {queued} AND o.parent IS NULL LIMIT 1) IS NULL))
RETURNING id, schedule_id;

-- mark_cancelling: mark started runs as cancelling
UPDATE runs SET cancelling = 1 WHERE id = ANY(%(ids)b) AND state BETWEEN {starting} AND {held} AND cancelling = 0
RETURNING id, schedule_id, owner;

-- live_runs: the live runs among these
SELECT id, schedule_id, rev, slot, epoch, attempt, state, owner, cancelling, step FROM runs
WHERE id = ANY(%(ids)b) AND state {live} ORDER BY id FOR UPDATE;

-- runs_of(schedule_id: int, before: int, limit: int) -> list[RunRow]: a schedule's runs, the newest first
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.schedule_id = %(schedule_id)b AND r.step = 0 AND r.id < %(before)b ORDER BY r.id DESC LIMIT %(limit)b;

-- previous_state(schedule_id: int, run_id: int) -> int | None: the outcome of the run before this one
SELECT state FROM runs WHERE schedule_id = %(schedule_id)b AND step = 0 AND id < %(run_id)b AND state IN ({succeeded}, {failed}, {interrupted}, {unknown}) ORDER BY id DESC LIMIT 1;

-- run_ids: ids for new runs; those of one schedule ascend, because its lock is held
SELECT nextval('run_ids') FROM generate_series(1, %(count)b);

-- copy_runs: add runs
COPY runs (id, schedule_id, rev, slot, request_key, state, exclusive, scope, epoch, attempt, owner, not_before,
  planned_at, started_at, ended_at, slots, first_slot, reason, evidence, place) FROM STDIN (FORMAT binary);

-- newest_runs(schedule_ids: Iterable[int]) -> list[RunRow]: the last run of each schedule that has any; the index on slots
--   finds it, and manual runs have no slot
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM unnest(%(schedule_ids)b) AS j(id) JOIN schedules s ON s.id = j.id
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- started_runs(schedule_ids: Iterable[int]) -> list[RunRow]: the last run of each schedule that has started; later ones may
--   have been skipped
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM unnest(%(schedule_ids)b) AS j(id) JOIN schedules s ON s.id = j.id
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL AND started_at IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL AND started_at IS NOT NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- prunable(ended_before: int, now: int, limit: int) -> list[int]: runs that ended before an instant. A run stays while its
--   slot is to come, or the cursor is not past it: its slot must not run again
SELECT id FROM (SELECT id FROM runs r WHERE ended_at < %(ended_before)b AND state {ended} AND step = 0
  AND (slot IS NULL OR slot <= %(now)b
    AND NOT EXISTS (SELECT FROM due d WHERE d.schedule_id = r.schedule_id AND d.next_slot <= r.slot))
  LIMIT %(limit)b) r ORDER BY id;

-- prunable_beyond(newest: int, now: int, limit: int) -> list[int]: ended runs beyond the newest ones of their schedule,
--   likewise
SELECT id FROM (SELECT r.id FROM schedules s CROSS JOIN LATERAL (
  SELECT id, state, slot FROM runs WHERE schedule_id = s.id AND step = 0 ORDER BY id DESC OFFSET %(newest)b) r
WHERE r.state {ended} AND (slot IS NULL OR slot <= %(now)b
  AND NOT EXISTS (SELECT FROM due d WHERE d.schedule_id = s.id AND d.next_slot <= r.slot)) LIMIT %(limit)b) r ORDER BY id;

-- note_purged: record the last slots of runs that will be deleted
UPDATE schedules SET purged_slot = p.slot FROM (
  SELECT schedule_id, max(slot) AS slot FROM runs WHERE id = ANY(%(ids)b) GROUP BY schedule_id) p
WHERE schedules.id = p.schedule_id AND p.slot > coalesce(purged_slot, p.slot - 1);

-- delete_answers: delete the answers of runs
DELETE FROM answers WHERE run_id = ANY(%(ids)b);

-- delete_runs: delete ended runs
DELETE FROM runs WHERE id = ANY(%(ids)b) AND state {ended};
