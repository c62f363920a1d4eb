-- policy_rev: the revision of the policies, which engines compare
SELECT rev FROM policy_rev;

-- lock_policies: lock all policies
SELECT rev FROM policy_rev /* lock */;

-- increment_policy_rev: raise the revision of the policies
UPDATE policy_rev SET rev = rev + 1;

-- policies: all policies
SELECT kind, name, definition FROM policies ORDER BY kind, name;

-- upsert_policy: add or change a policy
INSERT INTO policies (kind, name, definition, updated_at, updated_by) VALUES (:kind, :name, :definition, :now, :by)
ON CONFLICT (kind, name) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at,
  updated_by = excluded.updated_by;

-- delete_policy: delete a policy
DELETE FROM policies WHERE kind = :kind AND name = :name RETURNING name;

-- throttles: all throttles
SELECT provider, resets_at, activated_at, affects, reason, set_by AS "by", login FROM throttles ORDER BY provider;

-- upsert_throttle: add a provider's rate limit; of two that overlap, the later end applies
INSERT INTO throttles (provider, resets_at, activated_at, affects, reason, set_by, login)
VALUES (:provider, :resets_at, :activated_at, :affects, :reason, :by, :login)
ON CONFLICT (provider) DO UPDATE SET resets_at = excluded.resets_at, activated_at = excluded.activated_at,
  affects = excluded.affects, reason = excluded.reason, set_by = excluded.set_by,
  login = excluded.login
WHERE excluded.resets_at >= throttles.resets_at;

-- delete_throttle: delete a throttle
DELETE FROM throttles WHERE provider = :provider RETURNING provider;

-- delete_ended_throttles: delete throttles that have ended
DELETE FROM throttles WHERE resets_at <= :now RETURNING provider;

-- next_timer: the next instant at which a waiting record must be checked
SELECT min(at) FROM (
  SELECT min(not_before) AS at FROM runs WHERE state = {waiting} AND reason <> 'paused'
  UNION ALL SELECT min(expires_at) FROM approvals WHERE state = 'pending'
  UNION ALL SELECT min(paused_until) FROM schedules WHERE paused_until IS NOT NULL
  UNION ALL SELECT min(resets_at) FROM throttles) timers;

-- defer_run: defer a ready run
UPDATE runs SET not_before = :until WHERE id = :run_id AND epoch = :epoch AND state = {ready};

-- waiting_due: waiting runs whose time has come
SELECT id, schedule_id, rev, slot, epoch, attempt, reason, planned_at, step FROM runs
WHERE state = {waiting} AND reason <> 'paused' AND not_before <= :now ORDER BY not_before LIMIT :limit;

-- waiting_for: runs that wait for a reason, at any time
SELECT id, schedule_id, rev, slot, epoch, attempt, reason, planned_at, step FROM runs
WHERE state = {waiting} AND reason <> 'paused' AND reason = :reason ORDER BY id;

-- ended_pauses: schedules whose pause has ended
SELECT id FROM schedules WHERE paused_until <= :now AND state = 'paused' ORDER BY paused_until LIMIT :limit;

-- paused_by: schedules that a principal, or an automatic pause, has paused
SELECT id, agent, name FROM schedules WHERE state = 'paused' AND paused_by = :by ORDER BY id;

-- set_paused_until: set the end of a pause
UPDATE schedules SET paused_until = :until WHERE id = :id;

-- failures: the consecutive failures of a schedule
SELECT failures FROM due WHERE schedule_id = :id;

-- reset_failures: set the failures of a schedule to 0
UPDATE due SET failures = 0, failed_at = NULL WHERE schedule_id = :id;

-- uncount_execution: do not count a run without an attempt as an execution
UPDATE due SET executions = executions - 1 WHERE schedule_id = :id AND executions > 0
  AND (SELECT attempt FROM runs WHERE id = :run_id) = 0;

-- uncount_attempt: do not count an attempt that the provider refused
UPDATE runs SET attempt = attempt - 1 WHERE id = :run_id AND attempt > 0;

-- insert_check: add the verdict of a guard, a pre-check or a hook
INSERT INTO checks (run_id, epoch, kind, at, duration_ms, exit_code, verdict, reason, output)
VALUES (:run_id, :epoch, :kind, :at, :duration_ms, :exit_code, :verdict, :reason, :output) ON CONFLICT DO NOTHING;

-- checks: the checks of a run
SELECT run_id, epoch, kind, at, duration_ms, exit_code, verdict, reason, output FROM checks
WHERE run_id = :run_id ORDER BY epoch, at, kind;

-- last_started: the start of the schedule's last successful run before this one
SELECT started_at FROM runs WHERE schedule_id = :id AND step = 0 AND slot IS NOT NULL AND id < :run_id AND state = {succeeded}
ORDER BY slot DESC LIMIT 1;

-- insert_approval: add a request for approval
INSERT INTO approvals (kind, schedule_id, run_id, rev, digest, policy, approvers, needed, unanswered, requested_by,
  requester_role, requested_at, expires_at, state, request)
VALUES (:kind, :schedule_id, :run_id, :rev, :digest, :policy, :approvers, :needed, :unanswered, :requested_by,
  :requester_role, :now, :expires_at, 'pending', :request) RETURNING id;

-- approval: one request
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id WHERE a.id = :id;

-- lock_approval: lock a request
SELECT id FROM approvals WHERE id = :id /* lock */;

-- approvals_in: requests in a state, the oldest first
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id
WHERE a.state = :state AND a.id > :after ORDER BY a.id LIMIT :limit;

-- newest_approvals_in: the same, the newest first
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id
WHERE a.state = :state AND a.id > :after ORDER BY a.id DESC LIMIT :limit;

-- approvals_of_run: requests for a run, the newest first
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id WHERE a.run_id = :run_id ORDER BY a.id DESC;

-- approvals_before: requests that are older than an instant
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id WHERE a.requested_at < :before ORDER BY a.id;

-- open_approvals: requests for a schedule that can still have an effect
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id
WHERE a.schedule_id = :schedule_id AND a.state IN ('pending', 'approved') ORDER BY a.id;

-- granted_approvals: the last requests for a schedule or its runs that were approved and used, the newest first
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id
WHERE a.schedule_id = :schedule_id AND a.state = 'used' AND a.kind IN ('schedule', 'run') ORDER BY a.id DESC LIMIT :limit;

-- expired_approvals: pending requests that have expired
SELECT a.id, a.kind, a.schedule_id, s.name AS schedule, a.run_id, a.rev, a.digest, a.policy, a.approvers, a.needed,
  a.unanswered AS "default", a.requested_by, a.requester_role, a.requested_at, a.expires_at, a.state, a.decided_at, a.request
FROM approvals a JOIN schedules s ON s.id = a.schedule_id
WHERE a.state = 'pending' AND a.expires_at <= :now ORDER BY a.expires_at LIMIT :limit;

-- set_approval_state: change a state once; the use of an approval keeps the time of the decision
UPDATE approvals SET state = :state, decided_at = CASE WHEN :state = 'used' THEN decided_at ELSE :now END WHERE id = :id AND state = :was RETURNING id;

-- upsert_vote: add or replace a vote
INSERT INTO votes (approval_id, voter, vote, at, note, digest) VALUES (:id, :voter, :vote, :now, :note, :digest)
ON CONFLICT (approval_id, voter) DO UPDATE SET vote = excluded.vote, at = excluded.at, note = excluded.note,
  digest = excluded.digest;

-- prune_approvals: delete old decided requests without a run; the newest is kept, so that ids stay unique, and so is the
-- last that was approved of each schedule: it says what may run
DELETE FROM approvals WHERE decided_at < :before AND state NOT IN ('pending', 'approved')
  AND NOT (state = 'used' AND id = (SELECT max(g.id) FROM approvals g
    WHERE g.schedule_id = approvals.schedule_id AND g.state = 'used' AND g.kind IN ('schedule', 'run')))
  AND id < (SELECT max(id) FROM approvals) AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = approvals.run_id);

-- prune_votes: delete votes on deleted requests
DELETE FROM votes WHERE NOT EXISTS (SELECT 1 FROM approvals a WHERE a.id = votes.approval_id);

-- prune_budget_usage: delete usage of periods before a day, unless something is reserved
DELETE FROM purses WHERE period < substr(CAST(:day AS text), 1, length(period)) AND money_reserved = 0
  AND tokens_reserved = 0;

-- prune_workers: delete workers that stopped before an instant; the newest is kept, so that ids stay unique
DELETE FROM workers WHERE stopped_at < :before AND id < (SELECT max(id) FROM workers);

-- count_agent_schedules: the number of schedules that an agent created and that can still run
SELECT count(*) FROM schedules s JOIN due d ON d.schedule_id = s.id
WHERE s.creator_role = 'agent' AND s.created_by = :name AND (s.state IN ('pending', 'paused') OR (s.state = 'active' AND (
  d.next_slot IS NOT NULL OR EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state {live}))));

-- last_one_shot: when the rules approved the last one-shot that an agent made outside a run
SELECT approved_at FROM one_shots WHERE agent = :agent;

-- set_last_one_shot: note that the rules approved such a one-shot
INSERT INTO one_shots (agent, approved_at) VALUES (:agent, :now)
ON CONFLICT (agent) DO UPDATE SET approved_at = excluded.approved_at;

-- last_revision: the highest revision of a schedule
SELECT max(rev) FROM revisions WHERE schedule_id = :id;

-- set_author: set the author of a revision
UPDATE revisions SET author = :author, author_role = :role WHERE schedule_id = :id AND rev = :rev;

-- authors: authors up to a revision, the last first; the owner answers for everything before the owner's revision
SELECT author, author_role FROM revisions WHERE schedule_id = :id AND rev <= :rev AND author IS NOT NULL AND rev >= (
  SELECT coalesce(max(rev), 0) FROM revisions WHERE schedule_id = :id AND rev <= :rev AND author_role = 'owner')
ORDER BY rev DESC;

-- insert_run_revision: add settings for one run
INSERT INTO revisions (schedule_id, rev, definition) VALUES (:id, :rev, :definition);

-- set_run_revision: give a run that has not started another revision; it must pass its gates again
UPDATE runs SET rev = :rev, cleared = 0, epoch = epoch + 1, owner = NULL WHERE id = :run_id AND state BETWEEN {waiting} AND {ready};

-- wake_run: let a run that waits for a reason continue
UPDATE runs SET not_before = :now, reason = 'woken' WHERE id = :run_id AND state = {waiting} AND reason = :reason;

-- past_spend: the spending of the last runs of a schedule, the newest first
SELECT money, tokens FROM spend WHERE schedule_id = :id AND settled_at IS NOT NULL AND money + tokens > 0 ORDER BY run_id DESC LIMIT :limit;

-- past_step_spend: the spending of the last runs of a step, the newest first
SELECT s.money, s.tokens FROM spend s JOIN runs r ON r.id = s.run_id
WHERE s.schedule_id = :id AND s.settled_at IS NOT NULL AND s.money + s.tokens > 0 AND r.step = :step ORDER BY s.run_id DESC LIMIT :limit;

-- insert_budget_usage: add the usage of a budget in a period
INSERT INTO purses (budget, whose, period) VALUES (:budget, :whose, :period) ON CONFLICT DO NOTHING;

-- budget_usage: the usage of a budget in a period
SELECT budget, whose AS "of", period, money, tokens, money_reserved, tokens_reserved FROM purses
WHERE budget = :budget AND whose = :whose AND period = :period;

-- lock_budget_usage: the same, locked
SELECT budget, whose AS "of", period, money, tokens, money_reserved, tokens_reserved FROM purses
WHERE budget = :budget AND whose = :whose AND period = :period /* lock */;

-- budget_usages: all usage from a period on
SELECT budget, whose AS "of", period, money, tokens, money_reserved, tokens_reserved FROM purses
WHERE period >= :since ORDER BY budget, whose, period;

-- add_budget_usage: add to the usage of a budget
UPDATE purses SET money = money + :money, tokens = tokens + :tokens, money_reserved = money_reserved + :money_reserved,
  tokens_reserved = tokens_reserved + :tokens_reserved
WHERE budget = :budget AND whose = :whose AND period = :period;

-- delete_budget_usage: delete the usage of a budget that is deleted or recounted
DELETE FROM purses WHERE budget = :budget;

-- insert_reservation: add a run's reservation in a budget
INSERT INTO reservations (run_id, budget, whose, period, money, tokens)
VALUES (:run_id, :budget, :whose, :period, :money, :tokens) ON CONFLICT DO NOTHING;

-- any_reservation: whether any reservation exists
SELECT run_id FROM reservations LIMIT 1;

-- delete_reservations: delete the reservations in a budget
DELETE FROM reservations WHERE budget = :budget;

-- reservations: the reservations of a run
SELECT budget, whose, period, money, tokens FROM reservations WHERE run_id = :run_id;

-- take_reservations: delete and return the reservations of a run
DELETE FROM reservations WHERE run_id = :run_id RETURNING budget, whose, period, money, tokens;

-- reserve_spend: set what a run may spend
INSERT INTO spend (run_id, schedule_id, agent, at, money_reserved, tokens_reserved, money, tokens, estimated)
VALUES (:run_id, :schedule_id, :agent, :now, :money, :tokens, 0, 0, 0)
ON CONFLICT (run_id) DO UPDATE SET at = excluded.at, money_reserved = excluded.money_reserved,
  tokens_reserved = excluded.tokens_reserved, settled_at = NULL;

-- record_spend: add the spending of an attempt to that of earlier ones
INSERT INTO spend (run_id, schedule_id, agent, at, money_reserved, tokens_reserved, money, tokens, estimated, settled_at)
VALUES (:run_id, :schedule_id, :agent, :now, 0, 0, :money, :tokens, :estimated, :now)
ON CONFLICT (run_id) DO UPDATE SET money_reserved = 0, tokens_reserved = 0, money = spend.money + excluded.money,
  tokens = spend.tokens + excluded.tokens, estimated = excluded.estimated, settled_at = excluded.settled_at;

-- spend_of: the spending of a run
SELECT money, tokens, estimated FROM spend WHERE run_id = :run_id;

-- spend_since: the spending since an instant, by schedule
SELECT schedule_id, agent, CAST(sum(money) AS bigint) AS money, CAST(sum(tokens) AS bigint) AS tokens FROM spend
WHERE at >= :since GROUP BY schedule_id, agent;

-- counts: for `stats`
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

-- recent_failures: runs that failed since an instant, among the newest events
SELECT count(*) FROM (SELECT type, at FROM events ORDER BY id DESC LIMIT 10000) newest WHERE type = 'run.failed' AND at >= :since;

-- run_at: the run that covers a slot
SELECT id FROM runs WHERE schedule_id = :id AND step = 0 AND slot >= :at AND coalesce(first_slot, slot) <= :at ORDER BY slot LIMIT 1;

-- run_before: the last run of a schedule at or before an instant
SELECT id FROM runs WHERE schedule_id = :id AND step = 0 AND slot <= :at ORDER BY slot DESC LIMIT 1;

-- attempts: the attempts of a run
SELECT run_id, epoch, owner, started_at FROM attempts WHERE run_id = :run_id ORDER BY epoch;

-- window_used: the used catch-up runs of a missed window
SELECT window_used FROM due WHERE schedule_id = :id;

-- purged_slot: the last slot of a schedule whose run is deleted
SELECT purged_slot FROM schedules WHERE id = :id;

-- last_change: the last event, up to an instant, that started or stopped a schedule
SELECT type, at, data FROM events
WHERE schedule_id = :id AND at <= :at AND type IN ('schedule.created', 'schedule.paused', 'schedule.resumed', 'schedule.broken')
ORDER BY id DESC LIMIT 1;
