-- Runs that are steps of another.

-- unfold(run_id: int, epoch: int, now: int) -> int | None: start a ready run of steps, and return the number of its round.
--   No worker owns it, and its attempts count the rounds. None when another worker was faster
UPDATE runs SET state = {running}, epoch = epoch + 1, attempt = attempt + 1, started_at = :now, owner = NULL, reason = NULL
WHERE id = :run_id AND epoch = :epoch AND state = {ready} RETURNING attempt;

-- insert_step: add a step of a run
INSERT INTO runs (id, schedule_id, rev, state, exclusive, scope, epoch, attempt, not_before, planned_at, started_at,
  ended_at, slots, reason, evidence, outcome, parent, step, round, place, given)
VALUES (:id, :schedule_id, :rev, :state, 0, :scope, 0, 0, :not_before, :planned_at, :started_at, :ended_at, 1, :reason, :evidence,
  :outcome, :parent, :step, :round, :place, :given);

-- steps_of(run_id: int) -> list[RunRow]: the steps of a run in its last round, by number
SELECT r.id, r.schedule_id, s.name AS schedule, s.agent, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of, r.given, r.for_slot, r.backfill
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.parent = :run_id AND r.round = (SELECT max(round) FROM runs WHERE parent = :run_id) ORDER BY r.step;

-- set_retry(run_id: int, retry_of: int, retry_from: int | None) -> None: set the run whose successful steps a new run
--   carries over
UPDATE runs SET retry_of = :retry_of, retry_from = :retry_from WHERE id = :run_id;

-- retry_of(run_id: int) -> tuple[int | None, int | None]: the run whose successful steps a run carries over, and the step
--   from which everything runs again
SELECT retry_of, retry_from FROM runs WHERE id = :run_id;

-- nominal_slot(run_id: int) -> int | None: the slot of the run that this is a step of
SELECT coalesce(p.slot, p.for_slot) FROM runs r JOIN runs p ON p.id = r.parent WHERE r.id = :run_id;
