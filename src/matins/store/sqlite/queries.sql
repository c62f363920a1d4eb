-- lock_due: the cursors of these schedules
SELECT d.schedule_id, d.next_slot AS slot, d.rev, d.window_used, d.executions, d.failures, d.failed_at
FROM json_each(:ids) j JOIN due d ON d.schedule_id = j.value;

-- next_ready: the instant at which the next ready run of a place may start
SELECT not_before FROM runs WHERE state = {ready} AND place = :place
  AND (scope IS NULL OR scope NOT IN (SELECT value FROM json_each(:without))) ORDER BY not_before LIMIT 1;

-- definitions: the definitions of schedules at a revision
SELECT s.id AS schedule_id, v.rev, s.name, s.agent, v.definition, s.uid,
  CASE WHEN s.creator_role = 'agent' THEN s.created_by END AS creator
FROM json_each(:keys) j JOIN revisions v ON v.schedule_id = j.value ->> 0 AND v.rev = j.value ->> 1
JOIN schedules s ON s.id = v.schedule_id;

-- live: the live runs of these schedules, without their steps
SELECT r.schedule_id, r.id, r.state FROM json_each(:ids) j JOIN runs r ON r.schedule_id = j.value
WHERE r.state {live} AND r.parent IS NULL;

-- advance: move a cursor that has not changed since it was read
UPDATE due SET next_slot = ?4, due_at = ?5, window_used = ?6, executions = ?7, waiting = ?5 IS NULL AND ?4 IS NOT NULL
WHERE schedule_id = ?1 AND next_slot = ?2 AND rev = ?3;

-- set_cursor: set the next slot of an interval that counts from completion, also after a run with its own revision
UPDATE due SET next_slot = ?3, due_at = CASE WHEN paused THEN NULL ELSE ?4 END, waiting = 0
WHERE schedule_id = ?1 AND waiting = 1
  AND (rev = ?2 OR NOT EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = ?1 AND r.state {live} AND r.parent IS NULL));

-- insert_run: add a run
INSERT INTO runs (id, schedule_id, rev, slot, request_key, state, exclusive, scope, epoch, attempt, owner, not_before,
  planned_at, started_at, ended_at, slots, first_slot, reason, evidence, place)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- insert_attempt: add an attempt, durable before the start
INSERT INTO attempts (run_id, epoch, owner, started_at) VALUES (?, ?, ?, ?);

-- ready: runs of a place that may start
SELECT id, schedule_id, rev, slot, epoch, attempt, slots, first_slot, planned_at, cancelling, cleared, step, not_before
FROM runs
WHERE state = {ready} AND place = :place AND not_before <= :now AND (scope IS NULL OR scope NOT IN (SELECT value FROM json_each(:without)))
ORDER BY not_before LIMIT :limit;

-- claim: from ready to starting, at a new epoch
UPDATE runs SET state = {starting}, epoch = epoch + 1, attempt = attempt + 1, owner = ?3, started_at = ?4
WHERE id = ?1 AND epoch = ?2 AND state = {ready} RETURNING id;

-- take_permit: take one free unit of a scope
UPDATE permits SET run_id = :run WHERE scope = :scope AND n = (SELECT min(n) FROM permits WHERE scope = :scope AND run_id IS NULL)
RETURNING n;

-- delete_surplus_permits: delete the units of these runs beyond a lowered limit
DELETE FROM permits WHERE n < 0 AND run_id IN (SELECT value FROM json_each(:ids));

-- release_permits: release the units of these runs
UPDATE permits SET run_id = NULL WHERE run_id IN (SELECT value FROM json_each(:ids));

-- change_states: a named transition of a started run, only at its own epoch
UPDATE runs SET state = ?5, not_before = ?6, ended_at = ?7, reason = ?8, outcome = ?9, 
  evidence = CASE WHEN ?10 IS NULL THEN evidence WHEN evidence ->> '$.by' IS NULL THEN ?10
    ELSE json_set(?10, '$.by', json(evidence -> '$.by')) END,
  cleared = cleared | ?11, epoch = epoch + ?12
WHERE id = ?1 AND epoch = ?2 AND state BETWEEN ?3 AND ?4;

-- succeed: end a started run as succeeded, only at its own epoch
UPDATE runs SET state = {succeeded}, not_before = NULL, ended_at = ?3, reason = NULL, outcome = NULL
WHERE id = ?1 AND epoch = ?2 AND state BETWEEN {starting} AND {held};

-- release: make a claimed run that did not start ready again; the attempt is not counted
UPDATE runs SET state = {ready}, attempt = attempt - 1, owner = NULL, not_before = ?3 WHERE id = ?1 AND epoch = ?2 AND state = {starting}
RETURNING id;

-- promote: make the oldest queued run of each of these schedules ready, if no other run is active
UPDATE runs SET state = {ready}, not_before = :now, reason = NULL WHERE id IN (
  SELECT min(q.id) FROM json_each(:ids) j JOIN runs q ON q.schedule_id = j.value
  WHERE q.state {live} AND q.parent IS NULL GROUP BY q.schedule_id HAVING max(q.state) = {queued} AND min(q.state) = {queued})
RETURNING id, schedule_id;

-- any_failing: whether a schedule has failures that a success resets
SELECT 1 FROM due WHERE failures > 0 LIMIT 1;

-- count_failure: add a consecutive failure, or reset to 0
UPDATE due SET failures = CASE WHEN ?2 IS NULL THEN 0 ELSE failures + 1 END, failed_at = ?2
WHERE schedule_id = ?1 AND (?2 IS NOT NULL OR failures > 0);

-- mark_cancelling: mark started runs as cancelling
UPDATE runs SET cancelling = 1 WHERE id IN (SELECT value FROM json_each(:ids)) AND state BETWEEN {starting} AND {held} AND cancelling = 0
RETURNING id, schedule_id, owner;

-- live_runs: the live runs among these
SELECT r.id, r.schedule_id, r.rev, r.slot, r.epoch, r.attempt, r.state, r.owner, r.cancelling, r.step
FROM json_each(:ids) j JOIN runs r ON r.id = j.value WHERE r.state {live};

-- insert_event: add a link to a chain
INSERT INTO events (writer, seq, at, type, schedule_id, run_id, data, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- last_schedule: the newest schedule id
SELECT max(id) FROM schedules;

-- taken_names: the first of these (agent, name) that exists
SELECT s.name FROM json_each(:names) j JOIN schedules s ON s.name = j.value ->> 1 AND s.agent = j.value ->> 0
WHERE s.state <> 'removed' LIMIT 1;

-- resume_runs: queue the held runs of a resumed schedule again
UPDATE runs SET state = CASE WHEN exclusive THEN {queued} ELSE {ready} END, reason = NULL, not_before = max(not_before, :now)
WHERE schedule_id = :id AND state {live} AND state = {waiting} AND reason = 'paused';

-- insert_schedule: add a schedule
INSERT INTO schedules (id, agent, name, state, rev, created_at, updated_at, created_by, creator_role, creator_run, parent, depth)
VALUES (?1, ?2, ?3, ?5, 1, ?4, ?4, ?6, ?7, ?8, ?9, ?10);

-- insert_revision: add a definition
INSERT INTO revisions (schedule_id, rev, definition) VALUES (?, ?, ?);

-- insert_due: add the cursor of a new schedule
INSERT INTO due (schedule_id, next_slot, due_at, rev, paused) VALUES (?, ?, ?, 1, ?);

-- runs_of: a schedule's runs, the newest first; the index alone finds the page, before rows are read
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM (SELECT id FROM runs INDEXED BY runs_slot WHERE schedule_id = :id AND step = 0 AND id < :before ORDER BY id DESC LIMIT :limit) page
  CROSS JOIN runs r ON r.id = page.id CROSS JOIN schedules s ON s.id = r.schedule_id ORDER BY r.id DESC;

-- previous_state: the outcome of the run before this one
SELECT state FROM runs INDEXED BY runs_slot WHERE schedule_id = :id AND step = 0 AND id < :run AND state IN ({succeeded}, {failed}, {interrupted}, {unknown}) ORDER BY id DESC LIMIT 1;

-- grow_limit: add a unit if it is missing
INSERT INTO permits (scope, n) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- insert_worker: add a process that runs the loops
INSERT INTO workers (identity, beat, started_at, offers) VALUES (:identity, 0, :now, :offers) RETURNING id;

-- heartbeat: record a heartbeat
UPDATE workers SET beat = beat + 1 WHERE id = :id AND stopped_at IS NULL RETURNING beat;

-- insert_writer: add a connection that writes events
INSERT INTO writers (uuid, opened_at) VALUES (?1, ?2) RETURNING id;

-- heads: the last link of every chain that grew since a seal
SELECT e.writer, e.seq, e.hash, e.id FROM writers w JOIN events e
  ON e.id = (SELECT id FROM events WHERE writer = w.id AND id > :since ORDER BY id DESC LIMIT 1)
ORDER BY e.writer;

-- links: where events are in their chains
SELECT id, writer, seq, hash FROM events WHERE id IN (SELECT value FROM json_each(:ids));

-- bound_runs: what the log knows of runs
SELECT id, schedule_id, rev, slot, first_slot, slots, state, epoch, attempt, planned_at, started_at, ended_at, parent, step,
  CASE WHEN owner IS NULL AND started_at IS NOT NULL THEN EXISTS (SELECT 1 FROM runs s WHERE s.parent = r.id) ELSE 0 END AS unfolded,
  reason, evidence, outcome
FROM runs r WHERE id IN (SELECT value FROM json_each(:ids));

-- bound_revisions: the revisions of schedules, of which the log has digests
SELECT r.schedule_id, r.rev, s.agent, s.name, s.created_by, s.creator_role, s.creator_run, s.parent, s.depth, r.author,
  r.author_role, r.definition
FROM revisions r JOIN schedules s ON s.id = r.schedule_id WHERE r.schedule_id IN (SELECT value FROM json_each(:ids));

-- bound_attempts: what the log knows of the attempts of runs
SELECT run_id, epoch, owner, started_at FROM attempts WHERE run_id IN (SELECT value FROM json_each(:ids));

-- unplanned_runs: runs whose beginning is not in the log
SELECT id FROM runs WHERE planned_at >= :since
EXCEPT SELECT run_id FROM events WHERE type IN (SELECT value FROM json_each(:types)) AND (data -> '$.slot' IS NOT NULL OR data -> '$.of' IS NOT NULL) ORDER BY 1 LIMIT 10;

-- unlogged_attempts: attempts that are not in the log
SELECT run_id, epoch FROM attempts WHERE started_at >= :since
EXCEPT SELECT run_id, coalesce(data ->> '$.epoch', 1) FROM events WHERE type IN (SELECT value FROM json_each(:types)) ORDER BY 1, 2 LIMIT 10;

-- unlogged_runs: runs whose end is not in the log
SELECT id FROM runs WHERE state {ended} AND ended_at >= :since
EXCEPT SELECT run_id FROM events WHERE type IN (SELECT value FROM json_each(:types)) ORDER BY 1 LIMIT 10;

-- unlogged_approvals: requests that are not in the log
SELECT id FROM approvals WHERE requested_at >= :since EXCEPT
SELECT CAST(data ->> '$.approval' AS INTEGER) FROM events WHERE type IN ('approval.requested', 'approval.edited') ORDER BY 1 LIMIT 10;

-- unlogged_votes: votes that are not in the log
SELECT approval_id, voter FROM votes WHERE at >= :since EXCEPT
SELECT CAST(data ->> '$.approval' AS INTEGER), data ->> '$.who' FROM events WHERE type = 'approval.voted' ORDER BY 1, 2 LIMIT 10;

-- last_event: the newest event
SELECT max(id) FROM events;

-- last_seal: the newest seal
SELECT upto, hash FROM seals ORDER BY id DESC LIMIT 1;

-- insert_seal: add a seal over the heads of all chains
INSERT INTO seals (at, upto, heads, hash) VALUES (:now, :newest, :heads, :hash);

-- events_after: a page of events
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > :after ORDER BY id LIMIT :limit;

-- prunable: runs that ended before an instant, and whose slot has passed, among the oldest
SELECT id FROM (SELECT id, schedule_id, slot, ended_at, state, step FROM runs ORDER BY id LIMIT 20000) r
WHERE step = 0 AND ended_at < :before AND state {ended} AND (slot IS NULL OR slot <= :now
  AND NOT EXISTS (SELECT 1 FROM due d WHERE d.schedule_id = r.schedule_id AND d.next_slot <= r.slot))
ORDER BY id LIMIT :limit;

-- prunable_beyond: ended runs beyond the newest N of their schedule whose slot has passed
SELECT id FROM (
  SELECT id, schedule_id, slot, state, row_number() OVER (PARTITION BY schedule_id ORDER BY id DESC) AS place FROM runs
  WHERE step = 0) r
WHERE place > :newest AND state {ended} AND (slot IS NULL OR slot <= :now
  AND NOT EXISTS (SELECT 1 FROM due d WHERE d.schedule_id = r.schedule_id AND d.next_slot <= r.slot))
ORDER BY id LIMIT :limit;

-- note_purged: record the last slots of runs that will be deleted
UPDATE schedules SET purged_slot = p.slot FROM (
  SELECT schedule_id, max(slot) AS slot FROM runs WHERE id IN (SELECT value FROM json_each(:ids)) GROUP BY schedule_id) p
WHERE schedules.id = p.schedule_id AND p.slot > coalesce(purged_slot, p.slot - 1);

-- delete_runs: delete ended runs
DELETE FROM runs WHERE id IN (SELECT value FROM json_each(:ids)) AND state {ended};

-- steps_of_runs: all steps of these runs
SELECT r.id FROM json_each(:ids) j JOIN runs r ON r.parent = j.value;

-- live_steps: the live steps of these runs
SELECT r.id FROM json_each(:ids) j JOIN runs r ON r.parent = j.value WHERE r.state {live};

-- parents_of: the runs that these are steps of
SELECT DISTINCT r.parent FROM json_each(:ids) j JOIN runs r ON r.id = j.value WHERE r.parent IS NOT NULL ORDER BY r.parent;

-- delete_run_usage: delete what their steps spent together
DELETE FROM purses WHERE period = 'run' AND whose IN (SELECT 'run:' || value FROM json_each(:ids));

-- delete_attempts: delete their attempts
DELETE FROM attempts WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_checks: delete their checks
DELETE FROM checks WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_spend: delete their spending
DELETE FROM spend WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_approvals: delete their requests for approval that are not pending; the newest is kept, so ids stay unique, and
-- so is the last that was approved of each schedule
DELETE FROM approvals WHERE run_id IN (SELECT value FROM json_each(:ids)) AND state <> 'pending'
  AND id < (SELECT max(id) FROM approvals)
  AND NOT (state = 'used' AND id = (SELECT max(g.id) FROM approvals g
    WHERE g.schedule_id = approvals.schedule_id AND g.state = 'used' AND g.kind IN ('schedule', 'run')));

-- prunable_events: the last old event of each chain; the newest event is kept, because ids continue from it
SELECT writer, max(seq) FROM events
WHERE id < coalesce((SELECT id FROM events WHERE at >= :before ORDER BY id LIMIT 1), (SELECT max(id) FROM events)) GROUP BY writer;

-- event_hash: the hash of one link
SELECT hash FROM events WHERE writer = :writer AND seq = :seq;

-- mark_pruned: set where a chain starts
UPDATE writers SET pruned_seq = :seq, pruned_hash = :hash WHERE id = :writer AND pruned_seq < :seq;

-- pruned_of_types: events of these types among the first events of a chain
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events
WHERE writer = :writer AND seq <= :seq AND type IN (SELECT value FROM json_each(:types));

-- delete_events: delete the first events of a chain
DELETE FROM events WHERE writer = :writer AND seq <= :seq;

-- reserve_run_ids: reserve a block of run ids
UPDATE meta SET value = value + :size WHERE key = 'next_run_id' RETURNING value - :size;

-- newest_runs: the last run of each schedule, found by the index on slots; manual runs have no slot
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM json_each(:ids) j JOIN schedules s ON s.id = j.value
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- started_runs: the last run of each schedule that has started; later ones may have been skipped
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM json_each(:ids) j JOIN schedules s ON s.id = j.value
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL AND started_at IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL AND started_at IS NOT NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- file_entries_named: the file's records of a kind, by name
SELECT f.kind, f.name, f.path, f.line, f.digest FROM json_each(:names) j JOIN file_entries f ON f.kind = :kind AND f.name = j.value;

-- records_of: the records of these schedules in a range of ids that lie in a window, the newest first
SELECT r.id, r.schedule_id, s.name, s.agent, r.rev, r.state, r.slot, r.slots, coalesce(r.started_at, r.slot, r.planned_at) AS begins,
  r.reason, r.not_before, r.started_at, r.ended_at
FROM runs r CROSS JOIN schedules s ON s.id = r.schedule_id
WHERE r.id >= :low AND r.id < :high AND r.step = 0 AND r.schedule_id IN (SELECT value FROM json_each(:ids))
  AND coalesce(r.started_at, r.slot, r.planned_at) < :until
  AND CASE WHEN r.started_at IS NULL THEN coalesce(r.slot, r.planned_at) ELSE coalesce(r.ended_at, :until) END >= :since
ORDER BY r.id DESC;

-- last_records: the last records of these schedules, found by the index on slots; manual runs have no slot
SELECT r.schedule_id, r.id, r.state, r.slot, r.slots, r.attempt, r.planned_at, r.started_at, r.ended_at, r.reason
FROM json_each(:ids) j CROSS JOIN runs r ON r.id IN (SELECT id FROM (
  SELECT id FROM (SELECT id FROM runs WHERE schedule_id = j.value AND step = 0 AND slot IS NOT NULL ORDER BY slot DESC LIMIT :limit)
  UNION ALL SELECT id FROM (SELECT id FROM runs WHERE schedule_id = j.value AND step = 0 AND slot IS NULL ORDER BY id DESC LIMIT :limit)
) newest ORDER BY id DESC LIMIT :limit)
ORDER BY r.schedule_id, r.id DESC;

-- spent_by: what these runs have spent so far, each with its steps
SELECT j.value AS run_id, CAST(sum(p.money) AS bigint) AS money, CAST(sum(p.tokens) AS bigint) AS tokens
FROM json_each(:ids) j JOIN spend p ON p.run_id = j.value OR p.run_id IN (SELECT id FROM runs WHERE parent = j.value)
GROUP BY j.value;

-- run_places: the agents of runs, the processes that run them, and those that started their present attempts
SELECT r.id, s.agent, w.identity AS worker, b.identity AS starter FROM json_each(:ids) j JOIN runs r ON r.id = j.value
JOIN schedules s ON s.id = r.schedule_id LEFT JOIN workers w ON w.id = r.owner
LEFT JOIN attempts a ON a.run_id = r.id AND a.epoch = r.epoch LEFT JOIN workers b ON b.id = a.owner;

-- schedules_with: schedules by their ids
SELECT s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs
FROM json_each(:ids) j JOIN schedules s ON s.id = j.value
JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id;

-- votes: the votes on requests
SELECT v.approval_id, v.voter, v.vote, v.at, v.note, v.digest FROM json_each(:ids) j JOIN votes v ON v.approval_id = j.value
ORDER BY v.at, v.voter;

-- runs_of_calls: the runs of calls
SELECT l.call_id, r.id, s.name AS schedule, r.state, r.reason FROM json_each(:ids) j JOIN call_runs l ON l.call_id = j.value
JOIN runs r ON r.id = l.run_id JOIN schedules s ON s.id = r.schedule_id ORDER BY r.id;

-- open_incidents: the open incidents of these schedules, the oldest first
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE schedule_id IN (SELECT value FROM json_each(:ids)) AND resolved_at IS NULL ORDER BY id;

-- incident_events: events that may change incidents, and the successes of schedules that have one
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > :after AND id <= :upto AND (
  type IN (SELECT value FROM json_each(:types)) OR (type = 'run.succeeded' AND schedule_id IN (
    SELECT schedule_id FROM incidents WHERE resolved_at IS NULL
    UNION ALL SELECT schedule_id FROM events
    WHERE id > :after AND id <= :upto AND type IN (SELECT value FROM json_each(:types)))))
ORDER BY id LIMIT :limit;
