-- Runs, from creation to end.

-- started(worker: int, *, mine: bool) -> list[StartedRun]: started runs of one worker, or of all others
SELECT id, schedule_id, rev, slot, epoch, attempt, state, owner, cancelling, step FROM runs
WHERE state {live} AND state >= {starting} AND (owner = :worker) = :mine;

-- manual_runs(schedule_id: int) -> int: how many runs a person or a program started, among those that are kept
SELECT count(*) FROM runs r WHERE r.schedule_id = :schedule_id AND r.step = 0 AND r.slot IS NULL AND r.started_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM call_runs c WHERE c.run_id = r.id);

-- orphans() -> list[StartedRun]: starting and running runs whose worker has stopped or is unknown; a run that has no worker
--   is not one
SELECT id, schedule_id, rev, slot, epoch, attempt, state, owner, cancelling, step FROM runs
WHERE state {live} AND state >= {starting} AND state < {held}
  AND owner NOT IN (SELECT id FROM workers WHERE stopped_at IS NULL) ORDER BY id;

-- owner_of(run_id: int) -> WorkerRow | None: the worker of a started run; None if it has stopped or is unknown
SELECT w.id, w.identity, w.beat, w.offers, w.node, n.state, n.by, n.note, n.at
FROM runs r JOIN workers w ON w.id = r.owner AND w.stopped_at IS NULL LEFT JOIN nodes n ON n.name = w.node
WHERE r.id = :run_id;

-- run_by_request(schedule_id: int, key: str) -> int | None: the run of a request key
SELECT id FROM runs WHERE schedule_id = :schedule_id AND request_key = :key;

-- run(run_id: int) -> RunRow | None: one run
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM runs r JOIN schedules s ON s.id = r.schedule_id WHERE r.id = :run_id;

-- covered(schedule_id: int, since: int) -> list[tuple[int, int]]: the first and last slot of each run that covers slots at
--   or after an instant, in order
SELECT coalesce(first_slot, slot) AS first, slot FROM runs WHERE schedule_id = :schedule_id AND step = 0 AND slot >= :since
UNION ALL SELECT :since, purged_slot FROM schedules WHERE id = :schedule_id AND purged_slot >= :since ORDER BY 2;

-- next_recorded(schedule_id: int, since: int) -> tuple[int, int] | None: the first and last slot of the next run that covers
--   slots at or after an instant
SELECT coalesce(first_slot, slot) AS first, slot FROM runs WHERE schedule_id = :schedule_id AND step = 0 AND slot >= :since
ORDER BY slot LIMIT 1;

-- runs_ahead(now: int, after: int, limit: int) -> list[RunAhead]: runs of slots that are still to come, by id
SELECT id, schedule_id, rev, slot, first_slot, state, started_at FROM runs
WHERE slot > :now AND id > :after ORDER BY id LIMIT :limit;

-- set_range(run_id: int, first: int | None, slot: int, slots: int) -> None: change what a run covers
UPDATE runs SET slot = :slot, first_slot = :first, slots = :slots WHERE id = :run_id;

-- runs_in_hand(limit: int) -> list[RunRow]: runs that a worker has, or that need a person, without steps; the oldest first
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.state BETWEEN {starting} AND {held} AND r.step = 0 ORDER BY r.id LIMIT :limit;

-- recent_runs(before: int, limit: int, agent: str | None) -> list[RunRow]: runs of all schedules, or of one agent's, the
--   newest first
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.id < :before AND r.step = 0 AND (CAST(:agent AS text) IS NULL OR s.agent = CAST(:agent AS text)) ORDER BY r.id DESC LIMIT :limit;

-- run_at(schedule_id: int, at: int) -> int | None: the run that covers a slot
SELECT id FROM runs WHERE schedule_id = :schedule_id AND step = 0 AND slot >= :at AND coalesce(first_slot, slot) <= :at ORDER BY slot LIMIT 1;

-- run_before(schedule_id: int, at: int) -> int | None: the last run of a schedule at or before an instant
SELECT id FROM runs WHERE schedule_id = :schedule_id AND step = 0 AND slot <= :at ORDER BY slot DESC LIMIT 1;

-- last_started(schedule_id: int, run_id: int) -> int | None: the start of the schedule's last successful run before this one
SELECT started_at FROM runs WHERE schedule_id = :schedule_id AND step = 0 AND slot IS NOT NULL AND id < :run_id AND state = {succeeded}
ORDER BY slot DESC LIMIT 1;

-- last_planned(schedule_id: int, since: int) -> int | None: when the newest run of a schedule since an instant that was not
--   skipped was created
SELECT max(planned_at) FROM runs WHERE schedule_id = :schedule_id AND planned_at > :since AND state <> {skipped};

-- last_chain_start(schedule_id: int, since: int, now: int) -> ChainStart: the last start, from one instant to now, of what
--   agents made in the chain of this schedule: all that descends from the same root. A start that is to come is of a clock
--   that was ahead
WITH RECURSIVE above (id, parent) AS (
  SELECT id, parent FROM schedules WHERE id = :schedule_id
  UNION SELECT s.id, s.parent FROM schedules s JOIN above a ON s.id = a.parent
), chain (id) AS (
  SELECT id FROM above WHERE parent IS NULL
  UNION SELECT s.id FROM schedules s JOIN chain c ON s.parent = c.id
)
SELECT (SELECT min(id) FROM above WHERE parent IS NULL) AS root, max(r.started_at) AS started_at
FROM chain c JOIN schedules s ON s.id = c.id AND s.creator_role = 'agent'
JOIN runs r ON r.schedule_id = s.id AND r.step = 0 AND r.started_at BETWEEN :since AND :now;

-- set_run_revision(run_id: int, rev: int) -> None: give a run that has not started another revision. The run must pass its
--   gates again
UPDATE runs SET rev = :rev, cleared = 0, epoch = epoch + 1, owner = NULL WHERE id = :run_id AND state BETWEEN {waiting} AND {ready};

-- set_given(run_id: int, given: str) -> None: set what a new run was started with
UPDATE runs SET given = :given WHERE id = :run_id;

-- adopt(run_id: int, epoch: int, owner: int) -> bool: give a started run another owner, at the same epoch
UPDATE runs SET owner = :owner WHERE id = :run_id AND epoch = :epoch AND state BETWEEN {starting} AND {running} RETURNING id;
