-- turn_facts: what a turn of the engine asks first
SELECT (SELECT rev FROM policy_rev) AS policy_rev, (SELECT count(*) FROM places) AS places,
  (SELECT count(*) FROM nodes) AS closed_nodes,
  (EXISTS (SELECT 1 FROM permits)) AS limited, (EXISTS (SELECT 1 FROM reservations)) AS reserved,
  EXISTS (SELECT 1 FROM due WHERE failures > 0) AS failing;

-- lock_due(schedule_ids: Iterable[int]) -> list[Due]: the cursors of these schedules, locked; `slot` may be None
SELECT d.schedule_id, d.next_slot AS slot, d.rev, d.window_used, d.executions, d.failures, d.failed_at
FROM json_each(:schedule_ids) j JOIN due d ON d.schedule_id = j.value;

-- advance: move a cursor that has not changed since it was read
UPDATE due SET next_slot = ?4, due_at = ?5, window_used = ?6, executions = ?7, waiting = ?5 IS NULL AND ?4 IS NOT NULL
WHERE schedule_id = ?1 AND next_slot = ?2 AND rev = ?3;

-- set_cursor: set the next slot of an interval that counts from completion, also after a run with its own revision
UPDATE due SET next_slot = ?3, due_at = CASE WHEN paused THEN NULL ELSE ?4 END, waiting = 0
WHERE schedule_id = ?1 AND waiting = 1
  AND (rev = ?2 OR NOT EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = ?1 AND r.state {live} AND r.parent IS NULL));

-- any_failing: whether a schedule has failures that a success resets
SELECT 1 FROM due WHERE failures > 0 LIMIT 1;

-- count_failure: add a consecutive failure, or reset to 0
UPDATE due SET failures = CASE WHEN ?2 IS NULL THEN 0 ELSE failures + 1 END, failed_at = ?2
WHERE schedule_id = ?1 AND (?2 IS NOT NULL OR failures > 0);

-- insert_due: add the cursor of a new schedule
INSERT INTO due (schedule_id, next_slot, due_at, rev, paused) VALUES (?, ?, ?, 1, ?);
