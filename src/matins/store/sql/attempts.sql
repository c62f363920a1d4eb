-- Attempts and checks of runs.

-- attempts(run_id: int) -> list[AttemptRow]: the attempts of a run
SELECT run_id, epoch, owner, started_at FROM attempts WHERE run_id = :run_id ORDER BY epoch;

-- worker_of(run_id: int, epoch: int) -> str | None: the identity of the worker that started an attempt
SELECT w.identity FROM attempts a JOIN workers w ON w.id = a.owner WHERE a.run_id = :run_id AND a.epoch = :epoch;

-- report_outcome(run_id: int, epoch: int, reported: str) -> None: set the outcome that an agent reports while its attempt
--   runs
UPDATE attempts SET reported = :reported WHERE run_id = :run_id AND epoch = :epoch;

-- reported_outcome(run_id: int, epoch: int) -> str | None: the outcome that the agent reported while its attempt ran, as
--   JSON
SELECT reported FROM attempts WHERE run_id = :run_id AND epoch = :epoch;

-- end_attempt(run_id: int, epoch: int, now: int) -> None: set when an attempt ended after which its run goes on
UPDATE attempts SET ended_at = :now WHERE run_id = :run_id AND epoch = :epoch AND ended_at IS NULL;

-- attempt_ends: the ends of attempts after which the run went on
SELECT epoch, ended_at FROM attempts WHERE run_id = :run_id AND ended_at IS NOT NULL;

-- uncount_attempt(run_id: int) -> None: do not count an attempt that the provider refused
UPDATE runs SET attempt = attempt - 1 WHERE id = :run_id AND attempt > 0;

-- insert_check(check: CheckRow) -> None: add the verdict of a guard, a pre-check or a hook
INSERT INTO checks (run_id, epoch, kind, at, duration_ms, exit_code, verdict, reason, output)
VALUES (:run_id, :epoch, :kind, :at, :duration_ms, :exit_code, :verdict, :reason, :output) ON CONFLICT DO NOTHING;

-- checks(run_id: int) -> list[CheckRow]: the checks of a run
SELECT run_id, epoch, kind, at, duration_ms, exit_code, verdict, reason, output FROM checks
WHERE run_id = :run_id ORDER BY epoch, at, kind;
