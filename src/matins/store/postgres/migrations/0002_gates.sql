-- Gates: who made a schedule and who paused it, what governs it, what people are asked, what was spent.

ALTER TABLE schedules DROP CONSTRAINT schedules_state_check;
ALTER TABLE schedules
  ADD CONSTRAINT schedules_state_check
    CHECK (state IN ('pending', 'active', 'paused', 'expired', 'rejected', 'broken', 'removed')),
  ADD COLUMN paused_until bigint,
  ADD COLUMN created_by text NOT NULL DEFAULT 'owner',
  ADD COLUMN creator_role text NOT NULL DEFAULT 'owner',
  ADD COLUMN creator_run bigint, -- the run from which an agent made it
  ADD COLUMN parent bigint,      -- and that run's schedule
  ADD COLUMN depth bigint NOT NULL DEFAULT 0;
CREATE INDEX schedules_until ON schedules (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_creator ON schedules (created_by) WHERE creator_role = 'agent';

-- Which gates with effects a run has passed: 1 checked, 2 approved.
ALTER TABLE runs ADD COLUMN cleared bigint NOT NULL DEFAULT 0;
CREATE INDEX runs_parked ON runs (not_before) WHERE state = 0 AND reason <> 'paused';

-- Named policies of every kind; a change of any raises the revision, by which engines know to read them again.
CREATE TABLE policies (
  kind text NOT NULL,
  name text NOT NULL,
  definition text NOT NULL,
  updated_at bigint NOT NULL,
  updated_by text NOT NULL,
  PRIMARY KEY (kind, name)
);
CREATE TABLE policy_rev (rev bigint NOT NULL);
INSERT INTO policy_rev VALUES (1);

CREATE TABLE throttles (
  provider text PRIMARY KEY,
  resets_at bigint NOT NULL,
  activated_at bigint NOT NULL,
  affects text NOT NULL,
  reason text NOT NULL,
  set_by text NOT NULL
);

-- What people are asked. Bound to a digest; used once.
CREATE TABLE approvals (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL,
  schedule_id bigint NOT NULL,
  run_id bigint,
  rev bigint NOT NULL,
  digest text NOT NULL,
  policy text NOT NULL,
  approvers text NOT NULL,
  needed bigint NOT NULL,
  unanswered text NOT NULL, -- what it comes to when it expires
  requested_by text NOT NULL,
  requester_role text NOT NULL,
  requested_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  state text NOT NULL,
  decided_at bigint,
  request text NOT NULL
);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE state = 'pending';
CREATE INDEX approvals_schedule ON approvals (schedule_id, id);
CREATE INDEX approvals_run ON approvals (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE votes (
  approval_id bigint NOT NULL,
  voter text NOT NULL,
  vote text NOT NULL,
  at bigint NOT NULL,
  note text,
  digest text NOT NULL,
  PRIMARY KEY (approval_id, voter)
);

-- What guards, pre-checks and hooks said.
CREATE TABLE checks (
  run_id bigint NOT NULL,
  epoch bigint NOT NULL,
  kind text NOT NULL,
  at bigint NOT NULL,
  took_ms bigint NOT NULL,
  exit_code bigint,
  said text NOT NULL,
  output text NOT NULL,
  PRIMARY KEY (run_id, epoch, kind)
);

-- What runs may spend and have spent, in micro-dollars and tokens.
CREATE TABLE spend (
  run_id bigint PRIMARY KEY,
  schedule_id bigint NOT NULL,
  agent text NOT NULL,
  at bigint NOT NULL,
  money_reserved bigint NOT NULL,
  tokens_reserved bigint NOT NULL,
  money bigint NOT NULL,
  tokens bigint NOT NULL,
  estimated bigint NOT NULL,
  settled_at bigint
);
CREATE INDEX spend_schedule ON spend (schedule_id, run_id);
CREATE INDEX spend_at ON spend (at);
CREATE TABLE purses (
  budget text NOT NULL,
  whose text NOT NULL,
  period text NOT NULL,
  money bigint NOT NULL DEFAULT 0,
  tokens bigint NOT NULL DEFAULT 0,
  money_reserved bigint NOT NULL DEFAULT 0,
  tokens_reserved bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (budget, whose, period)
);
CREATE TABLE reservations (
  run_id bigint NOT NULL,
  budget text NOT NULL,
  whose text NOT NULL,
  period text NOT NULL,
  money bigint NOT NULL,
  tokens bigint NOT NULL,
  PRIMARY KEY (run_id, budget)
);
