-- The cursors of schedules, from which planning continues.

-- due_oldest: due schedules, the longest waiting first
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE due_at <= :now ORDER BY due_at LIMIT :limit /* lock free */;

-- due_newest: the same, the latest first, so that a backlog does not delay schedules that are on time
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE due_at <= :now ORDER BY due_at DESC LIMIT :limit /* lock free */;

-- next_instants() -> NextInstants: when the next schedule is due, and the next waiting record
SELECT (SELECT min(due_at) FROM due WHERE due_at IS NOT NULL) AS due_at, ({{next_timer}}) AS timer_at;

-- next_due() -> int | None: the instant of the next due schedule
SELECT min(due_at) FROM due WHERE due_at IS NOT NULL;

-- cursors(after: int, limit: int) -> list[Due]: a page of cursors that have a slot, by schedule id, locked
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE schedule_id > :after AND due_at IS NOT NULL ORDER BY schedule_id LIMIT :limit /* lock */;

-- replace_cursor(schedule_id: int, next_slot: int | None, due_at: int | None, rev: int, *, paused: bool = False, waiting: bool = False) -> None:
--   set the next slot of a schedule after an edit, a pause or a clock change. `waiting`: for a completion
UPDATE due SET next_slot = :next_slot, due_at = :due_at, rev = :rev, paused = :paused, waiting = :waiting,
  failed_at = CASE WHEN rev = :rev AND paused = :paused THEN failed_at END -- an edit, a pause or its end is a new start
WHERE schedule_id = :schedule_id;

-- renew_cursor(schedule_id: int, rev: int) -> None: set the revision of a cursor whose slots stay
UPDATE due SET rev = :rev WHERE schedule_id = :schedule_id;

-- upcoming(limit: int) -> list[int]: the schedules that fire next, the soonest first
SELECT schedule_id FROM due WHERE due_at IS NOT NULL ORDER BY due_at LIMIT :limit;

-- failures(schedule_id: int) -> int: the consecutive failures of a schedule
SELECT failures FROM due WHERE schedule_id = :schedule_id;

-- reset_failures(schedule_id: int) -> None: set the failures of a schedule to 0
UPDATE due SET failures = 0, failed_at = NULL WHERE schedule_id = :schedule_id;

-- uncount_execution(schedule_id: int, run_id: int) -> None: do not count a run as an execution, because no attempt of it ran
UPDATE due SET executions = executions - 1 WHERE schedule_id = :schedule_id AND executions > 0
  AND (SELECT attempt FROM runs WHERE id = :run_id) = 0;

-- count_execution(schedule_id: int) -> None: count a run that a call started
UPDATE due SET executions = executions + 1 WHERE schedule_id = :schedule_id;

-- window_used(schedule_id: int) -> int: the used catch-up runs of a missed window
SELECT window_used FROM due WHERE schedule_id = :schedule_id;
