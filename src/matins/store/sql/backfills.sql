-- Backfills: runs for past slots.

-- backfill(backfill_id: int) -> BackfillRow | None: one backfill
SELECT id, schedule_id, rev, state, reason, changed_by, first_slot, last_slot, choice, newest_first, last_seen, planned, made,
  most, max_parallel, max_cost, waits_since, failures_after, next_at, created_at, created_by, ended_at
FROM backfills WHERE id = :backfill_id;

-- lock_backfill(backfill_id: int) -> BackfillRow | None: the same, locked
SELECT id, schedule_id, rev, state, reason, changed_by, first_slot, last_slot, choice, newest_first, last_seen, planned, made,
  most, max_parallel, max_cost, waits_since, failures_after, next_at, created_at, created_by, ended_at
FROM backfills WHERE id = :backfill_id /* lock */;

-- backfills(schedule_id: int | None, before: int, limit: int) -> list[BackfillRow]: a page of backfills, the newest first
SELECT id, schedule_id, rev, state, reason, changed_by, first_slot, last_slot, choice, newest_first, last_seen, planned, made,
  most, max_parallel, max_cost, waits_since, failures_after, next_at, created_at, created_by, ended_at
FROM backfills WHERE id < :before AND (CAST(:schedule_id AS bigint) IS NULL OR schedule_id = :schedule_id)
ORDER BY id DESC LIMIT :limit;

-- running_backfills() -> list[tuple[int, int, int | None, int]]: (id, schedule, when to look next, room): running backfills,
--   and how many more runs may be live
SELECT b.id, b.schedule_id, b.next_at, b.max_parallel - (SELECT count(*) FROM runs r
  WHERE r.schedule_id = b.schedule_id AND r.state {live} AND r.backfill = b.id) AS room
FROM backfills b WHERE b.state = 'running' ORDER BY b.id;

-- insert_backfill(row: BackfillRow) -> int: add a backfill, and return its id
INSERT INTO backfills (schedule_id, rev, state, first_slot, last_slot, choice, newest_first, planned, most, max_parallel,
  max_cost, next_at, created_at, created_by)
VALUES (:schedule_id, :rev, :state, :first_slot, :last_slot, :choice, :newest_first, :planned, :most, :max_parallel,
  :max_cost, :next_at, :created_at, :created_by) RETURNING id;

-- move_backfill(row: BackfillRow) -> None: how far a backfill is
UPDATE backfills SET last_seen = :last_seen, made = :made, waits_since = :waits_since, next_at = :next_at WHERE id = :id;

-- set_backfill_state(backfill_id: int, state: str, reason: str | None, by: str | None, next_at: int | None, ended_at: int | None) -> None:
--   pause, resume or end a backfill. One that is resumed counts its failures anew
UPDATE backfills SET state = :state, reason = :reason, changed_by = :by, next_at = :next_at, waits_since = NULL,
  failures_after = CASE WHEN :state = 'running' THEN coalesce((SELECT max(r.id) FROM runs r WHERE r.backfill = :backfill_id), 0)
    ELSE failures_after END, ended_at = :ended_at WHERE id = :backfill_id;

-- pause_backfills(schedule_id: int) -> list[int]: pause those of a schedule that is paused
UPDATE backfills SET state = 'paused', reason = 'schedule', next_at = NULL WHERE schedule_id = :schedule_id AND state = 'running'
RETURNING id;

-- resume_backfills(schedule_id: int, now: int) -> list[int]: let those continue that were paused with their schedule
UPDATE backfills SET state = 'running', reason = NULL, next_at = :now
WHERE schedule_id = :schedule_id AND state = 'paused' AND reason = 'schedule' RETURNING id;

-- open_backfills(schedule_id: int) -> list[int]: backfills of a schedule that are not over
SELECT id FROM backfills WHERE schedule_id = :schedule_id AND state IN ('running', 'paused') ORDER BY id;

-- backfill_counts(backfill_id: int) -> list[tuple[int, int]]: (state, number) of its runs
SELECT state, count(*) AS number FROM runs WHERE backfill = :backfill_id GROUP BY state ORDER BY state;

-- backfill_runs(backfill_id: int, live: int) -> list[int]: its live runs that have not started; with `live`, all of them
SELECT id FROM runs WHERE backfill = :backfill_id AND state {live} AND (state <= {ready} OR :live = 1) ORDER BY id;

-- backfill_ends(backfill_id: int, after: int, limit: int) -> list[int]: the states of its runs after one of
--   them, as they ended, the last first
SELECT state FROM runs WHERE backfill = :backfill_id AND state {ended} AND id > :after ORDER BY ended_at DESC, id DESC LIMIT :limit;

-- backfill_spent(backfill_id: int) -> int: what its runs spent and have reserved, in micro-dollars
SELECT CAST(coalesce(sum(s.money + s.money_reserved), 0) AS bigint) FROM (
  SELECT id FROM runs WHERE backfill = :backfill_id
  UNION ALL SELECT step.id FROM runs whole JOIN runs step ON step.parent = whole.id WHERE whole.backfill = :backfill_id) r
JOIN spend s ON s.run_id = r.id;

-- slot_runs(schedule_id: int, first: int, last: int) -> list[SlotRun]: the records of slots from one to another, and the runs
--   that stand for them. Records do not overlap: only the first that ends at the last slot or later may reach back to it
SELECT id, coalesce(first_slot, slot) AS first, slot AS last, state, reason FROM runs
WHERE schedule_id = :schedule_id AND step = 0 AND slot BETWEEN :first AND coalesce(
  (SELECT min(slot) FROM runs WHERE schedule_id = :schedule_id AND step = 0 AND slot >= :last), :last)
UNION ALL
SELECT id, for_slot, for_slot, state, reason FROM runs WHERE schedule_id = :schedule_id AND for_slot BETWEEN :first AND :last
ORDER BY 1;

-- made_up_by(schedule_id: int, slot: int, after: int) -> tuple[int, int] | None: (id, state) of the newest run that stands for
--   a slot, after another run
SELECT id, state FROM runs WHERE schedule_id = :schedule_id AND for_slot = :slot AND id > :after ORDER BY id DESC LIMIT 1;

-- set_for_slot(run_id: int, slot: int, backfill: int | None) -> None: set the past slot that a new run stands for
UPDATE runs SET for_slot = :slot, backfill = :backfill WHERE id = :run_id;

-- backfill_of(run_id: int) -> int | None: the backfill of a run
SELECT backfill FROM runs WHERE id = :run_id;

-- waiting_before(place: int, scope: str | None, now: int) -> bool: whether a run that no backfill made waits for the same
--   capacity
SELECT id FROM runs WHERE state = {ready} AND place = :place AND not_before < :now AND backfill IS NULL
  AND coalesce(scope, '') = coalesce(CAST(:scope AS text), '') LIMIT 1;
