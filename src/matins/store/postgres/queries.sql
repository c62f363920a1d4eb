-- session: settings of every connection; each join starts with a few ids, so stale statistics must not choose the plan
SET statement_timeout = 4500; SET lock_timeout = 4000; SET idle_in_transaction_session_timeout = 4500;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';

-- search_path: the tables of this connection
SELECT set_config('search_path', %(path)b, false);

-- patience: longer timeouts, and one migrating process at a time
SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 60000;
SELECT pg_advisory_xact_lock(hashtext('matins'), hashtext(current_schema()));

-- tables: the tables of the schema
SELECT current_schema(), array_agg(t.table_name::text) FROM information_schema.tables t WHERE t.table_schema = current_schema();

-- applied: the applied migrations
SELECT number, checksum FROM migrations ORDER BY number;

-- insert_migration: record a migration
INSERT INTO migrations VALUES (%(number)b, %(name)b, %(checksum)b, %(now)b);

-- rebase: transaction ids start again in a copy on another server, but event ids must not
UPDATE meta SET value = (last + 1 - xact)::text
FROM (SELECT coalesce((SELECT max(id) >> 22 FROM events), 0) AS last, pg_current_xact_id()::text::bigint AS xact) x
WHERE key = 'xact_base' AND value::bigint + xact <= last;

-- database_time: the server's clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- lock_due: the cursors of these schedules, locked
SELECT schedule_id, next_slot AS slot, rev, window_used, executions, failures, failed_at FROM due
WHERE schedule_id = ANY(%(ids)b) ORDER BY schedule_id FOR UPDATE;

-- try_lock_due: lock these cursors without waiting
SELECT schedule_id FROM due WHERE schedule_id = ANY(%(ids)b) ORDER BY schedule_id FOR UPDATE SKIP LOCKED;

-- lock_due_of: lock the cursors of these runs' schedules: cursors are locked before runs
SELECT schedule_id, failures FROM due WHERE schedule_id = ANY(ARRAY(SELECT schedule_id FROM runs WHERE id = ANY(%(ids)b)))
ORDER BY schedule_id FOR UPDATE;

-- next_ready: the instant at which the next ready run of these places may start
SELECT min(r.not_before) FROM unnest(%(places)b) p (place) CROSS JOIN LATERAL (
  SELECT not_before FROM runs WHERE state = {ready} AND place = p.place AND (scope IS NULL OR scope <> ALL(%(without)b))
  ORDER BY not_before LIMIT 1) r;

-- definitions: the definitions of schedules at a revision
SELECT s.id AS schedule_id, v.rev, s.name, s.agent, v.definition, s.uid,
  CASE WHEN s.creator_role = 'agent' THEN s.created_by END AS creator
FROM unnest(%(ids)b, %(revs)b) u (id, rev)
JOIN revisions v ON v.schedule_id = u.id AND v.rev = u.rev JOIN schedules s ON s.id = v.schedule_id;

-- live: the live runs of these schedules, without their steps
SELECT schedule_id, id, state FROM runs WHERE schedule_id = ANY(%(ids)b) AND state {live} AND parent IS NULL ORDER BY schedule_id, id;

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

-- run_ids: ids for new runs; those of one schedule ascend, because its lock is held
SELECT nextval('run_ids') FROM generate_series(1, %(count)b);

-- copy_runs: add runs
COPY runs (id, schedule_id, rev, slot, request_key, state, exclusive, scope, epoch, attempt, owner, not_before,
  planned_at, started_at, ended_at, slots, first_slot, reason, evidence, place) FROM STDIN (FORMAT binary);

-- copy_attempts: add attempts, durable before the start
COPY attempts (run_id, epoch, owner, started_at) FROM STDIN (FORMAT binary);

-- ready: runs of these places that may start
SELECT r.id, r.schedule_id, r.rev, r.slot, r.epoch, r.attempt, r.slots, r.first_slot, r.planned_at,
  r.cancelling, r.cleared, r.step, r.not_before
FROM unnest(%(places)b) p (place) CROSS JOIN LATERAL (
  SELECT id, schedule_id, rev, slot, epoch, attempt, slots, first_slot, planned_at, cancelling, cleared, step, not_before
  FROM runs
  WHERE state = {ready} AND place = p.place AND not_before <= %(now)b AND (scope IS NULL OR scope <> ALL(%(without)b))
  ORDER BY not_before LIMIT %(limit)b FOR UPDATE SKIP LOCKED) r
ORDER BY r.not_before LIMIT %(limit)b;

-- claim: from ready to starting, at a new epoch
UPDATE runs r SET state = {starting}, epoch = r.epoch + 1, attempt = r.attempt + 1, owner = u.owner, started_at = u.now
FROM unnest(%(run_id)b, %(epoch)b, %(owner)b, %(now)b) u (id, epoch, owner, now)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state = {ready} RETURNING r.id;

-- take_permit: take one free unit of a scope
UPDATE permits SET run_id = %(run)b WHERE scope = %(scope)b AND n = (
  SELECT n FROM permits WHERE scope = %(scope)b AND run_id IS NULL AND n > 0 ORDER BY n LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING n;

-- delete_surplus_permits: delete the units of these runs beyond a lowered limit
DELETE FROM permits WHERE n < 0 AND run_id = ANY(%(ids)b);

-- release_permits: release the units of these runs
UPDATE permits SET run_id = NULL WHERE run_id = ANY(%(ids)b);

-- change_states: named transitions of started runs, only at their own epochs
UPDATE runs r SET state = u.target, not_before = u.not_before, ended_at = u.ended_at, reason = u.reason, outcome = u.outcome,
  evidence = CASE WHEN u.evidence IS NULL THEN r.evidence WHEN r.evidence::jsonb -> 'by' IS NULL THEN u.evidence
    ELSE (u.evidence::jsonb || jsonb_build_object('by', r.evidence::jsonb -> 'by'))::text END, cleared = r.cleared | u.gates_passed, epoch = r.epoch + u.new_epoch
FROM unnest(%(run_id)b, %(epoch)b, %(low)b, %(high)b, %(target)b, %(not_before)b, %(ended_at)b, %(reason)b, %(outcome)b,
    %(evidence)b, %(gates_passed)b, %(new_epoch)b)
  u (id, epoch, low, high, target, not_before, ended_at, reason, outcome, evidence, gates_passed, new_epoch)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state BETWEEN u.low AND u.high
RETURNING u.id, u.epoch, r.cancelling;

-- release: make a claimed run that did not start ready again; the attempt is not counted
UPDATE runs r SET state = {ready}, attempt = r.attempt - 1, owner = NULL, not_before = u.not_before
FROM unnest(%(run_id)b, %(epoch)b, %(not_before)b) u (id, epoch, not_before)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state = {starting} RETURNING r.id;

-- promote: make the oldest queued run of each of these schedules ready, if no other run is active
UPDATE runs SET state = {ready}, not_before = %(now)b, reason = NULL WHERE state = {queued} AND id = ANY(ARRAY(
  SELECT min(id) FROM runs WHERE schedule_id = ANY(%(ids)b) AND state {live} AND parent IS NULL
  GROUP BY schedule_id HAVING max(state) = {queued} AND min(state) = {queued}))
RETURNING id, schedule_id;

-- succeed: end started runs as succeeded, only at their own epochs
UPDATE runs r SET state = {succeeded}, not_before = NULL, ended_at = u.at, reason = NULL, outcome = NULL
FROM unnest(%(ids)b, %(epochs)b, %(instants)b) u (id, epoch, at)
WHERE r.id = u.id AND r.epoch = u.epoch AND r.state BETWEEN {starting} AND {held} RETURNING u.id, u.epoch;

-- count_failures: add consecutive failures, or start again from 0
UPDATE due d SET failures = CASE WHEN u.afresh = 1 THEN u.more ELSE d.failures + u.more END, failed_at = u.failed_at
FROM unnest(%(schedule_id)b, %(afresh)b, %(more)b, %(failed_at)b) u (id, afresh, more, failed_at)
WHERE d.schedule_id = u.id AND (u.more > 0 OR d.failures > 0);

-- mark_cancelling: mark started runs as cancelling
UPDATE runs SET cancelling = 1 WHERE id = ANY(%(ids)b) AND state BETWEEN {starting} AND {held} AND cancelling = 0
RETURNING id, schedule_id, owner;

-- live_runs: the live runs among these
SELECT id, schedule_id, rev, slot, epoch, attempt, state, owner, cancelling, step FROM runs
WHERE id = ANY(%(ids)b) AND state {live} ORDER BY id FOR UPDATE;

-- schedule_ids: ids for new schedules
SELECT nextval('schedule_ids') FROM generate_series(1, %(count)b);

-- insert_schedules: add schedules, their definitions and their cursors
WITH u AS MATERIALIZED (
  SELECT * FROM unnest(%(id)b, %(agent)b, %(name)b, %(definition)b, %(next_slot)b, %(due_at)b, %(state)b, %(created_by)b,
      %(creator_role)b, %(creator_run)b, %(parent)b, %(depth)b)
    u (id, agent, name, definition, slot, due_at, state, created_by, creator_role, creator_run, parent, depth)),
s AS (INSERT INTO schedules (id, agent, name, state, rev, created_at, updated_at, created_by, creator_role, creator_run,
    parent, depth)
  SELECT id, agent, name, state, 1, %(now)b, %(now)b, created_by, creator_role, creator_run, parent, depth FROM u),
v AS (INSERT INTO revisions (schedule_id, rev, definition) SELECT id, 1, definition FROM u)
INSERT INTO due (schedule_id, next_slot, due_at, rev, paused) SELECT id, slot, due_at, 1, state <> 'active' FROM u;

-- taken_names: the first of these (agent, name) that exists
SELECT s.name FROM unnest(%(agents)b, %(names)b) u (agent, name) JOIN schedules s ON s.name = u.name AND s.agent = u.agent
WHERE s.state <> 'removed' LIMIT 1;

-- resume_runs: queue the held runs of a resumed schedule again
UPDATE runs SET state = CASE WHEN exclusive = 1 THEN {queued} ELSE {ready} END, reason = NULL, not_before = greatest(not_before, %(now)b)
WHERE schedule_id = %(id)b AND state {live} AND state = {waiting} AND reason = 'paused';

-- runs_of: a schedule's runs, the newest first
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.schedule_id = %(id)b AND r.step = 0 AND r.id < %(before)b ORDER BY r.id DESC LIMIT %(limit)b;

-- previous_state: the outcome of the run before this one
SELECT state FROM runs WHERE schedule_id = %(id)b AND step = 0 AND id < %(run)b AND state IN ({succeeded}, {failed}, {interrupted}, {unknown}) ORDER BY id DESC LIMIT 1;

-- lock_limit: lock the units of a scope while their number changes
SELECT 1 FROM permits WHERE scope = %(scope)b ORDER BY n FOR UPDATE;

-- grow_limit: add the missing units
INSERT INTO permits (scope, n) SELECT %(scope)b, n FROM generate_series(1, %(size)b) n ON CONFLICT DO NOTHING;

-- insert_worker: add a process that runs the loops
INSERT INTO workers (identity, beat, started_at, offers)
VALUES (%(identity)b, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, %(now)b, %(offers)b) RETURNING id;

-- heartbeat: record a heartbeat by the server's clock
UPDATE workers SET beat = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE id = %(id)b AND stopped_at IS NULL RETURNING beat;

-- engines: workers with a heartbeat within a lease, before or after now: the clock of the server may have changed
SELECT id, identity, beat, offers FROM workers
WHERE stopped_at IS NULL AND abs((extract(epoch FROM statement_timestamp()) * 1000)::bigint - beat) <= %(lease)b;

-- insert_writer: add a connection that writes events
INSERT INTO writers (uuid, opened_at) VALUES (%(uuid)b, %(now)b) RETURNING id;

-- first_event_id: the first event id of this transaction
SELECT (pg_current_xact_id()::text::bigint + value::bigint) << 22 FROM meta WHERE key = 'xact_base';

-- callers_chain: the chain of this transaction of a caller, or one that no other transaction continues, with older events.
-- A snapshot for the whole transaction may not show its end: then a new one is opened
SELECT writer, event_id, seq, hash FROM callers_chains WHERE event_id >> 22 = %(first)b::bigint >> 22
  OR (event_id < %(first)b AND current_setting('transaction_isolation') = 'read committed')
ORDER BY event_id DESC LIMIT 1 FOR UPDATE SKIP LOCKED;

-- set_callers_chain: set the end of a chain that transactions of callers continue
INSERT INTO callers_chains VALUES (%(writer)b, %(event_id)b, %(seq)b, %(hash)b)
ON CONFLICT (writer) DO UPDATE SET event_id = excluded.event_id, seq = excluded.seq, hash = excluded.hash;

-- enter: use the tables of Matins in a transaction of a caller; what it used before
SELECT current_setting('search_path'), set_config('search_path', %(path)b, true);

-- leave: use the tables of the caller again
SELECT set_config('search_path', %(path)b, true);

-- schema: the schema of the store, and nothing of the caller's before it
SELECT quote_ident(current_schema()) || ', pg_temp';

-- copy_events: add links to a chain
COPY events (id, writer, seq, at, type, schedule_id, run_id, data, hash) FROM STDIN (FORMAT binary);

-- events_after: a page of events, up to the first open transaction
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events
WHERE id > %(after)b AND id < (
  SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + value::bigint) << 22 FROM meta WHERE key = 'xact_base')
ORDER BY id LIMIT %(limit)b;

-- lock_seals: lock the seals; the end of the last one, and the event below which all events are visible
SELECT s.value::bigint, (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + b.value::bigint) << 22
FROM meta s, meta b WHERE s.key = 'sealed' AND b.key = 'xact_base' FOR UPDATE OF s;

-- links: where events are in their chains
SELECT id, writer, seq, hash FROM events WHERE id = ANY(%(ids)b);

-- bound_runs: what the log knows of runs
SELECT id, schedule_id, rev, slot, first_slot, slots, state, epoch, attempt, planned_at, started_at, ended_at, parent, step,
  CASE WHEN owner IS NULL AND started_at IS NOT NULL THEN EXISTS (SELECT 1 FROM runs s WHERE s.parent = r.id)::int ELSE 0 END AS unfolded,
  reason, evidence, outcome
FROM runs r WHERE id = ANY(%(ids)b);

-- bound_revisions: the revisions of schedules, of which the log has digests
SELECT r.schedule_id, r.rev, s.agent, s.name, s.created_by, s.creator_role, s.creator_run, s.parent, s.depth, r.author,
  r.author_role, r.definition
FROM revisions r JOIN schedules s ON s.id = r.schedule_id WHERE r.schedule_id = ANY(%(ids)b);

-- bound_attempts: what the log knows of the attempts of runs
SELECT run_id, epoch, owner, started_at FROM attempts WHERE run_id = ANY(%(ids)b);

-- unplanned_runs: runs whose beginning is not in the log
SELECT id FROM runs WHERE planned_at >= %(since)b
EXCEPT SELECT run_id FROM events WHERE type = ANY(%(types)b) AND (data::jsonb ? 'slot' OR data::jsonb ? 'of') ORDER BY 1 LIMIT 10;

-- unlogged_attempts: attempts that are not in the log
SELECT run_id, epoch FROM attempts WHERE started_at >= %(since)b
EXCEPT SELECT run_id, coalesce((data::json ->> 'epoch')::bigint, 1) FROM events WHERE type = ANY(%(types)b) ORDER BY 1, 2 LIMIT 10;

-- unlogged_runs: runs whose end is not in the log
SELECT id FROM runs WHERE state {ended} AND ended_at >= %(since)b
EXCEPT SELECT run_id FROM events WHERE type = ANY(%(types)b) ORDER BY 1 LIMIT 10;

-- unlogged_approvals: requests that are not in the log
SELECT id FROM approvals WHERE requested_at >= %(since)b EXCEPT
SELECT (data::json ->> 'approval')::bigint FROM events WHERE type IN ('approval.requested', 'approval.edited') ORDER BY 1 LIMIT 10;

-- unlogged_votes: votes that are not in the log
SELECT approval_id, voter FROM votes WHERE at >= %(since)b EXCEPT
SELECT (data::json ->> 'approval')::bigint, data::json ->> 'who' FROM events WHERE type = 'approval.voted' ORDER BY 1, 2 LIMIT 10;

-- heads: the last link of every chain that grew since a seal
SELECT DISTINCT ON (e.writer) e.writer, e.seq, e.hash, e.id FROM events e JOIN writers w ON w.id = e.writer
WHERE e.id >= %(since)b AND e.seq > w.sealed_seq ORDER BY e.writer, e.seq DESC;

-- last_seal: the newest seal
SELECT hash FROM seals ORDER BY id DESC LIMIT 1;

-- insert_seal: add a seal over the heads of all chains
INSERT INTO seals (at, heads, hash) VALUES (%(now)b, %(heads)b, %(hash)b);

-- mark_sealed: set how far each chain is sealed
UPDATE writers w SET sealed_seq = u.seq FROM unnest(%(writer)b, %(seq)b) u (writer, seq) WHERE w.id = u.writer;

-- sealed_below: set where the next seal starts
UPDATE meta SET value = %(horizon)b::bigint::text WHERE key = 'sealed' AND value::bigint < %(horizon)b::bigint;

-- prunable: ended runs that are older than an instant, and whose slot has passed
SELECT id FROM (SELECT id FROM runs r WHERE ended_at < %(before)b AND state {ended} AND step = 0
  AND (slot IS NULL OR slot <= %(now)b
    AND NOT EXISTS (SELECT FROM due d WHERE d.schedule_id = r.schedule_id AND d.next_slot <= r.slot))
  LIMIT %(limit)b) r ORDER BY id;

-- prunable_beyond: ended runs beyond the newest N of their schedule whose slot has passed
SELECT r.id FROM schedules s CROSS JOIN LATERAL (
  SELECT id, state, slot FROM runs WHERE schedule_id = s.id AND step = 0 ORDER BY id DESC OFFSET %(newest)b) r
WHERE r.state {ended} AND (slot IS NULL OR slot <= %(now)b
  AND NOT EXISTS (SELECT FROM due d WHERE d.schedule_id = s.id AND d.next_slot <= r.slot)) LIMIT %(limit)b;

-- note_purged: record the last slots of runs that will be deleted
UPDATE schedules SET purged_slot = p.slot FROM (
  SELECT schedule_id, max(slot) AS slot FROM runs WHERE id = ANY(%(ids)b) GROUP BY schedule_id) p
WHERE schedules.id = p.schedule_id AND p.slot > coalesce(purged_slot, p.slot - 1);

-- delete_runs: delete ended runs
DELETE FROM runs WHERE id = ANY(%(ids)b) AND state {ended};

-- steps_of_runs: all steps of these runs
SELECT id FROM runs WHERE parent = ANY(%(ids)b);

-- live_steps: the live steps of these runs
SELECT id FROM runs WHERE parent = ANY(%(ids)b) AND state {live};

-- parents_of: the runs that these are steps of
SELECT DISTINCT parent FROM runs WHERE id = ANY(%(ids)b) AND parent IS NOT NULL ORDER BY parent;

-- delete_run_usage: delete what their steps spent together
DELETE FROM purses WHERE period = 'run' AND whose = ANY(SELECT 'run:' || id FROM unnest(%(ids)b) AS u(id));

-- delete_attempts: delete their attempts
DELETE FROM attempts WHERE run_id = ANY(%(ids)b);

-- delete_checks: delete their checks
DELETE FROM checks WHERE run_id = ANY(%(ids)b);

-- delete_spend: delete their spending
DELETE FROM spend WHERE run_id = ANY(%(ids)b);

-- delete_approvals: delete their requests for approval that are not pending; the last that was approved of each schedule
-- is kept
DELETE FROM approvals WHERE run_id = ANY(%(ids)b) AND state <> 'pending'
  AND NOT (state = 'used' AND id = (SELECT max(g.id) FROM approvals g
    WHERE g.schedule_id = approvals.schedule_id AND g.state = 'used' AND g.kind IN ('schedule', 'run')));

-- prunable_events: the last one of the oldest events before the first that is not older than an instant
WITH oldest AS (SELECT id, at FROM events ORDER BY id LIMIT 100000)
SELECT max(id) FROM oldest WHERE NOT EXISTS (SELECT FROM oldest o WHERE o.at >= %(before)b AND o.id <= oldest.id);

-- mark_pruned: set where chains start; ids have the order of every chain
UPDATE writers w SET pruned_seq = e.seq, pruned_hash = e.hash
FROM (SELECT DISTINCT ON (writer) writer, seq, hash FROM events WHERE id <= %(last)b ORDER BY writer, id DESC) e
WHERE w.id = e.writer RETURNING w.id;

-- pruned_of_types: events of these types among the first events of the chains
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events
WHERE id <= %(last)b AND type = ANY(%(types)b) ORDER BY id;

-- delete_events: delete the first events of the chains
DELETE FROM events WHERE id <= %(last)b;

-- newest_runs: the last run of each schedule, found by the index on slots; manual runs have no slot
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM unnest(%(ids)b) AS j(id) JOIN schedules s ON s.id = j.id
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- started_runs: the last run of each schedule that has started; later ones may have been skipped
SELECT r.id, r.schedule_id, s.name AS schedule, r.rev, r.state, r.slot, r.request_key, r.slots, r.first_slot, r.epoch,
  r.attempt, r.not_before, r.planned_at, r.started_at, r.ended_at, r.reason, r.evidence, r.outcome, r.cleared, r.parent,
  r.step, r.round, r.retry_of
FROM unnest(%(ids)b) AS j(id) JOIN schedules s ON s.id = j.id
JOIN runs r ON r.id = (SELECT max(newest.id) FROM (
  SELECT by_slot.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NOT NULL AND started_at IS NOT NULL ORDER BY slot DESC LIMIT 1) by_slot
  UNION ALL SELECT by_hand.id FROM (SELECT id FROM runs WHERE schedule_id = s.id AND step = 0 AND slot IS NULL AND started_at IS NOT NULL ORDER BY id DESC LIMIT 1) by_hand
) newest);

-- file_entries_named: the file's records of a kind, by name
SELECT kind, name, path, line, digest FROM file_entries WHERE kind = %(kind)s AND name = ANY(%(names)b);

-- records_of: the records of these schedules in a range of ids that lie in a window, the newest first
SELECT r.id, r.schedule_id, s.name, s.agent, r.rev, r.state, r.slot, r.slots, coalesce(r.started_at, r.slot, r.planned_at) AS begins,
  r.reason, r.not_before, r.started_at, r.ended_at
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.id >= %(low)b AND r.id < %(high)b AND r.step = 0 AND r.schedule_id = ANY(%(ids)b)
  AND coalesce(r.started_at, r.slot, r.planned_at) < %(until)b
  AND CASE WHEN r.started_at IS NULL THEN coalesce(r.slot, r.planned_at) ELSE coalesce(r.ended_at, %(until)b) END >= %(since)b
ORDER BY r.id DESC;

-- last_records: the last records of these schedules, the newest first
SELECT r.schedule_id, r.id, r.state, r.slot, r.slots, r.attempt, r.planned_at, r.started_at, r.ended_at, r.reason
FROM unnest(%(ids)b) j (id) CROSS JOIN LATERAL (
  SELECT schedule_id, id, state, slot, slots, attempt, planned_at, started_at, ended_at, reason FROM runs
  WHERE schedule_id = j.id AND step = 0 ORDER BY id DESC LIMIT %(limit)b) r
ORDER BY r.schedule_id, r.id DESC;

-- spent_by: what these runs have spent so far, each with its steps
SELECT j.id AS run_id, CAST(sum(p.money) AS bigint) AS money, CAST(sum(p.tokens) AS bigint) AS tokens
FROM unnest(%(ids)b) j (id) CROSS JOIN LATERAL (
  SELECT money, tokens FROM spend WHERE run_id = j.id
  UNION ALL SELECT money, tokens FROM spend WHERE run_id IN (SELECT id FROM runs WHERE parent = j.id)) p
GROUP BY j.id;

-- run_places: the agents of runs, the processes that run them, and those that started their present attempts
SELECT r.id, s.agent, w.identity AS worker, b.identity AS starter FROM runs r JOIN schedules s ON s.id = r.schedule_id
LEFT JOIN workers w ON w.id = r.owner LEFT JOIN attempts a ON a.run_id = r.id AND a.epoch = r.epoch
LEFT JOIN workers b ON b.id = a.owner WHERE r.id = ANY(%(ids)b);

-- schedules_with: schedules by their ids
SELECT s.id, s.name, s.agent, s.state, s.rev, v.definition, s.note, s.paused_by, s.paused_at, d.next_slot, d.due_at,
  d.executions, d.failures, d.failed_at, s.created_at, s.updated_at, s.paused_until, s.created_by, s.creator_role, s.creator_run,
  s.parent, s.depth, EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}) AS has_live_runs
FROM schedules s JOIN revisions v ON v.schedule_id = s.id AND v.rev = s.rev JOIN due d ON d.schedule_id = s.id
WHERE s.id = ANY(%(ids)b);

-- votes: the votes on requests
SELECT approval_id, voter, vote, at, note, digest FROM votes WHERE approval_id = ANY(%(ids)b) ORDER BY at, voter;

-- runs_of_calls: the runs of calls
SELECT l.call_id, r.id, s.name AS schedule, r.state, r.reason FROM call_runs l JOIN runs r ON r.id = l.run_id
JOIN schedules s ON s.id = r.schedule_id WHERE l.call_id = ANY(%(ids)b) ORDER BY r.id;

-- open_incidents: the open incidents of these schedules, the oldest first
SELECT id, schedule_id, kind, signature, summary, quote, error, run_id, times, details, opened_at, last_at, told, told_times,
  next_at, acknowledged_at, acknowledged_by, resolved_at, resolution
FROM incidents WHERE schedule_id = ANY(%(ids)b) AND resolved_at IS NULL ORDER BY id;

-- incident_events: events that may change incidents, and the successes of schedules that have one
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id > %(after)b AND id <= %(upto)b AND (
  type = ANY(%(types)b) OR (type = 'run.succeeded' AND schedule_id IN (
    SELECT schedule_id FROM incidents WHERE resolved_at IS NULL
    UNION ALL SELECT schedule_id FROM events WHERE id > %(after)b AND id <= %(upto)b AND type = ANY(%(types)b))))
ORDER BY id LIMIT %(limit)b;
