-- started: started runs of one worker, or of all others
SELECT id, schedule_id, rev, slot, epoch, attempt, state, owner, cancelling, step FROM runs
WHERE state {live} AND state >= {starting} AND (owner = :worker) = :mine;

-- manual_runs: how many started runs of a schedule were started by hand
SELECT count(*) FROM runs r WHERE r.schedule_id = :id AND r.step = 0 AND r.slot IS NULL AND r.started_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM call_runs c WHERE c.run_id = r.id);

-- orphans: started runs whose worker has stopped or is unknown; a run that has no worker is not one
SELECT id, schedule_id, rev, slot, epoch, attempt, state, owner, cancelling, step FROM runs
WHERE state {live} AND state >= {starting} AND state < {held}
  AND owner NOT IN (SELECT id FROM workers WHERE stopped_at IS NULL) ORDER BY id;

-- owner_of: the worker of a started run, unless it has stopped
SELECT w.id, w.identity, w.beat, w.offers FROM runs r JOIN workers w ON w.id = r.owner AND w.stopped_at IS NULL WHERE r.id = :run_id;

-- suspend_runs: hold the queued and ready runs of a paused schedule
UPDATE runs SET state = {waiting}, reason = 'paused'
WHERE schedule_id = :id AND state {live} AND state IN ({queued}, {ready}) RETURNING id;

-- undefer_runs: let deferred runs start after the clock was set back
UPDATE runs SET not_before = :now WHERE state {live} AND state <= {ready} AND not_before > :now;

-- run_by_request: the run of a request key
SELECT id FROM runs WHERE schedule_id = :id AND request_key = :key;

-- run: one run
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM runs r JOIN schedules s ON s.id = r.schedule_id WHERE r.id = :id;

-- covered: what runs of the schedule cover at or after an instant, in order
SELECT coalesce(first_slot, slot) AS first, slot FROM runs WHERE schedule_id = :id AND step = 0 AND slot >= :since
UNION ALL SELECT :since, purged_slot FROM schedules WHERE id = :id AND purged_slot >= :since ORDER BY 2;

-- next_recorded: what the next run of the schedule covers at or after an instant
SELECT coalesce(first_slot, slot) AS first, slot FROM runs WHERE schedule_id = :id AND step = 0 AND slot >= :since
ORDER BY slot LIMIT 1;

-- runs_ahead: runs of slots after an instant, by id
SELECT id, schedule_id, rev, slot, first_slot, state, started_at FROM runs
WHERE slot > :now AND id > :after ORDER BY id LIMIT :limit;

-- set_range: change what a run covers
UPDATE runs SET slot = :slot, first_slot = :first, slots = :slots WHERE id = :id;

-- shrink_limit: delete free surplus units
DELETE FROM permits WHERE scope = :scope AND n > :size AND run_id IS NULL;

-- keep_surplus_permits: give surplus units in use a number below 0; they are deleted when they are released
UPDATE permits SET n = -n WHERE scope = :scope AND n > :size;

-- restore_permits: restore surplus units when the limit is raised
UPDATE permits SET n = -n WHERE scope = :scope AND n < 0 AND n >= -:size;

-- limits: limited scopes, their size and the units in use
SELECT scope, count(*) FILTER (WHERE n > 0) AS size, count(run_id) AS in_use FROM permits GROUP BY scope;

-- held_permits: the units that runs hold while they wait for a person
SELECT p.scope, p.run_id FROM permits p JOIN runs r ON r.id = p.run_id WHERE r.state = {held};

-- workers: workers that have not stopped
SELECT id, identity, beat, offers FROM workers WHERE stopped_at IS NULL ORDER BY id;

-- set_offers: what a worker has for runs that need it
UPDATE workers SET offers = :offers WHERE id = :id AND offers <> :offers;

-- offers: what workers offer and have offered
SELECT DISTINCT offers FROM workers;

-- stop_worker: mark a worker as stopped or dead
UPDATE workers SET stopped_at = :now WHERE id = :id AND stopped_at IS NULL RETURNING id;

-- report_outcome: set the outcome that an agent reports while its attempt runs
UPDATE attempts SET reported = :reported WHERE run_id = :run_id AND epoch = :epoch;

-- reported_outcome: the outcome that an agent reported in an attempt
SELECT reported FROM attempts WHERE run_id = :run_id AND epoch = :epoch;

-- runs_in_hand: runs that a worker has, or that need a person, the oldest first
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.state BETWEEN {starting} AND {held} AND r.step = 0 ORDER BY r.id LIMIT :limit;

-- unfold: start a run of steps; no worker owns it, and its attempts count the rounds
UPDATE runs SET state = {running}, epoch = epoch + 1, attempt = attempt + 1, started_at = :now, owner = NULL, reason = NULL
WHERE id = :id AND epoch = :epoch AND state = {ready} RETURNING attempt;

-- insert_step: add a step of a run
INSERT INTO runs (id, schedule_id, rev, state, exclusive, scope, epoch, attempt, not_before, planned_at, started_at,
  ended_at, slots, reason, evidence, outcome, parent, step, round, place)
VALUES (:id, :schedule_id, :rev, :state, 0, :scope, 0, 0, :not_before, :planned_at, :started_at, :ended_at, 1, :reason, :evidence,
  :outcome, :parent, :step, :round, :place);

-- steps_of: the steps of a run in its last round
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.parent = :id AND r.round = (SELECT max(round) FROM runs WHERE parent = :id) ORDER BY r.step;

-- set_retry: set the run whose successful steps a new run carries over
UPDATE runs SET retry_of = :retry_of, retry_from = :retry_from WHERE id = :id;

-- retry_of: the run whose successful steps a run carries over, and the step from which everything runs again
SELECT retry_of, retry_from FROM runs WHERE id = :id;

-- nominal_slot: the slot of a step's run
SELECT p.slot FROM runs r JOIN runs p ON p.id = r.parent WHERE r.id = :id;

-- last_chain_start: the root of a schedule's chain, and the last start of what agents made in it, from one instant to now
WITH RECURSIVE above (id, parent) AS (
  SELECT id, parent FROM schedules WHERE id = :id
  UNION SELECT s.id, s.parent FROM schedules s JOIN above a ON s.id = a.parent
), chain (id) AS (
  SELECT id FROM above WHERE parent IS NULL
  UNION SELECT s.id FROM schedules s JOIN chain c ON s.parent = c.id
)
SELECT (SELECT min(id) FROM above WHERE parent IS NULL) AS root, max(r.started_at) AS started_at
FROM chain c JOIN schedules s ON s.id = c.id AND s.creator_role = 'agent'
JOIN runs r ON r.schedule_id = s.id AND r.step = 0 AND r.started_at BETWEEN :since AND :now;

-- count_places: the number of sets of needs, which engines compare
SELECT count(*) FROM places;

-- places: all sets of needs
SELECT id, needs FROM places;

-- place: the number of a set of needs
SELECT id FROM places WHERE needs = :needs;

-- insert_place: add a set of needs
INSERT INTO places (needs) VALUES (:needs) ON CONFLICT (needs) DO NOTHING;

-- ready_places: the places in which runs are ready; a walk from key to key, not over the rows
WITH RECURSIVE p (place) AS (
  SELECT min(place) FROM runs WHERE state = {ready}
  UNION ALL SELECT (SELECT min(r.place) FROM runs r WHERE r.state = {ready} AND r.place > p.place) FROM p WHERE p.place IS NOT NULL)
SELECT p.place, (SELECT min(r.not_before) FROM runs r WHERE r.state = {ready} AND r.place = p.place) AS not_before
FROM p WHERE p.place IS NOT NULL;

-- ready_in: runs of a place that might have started since an instant
SELECT id FROM runs WHERE state = {ready} AND place = :place AND not_before <= :since AND id > :after ORDER BY id LIMIT :limit;

-- move_runs: move runs that have not started to another place
UPDATE runs SET place = :after WHERE state {live} AND state <= {ready} AND scope = :scope AND place = :before;

-- report_place: note that no engine can do the runs of a place
UPDATE places SET reported_at = :now WHERE id = :id AND reported_at IS NULL RETURNING id;

-- clear_report: an engine can do the runs of a place again
UPDATE places SET reported_at = NULL WHERE id = :id AND reported_at IS NOT NULL;
