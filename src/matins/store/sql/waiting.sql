-- Runs that wait for a time, a check or a person.

-- next_timer() -> int | None: the next instant at which a waiting record must be checked
SELECT min(at) FROM (
  SELECT min(not_before) AS at FROM runs WHERE state = {waiting} AND reason <> 'paused'
  UNION ALL SELECT min(expires_at) FROM approvals WHERE state = 'pending'
  UNION ALL SELECT min(paused_until) FROM schedules WHERE paused_until IS NOT NULL
  UNION ALL SELECT min(resets_at) FROM throttles
  UNION ALL SELECT min(next_at) FROM backfills WHERE state = 'running'
  UNION ALL SELECT min(at) FROM watched_runs) timers;

-- waiting_due(now: int, limit: int) -> list[WaitingRun]: waiting runs whose time has come
SELECT id, schedule_id, rev, slot, epoch, attempt, reason, planned_at, step, backfill FROM runs
WHERE state = {waiting} AND reason <> 'paused' AND not_before <= :now ORDER BY not_before LIMIT :limit;

-- waiting_for(reason: str) -> list[WaitingRun]: runs that wait for a reason, at any time
SELECT id, schedule_id, rev, slot, epoch, attempt, reason, planned_at, step, backfill FROM runs
WHERE state = {waiting} AND reason <> 'paused' AND reason = :reason ORDER BY id;

-- defer_run(run_id: int, epoch: int, until: int) -> None: defer a ready run
UPDATE runs SET not_before = :until WHERE id = :run_id AND epoch = :epoch AND state = {ready};

-- wake_run(run_id: int, reason: str, now: int) -> None: let a run that waits for a reason continue
UPDATE runs SET not_before = :now, reason = 'woken' WHERE id = :run_id AND state = {waiting} AND reason = :reason;

-- suspend_runs(schedule_id: int) -> list[int]: hold the queued and ready runs of a paused schedule
UPDATE runs SET state = {waiting}, reason = 'paused'
WHERE schedule_id = :schedule_id AND state {live} AND state IN ({queued}, {ready}) RETURNING id;

-- undefer_runs(now: int) -> None: let deferred runs start, after the clock was set back
UPDATE runs SET not_before = :now WHERE state {live} AND state <= {ready} AND not_before > :now;

-- watch_run(run_id: int, at: int, *, late: bool = False) -> None: look at a run at an instant
INSERT INTO watched_runs (run_id, at, late) VALUES (:run_id, :at, :late)
ON CONFLICT (run_id) DO UPDATE SET at = excluded.at, late = excluded.late;

-- unwatch_run(run_id: int) -> None: look at a run no more
DELETE FROM watched_runs WHERE run_id = :run_id;

-- watched_due(now: int, limit: int) -> list[tuple[int, bool]]: (run, whether it was late): runs to look at
SELECT run_id, late FROM watched_runs WHERE at <= :now ORDER BY at LIMIT :limit /* lock free */;

-- ping_token(schedule_id: int) -> str | None: the secret of a schedule's address for pings
SELECT token FROM ping_tokens WHERE schedule_id = :schedule_id;

-- pinged_schedule(token: str) -> tuple[str, str] | None: (name, agent) of the schedule with this address
SELECT s.name, s.agent FROM ping_tokens p JOIN schedules s ON s.id = p.schedule_id WHERE p.token = :token AND s.state <> 'removed';

-- set_ping_token(schedule_id: int, token: str) -> None: give a schedule an address for pings, in place of its former one
INSERT INTO ping_tokens (schedule_id, token) VALUES (:schedule_id, :token)
ON CONFLICT (schedule_id) DO UPDATE SET token = excluded.token;

-- awaiting_ping(schedule_id: int) -> WaitingRun | None: the run of a schedule that waits for a ping, the oldest
SELECT id, schedule_id, rev, slot, epoch, attempt, reason, planned_at, step, backfill FROM runs
WHERE schedule_id = :schedule_id AND state = {waiting} AND reason = 'awaiting_ping' ORDER BY id LIMIT 1;
