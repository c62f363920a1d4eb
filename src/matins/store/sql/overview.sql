-- What screens show of many schedules and runs at once: a statement each. Whole runs only: steps belong to theirs.

-- first_planned(since: int) -> int | None: the first run that was planned at or after an instant, by bisection: ids ascend
--   with time. None where there are no runs
WITH RECURSIVE b (low, high, at) AS (
  SELECT (SELECT min(id) FROM runs), (SELECT max(id) + 1 FROM runs), (SELECT r.planned_at FROM runs r
    WHERE r.id >= ((SELECT min(id) FROM runs) + (SELECT max(id) + 1 FROM runs)) / 2 ORDER BY r.id LIMIT 1)
  UNION ALL
  SELECT CASE WHEN b.at < :since THEN (b.low + b.high) / 2 + 1 ELSE b.low END,
    CASE WHEN b.at < :since THEN b.high ELSE (b.low + b.high) / 2 END,
    (SELECT r.planned_at FROM runs r WHERE r.id >= CASE WHEN b.at < :since THEN ((b.low + b.high) / 2 + 1 + b.high) / 2
      ELSE (b.low + (b.low + b.high) / 2) / 2 END ORDER BY r.id LIMIT 1)
  FROM b WHERE b.low < b.high)
SELECT low FROM b WHERE low >= high;

-- run_beyond(low: int, high: int, count: int) -> PlannedRun | None: the run from `low` to before `high` that has this many
--   newer ones; None where there are not so many
SELECT id, planned_at FROM runs WHERE id >= :low AND id < :high ORDER BY id DESC LIMIT 1 OFFSET :count;

-- record_counts(low: int, high: int, since: int, until: int) -> list[RecordCount]: the records from run `low` to before run
--   `high` that lie in a window, counted by schedule and state
SELECT c.schedule_id, s.name, s.agent, c.state, c.records, c.first, c.last FROM (
  SELECT schedule_id, state, count(*) AS records, min(begins) AS first, max(begins) AS last FROM (
    SELECT schedule_id, state, coalesce(started_at, slot, planned_at) AS begins,
      CASE WHEN started_at IS NULL THEN coalesce(slot, planned_at) ELSE coalesce(ended_at, :until) END AS ends
    FROM runs WHERE id >= :low AND id < :high AND step = 0) w
  WHERE ends >= :since AND begins < :until GROUP BY schedule_id, state) c
JOIN schedules s ON s.id = c.schedule_id;

-- live_records(limit: int) -> list[RecordSpan]: whole runs that have not ended, the newest first
SELECT r.id, r.schedule_id, s.name, s.agent, r.rev, r.state, r.slot, r.slots, coalesce(r.started_at, r.slot, r.planned_at) AS begins,
  r.reason, r.not_before, r.started_at, r.ended_at
FROM runs r JOIN schedules s ON s.id = r.schedule_id WHERE r.state {live} AND r.step = 0 ORDER BY r.id DESC LIMIT :limit;

-- live_whole_runs(limit: int) -> list[RunRow]: the same as runs
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM runs r JOIN schedules s ON s.id = r.schedule_id WHERE r.state {live} AND r.step = 0 ORDER BY r.id DESC LIMIT :limit;

-- coming(until: int, limit: int) -> list[ComingCursor]: active schedules whose next slot is due before an instant, the
--   soonest first
SELECT d.schedule_id, s.name, s.agent, v.definition, d.next_slot, d.due_at, d.executions, d.failures, d.failed_at
FROM due d JOIN schedules s ON s.id = d.schedule_id JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev
WHERE d.due_at < :until ORDER BY d.due_at LIMIT :limit;

-- coming_after_runs(limit: int) -> list[ComingCursor]: schedules whose next slot is decided by the end of a live run
SELECT d.schedule_id, s.name, s.agent, v.definition, d.next_slot, d.due_at, d.executions, d.failures, d.failed_at
FROM runs r JOIN due d ON d.schedule_id = r.schedule_id JOIN schedules s ON s.id = d.schedule_id
JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev
WHERE r.state {live} AND r.step = 0 AND s.state = 'active' AND d.due_at IS NULL AND d.next_slot IS NOT NULL LIMIT :limit;

-- count_coming(until: int) -> int: the number of schedules whose next slot is due before an instant
SELECT count(*) FROM due WHERE due_at < :until;

-- run_costs(schedule_id: int, limit: int) -> list[RunCost]: what the last runs of a schedule spent, each with its steps, the
--   newest first
SELECT run_id, CAST(sum(money) AS bigint) AS money, CAST(sum(tokens) AS bigint) AS tokens FROM (
  SELECT coalesce(r.parent, p.run_id) AS run_id, p.money, p.tokens FROM (
    SELECT run_id, money, tokens FROM spend WHERE schedule_id = :schedule_id AND settled_at IS NOT NULL ORDER BY run_id DESC LIMIT :limit) p
  JOIN runs r ON r.id = p.run_id) w GROUP BY run_id ORDER BY run_id DESC;

-- last_success(schedule_id: int, slot: int) -> int | None: the last run of the schedule before a slot that succeeded
SELECT id FROM runs WHERE schedule_id = :schedule_id AND step = 0 AND slot < :slot AND state = {succeeded} ORDER BY slot DESC LIMIT 1;

-- day_counts(schedule_id: int, since: int, until: int, offset: int) -> list[DayCount]: the slots of a schedule by day and
--   state. `offset`: of the wall clock, in milliseconds
SELECT day, state, CAST(sum(slots) AS bigint) AS slots FROM (
  SELECT (slot + :offset) / 86400000 AS day, state, slots FROM runs
  WHERE schedule_id = :schedule_id AND step = 0 AND slot >= :since AND slot < :until
  UNION ALL SELECT (planned_at + :offset) / 86400000, state, slots FROM runs
  WHERE schedule_id = :schedule_id AND step = 0 AND slot IS NULL AND planned_at >= :since AND planned_at < :until) w
GROUP BY day, state ORDER BY day, state;

-- spend_by_day: what was spent, by day of a wall clock
SELECT (r.at + :offset) / 86400000 AS day, CAST(sum(r.money) AS bigint) AS money, CAST(sum(r.tokens) AS bigint) AS tokens,
  count(*) AS runs
FROM spend r WHERE r.at >= :since AND r.at < :until /* of selected */ GROUP BY 1 ORDER BY 1;

-- spend_by_agent: what was spent, by agent, the most first
SELECT r.agent AS name, r.agent, CAST(sum(r.money) AS bigint) AS money, CAST(sum(r.tokens) AS bigint) AS tokens, count(*) AS runs
FROM spend r WHERE r.at >= :since AND r.at < :until /* of selected */ GROUP BY r.agent ORDER BY 3 DESC, 4 DESC, 1 LIMIT :limit;

-- spend_by_schedule: what was spent, by schedule, the most first
SELECT s.name, s.agent, p.money, p.tokens, p.runs FROM (
  SELECT r.schedule_id, CAST(sum(r.money) AS bigint) AS money, CAST(sum(r.tokens) AS bigint) AS tokens, count(*) AS runs
  FROM spend r WHERE r.at >= :since AND r.at < :until /* of selected */ GROUP BY r.schedule_id) p
JOIN schedules s ON s.id = p.schedule_id ORDER BY p.money DESC, p.tokens DESC, s.name LIMIT :limit;

-- overdue_schedules(everything: bool, now: int, limit: int) -> list[ScheduleRow]: active schedules whose slot is due, or all
--   active ones
SELECT {{schedule_columns}}
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.state = 'active' AND d.next_slot IS NOT NULL AND (:everything OR d.due_at <= :now) ORDER BY d.due_at, s.id LIMIT :limit;

-- engine_spans(limit: int) -> list[EngineSpan]: when engines started and stopped, the newest first
SELECT started_at, stopped_at FROM workers ORDER BY started_at DESC, id DESC LIMIT :limit;

-- planned_before(run_id: int) -> int | None: when the last run before this one was planned
SELECT planned_at FROM runs WHERE id < :run_id ORDER BY id DESC LIMIT 1;

-- slot_states(low: int, high: int, since: int, until: int) -> list[SlotState]: the slots of a stretch of time by the states
--   of their records, among runs of a range of ids
SELECT state, CAST(sum(slots) AS bigint) AS slots FROM runs
WHERE id >= :low AND id < :high AND step = 0 AND slot > :since AND slot < :until GROUP BY state;

-- counts() -> Figures: counts of schedules, runs and approvals, and the next instants, for statistics
SELECT
  (SELECT count(*) FROM schedules s JOIN due d ON d.schedule_id = s.id
    WHERE s.state = 'active' AND d.next_slot IS NOT NULL) AS active_schedules,
  (SELECT count(*) FROM schedules WHERE state <> 'active' AND state = 'paused') AS paused_schedules,
  (SELECT count(*) FROM schedules WHERE state <> 'active' AND state = 'pending') AS pending_schedules,
  (SELECT count(*) FROM runs WHERE state {live} AND state >= {starting} AND owner IS NOT NULL) AS started_runs,
  (SELECT count(*) FROM runs WHERE state = {ready}) AS ready_runs,
  (SELECT count(*) FROM runs WHERE state {live} AND state <= {queued}) AS waiting_runs,
  (SELECT count(*) FROM approvals WHERE state = 'pending') AS pending_approvals,
  (SELECT min(requested_at) FROM approvals WHERE state = 'pending') AS oldest_approval_at,
  (SELECT min(due_at) FROM due WHERE due_at IS NOT NULL) AS next_due_at;

-- recent_failures(since: int) -> int: runs that failed since an instant, among the newest events
SELECT count(*) FROM (SELECT type, at FROM events ORDER BY id DESC LIMIT 10000) newest WHERE type = 'run.failed' AND at >= :since;

-- lane_of: part: the lane of a schedule `s`: its agent, or its value of a label
CASE WHEN CAST(:label AS text) IS NULL THEN s.agent
  ELSE coalesce((SELECT min(b.value) FROM schedule_labels b WHERE b.schedule_id = s.id AND b.key = :label), '') END;

-- lane_counts: the records of a window, from run `low`, counted by lane, by part of the window and by state
SELECT {{lane_of}} AS lane, w.bucket, w.state, CAST(sum(w.records) AS bigint) AS records FROM (
  SELECT schedule_id, (coalesce(started_at, slot, planned_at) - :since) / :size AS bucket, state, count(*) AS records FROM runs
  WHERE id >= :low AND step = 0 AND coalesce(started_at, slot, planned_at) >= :since AND coalesce(started_at, slot, planned_at) < :until
  GROUP BY 1, 2, 3) w
JOIN schedules s ON s.id = w.schedule_id JOIN due d ON d.schedule_id = s.id WHERE TRUE /* selected */ GROUP BY 1, 2, 3;

-- lane_runs: the records of some lanes in a window, from run `low`, the newest first, each with its lane. `lanes`: their names,
--   each between `edge` and `edge`
SELECT {{lane_of}} AS lane, r.id, r.schedule_id, s.name, s.agent, r.rev, r.state, r.slot, r.slots,
  coalesce(r.started_at, r.slot, r.planned_at) AS begins, r.reason, r.not_before, r.started_at, r.ended_at
FROM runs r JOIN schedules s ON s.id = r.schedule_id JOIN due d ON d.schedule_id = s.id
WHERE r.id >= :low AND r.step = 0 AND coalesce(r.started_at, r.slot, r.planned_at) >= :since
  AND coalesce(r.started_at, r.slot, r.planned_at) < :until
  AND replace(CAST(:lanes AS text), :edge || {{lane_of}} || :edge, '') <> CAST(:lanes AS text) /* selected */
ORDER BY r.id DESC LIMIT :limit;

-- lane_cursors: active schedules whose next slot is due before an instant, the soonest first, each with its lane
SELECT {{lane_of}} AS lane, d.schedule_id, s.name, s.agent, v.definition, d.next_slot, d.due_at, d.executions, d.failures, d.failed_at
FROM due d JOIN schedules s ON s.id = d.schedule_id JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev
WHERE d.due_at < :until /* selected */ ORDER BY d.due_at LIMIT :limit;

-- failures_by_part(low: int, since: int, until: int, size: int) -> list[FailureCount]: the failed records of a window, from run
--   `low`, counted by schedule and by part of the window
SELECT schedule_id, (ended_at - :since) / :size AS bucket, count(*) AS records FROM runs
WHERE id >= :low AND step = 0 AND state = {failed} AND ended_at >= :since AND ended_at < :until GROUP BY 1, 2;

-- selected_ids: the schedules that a selector selects
SELECT s.id FROM schedules s JOIN due d ON d.schedule_id = s.id WHERE s.state <> 'removed' /* selected */;

-- label_counts(limit: int) -> list[LabelCounts]: the labels of schedules that are not deleted, the commonest first
SELECT b.key, b.value, count(*) AS schedules FROM schedule_labels b JOIN schedules s ON s.id = b.schedule_id
WHERE s.state <> 'removed' GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT :limit;
