-- Requests for approval, and votes.

-- insert_approval: add a request for approval
INSERT INTO approvals (kind, schedule_id, run_id, rev, digest, policy, approvers, needed, unanswered, requested_by,
  requester_role, requested_at, expires_at, state, request)
VALUES (:kind, :schedule_id, :run_id, :rev, :digest, :policy, :approvers, :needed, :default, :requested_by,
  :requester_role, :requested_at, :expires_at, 'pending', :request) RETURNING id;

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

-- set_approval_state(approval_id: int, was: str, state: str, now: int) -> bool: change the state once; the use of an
--   approval keeps the time of the decision. False when it is no longer `was`
UPDATE approvals SET state = :state, decided_at = CASE WHEN :state = 'used' THEN decided_at ELSE :now END WHERE id = :approval_id AND state = :was RETURNING id;

-- upsert_vote(approval_id: int, vote: Vote) -> None: add or replace a vote
INSERT INTO votes (approval_id, voter, vote, at, note, digest) VALUES (:approval_id, :voter, :vote, :at, :note, :digest)
ON CONFLICT (approval_id, voter) DO UPDATE SET vote = excluded.vote, at = excluded.at, note = excluded.note,
  digest = excluded.digest;

-- prune_approvals: delete old decided requests without a run; the newest is kept, so that ids stay unique, and so is the
--   last that was approved of each schedule: it says what may run
DELETE FROM approvals WHERE decided_at < :before AND state NOT IN ('pending', 'approved')
  AND NOT (state = 'used' AND id = (SELECT max(g.id) FROM approvals g
    WHERE g.schedule_id = approvals.schedule_id AND g.state = 'used' AND g.kind IN ('schedule', 'run')))
  AND id < (SELECT max(id) FROM approvals) AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = approvals.run_id);

-- prune_votes: delete votes on deleted requests
DELETE FROM votes WHERE NOT EXISTS (SELECT 1 FROM approvals a WHERE a.id = votes.approval_id);
