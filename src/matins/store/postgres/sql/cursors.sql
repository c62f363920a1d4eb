-- turn_facts: what a turn of the engine asks first; failures are counted without a question
SELECT (SELECT rev FROM policy_rev) AS policy_rev, (SELECT count(*) FROM places) AS places,
  (SELECT count(*) FROM nodes) AS closed_nodes, (EXISTS (SELECT 1 FROM permits))::int AS limited, (EXISTS (SELECT 1 FROM reservations))::int AS reserved,
  0 AS failing;

-- lock_due(schedule_ids: Iterable[int]) -> list[Due]: the cursors of these schedules, locked; `slot` may be None
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE schedule_id = ANY(%(schedule_ids)b) ORDER BY schedule_id FOR UPDATE;

-- try_lock_due: lock these cursors without waiting
SELECT schedule_id FROM due WHERE schedule_id = ANY(%(ids)b) ORDER BY schedule_id FOR UPDATE SKIP LOCKED;

-- lock_due_of: lock the cursors of these runs' schedules: cursors are locked before runs
SELECT schedule_id, failures FROM due WHERE schedule_id = ANY(ARRAY(SELECT schedule_id FROM runs WHERE id = ANY(%(ids)b)))
ORDER BY schedule_id FOR UPDATE;

-- advance: move cursors that have not changed since they were read
UPDATE due d SET next_slot = u.next_slot, due_at = u.due_at, window_used = u.used, executions = u.executions,
  waiting = u.due_at IS NULL AND u.next_slot IS NOT NULL
FROM unnest(%(schedule_id)b, %(slot)b, %(rev)b, %(next_slot)b, %(due_at)b, %(window_used)b, %(executions)b)
  u (id, slot, rev, next_slot, due_at, used, executions)
WHERE d.schedule_id = u.id AND d.next_slot = u.slot AND d.rev = u.rev RETURNING d.schedule_id;

-- set_cursors: set next slots of intervals that count from completion, also after a run with its own revision
UPDATE due d SET next_slot = u.slot, due_at = CASE WHEN d.paused THEN NULL ELSE u.due_at END, waiting = false
FROM unnest(%(schedule_id)b, %(rev)b, %(next_slot)b, %(due_at)b) u (id, rev, slot, due_at)
WHERE d.schedule_id = u.id AND d.waiting
  AND (d.rev = u.rev OR NOT EXISTS (SELECT FROM runs r WHERE r.schedule_id = u.id AND r.state {live} AND r.parent IS NULL));

-- count_failures: add consecutive failures, or start again from 0
UPDATE due d SET failures = CASE WHEN u.afresh = 1 THEN u.more ELSE d.failures + u.more END, failed_at = u.failed_at
FROM unnest(%(schedule_id)b, %(afresh)b, %(more)b, %(failed_at)b) u (id, afresh, more, failed_at)
WHERE d.schedule_id = u.id AND (u.more > 0 OR d.failures > 0);
