-- Gates: who made a schedule and who paused it, what governs it, what people are asked, what was spent.

CREATE TABLE schedules_new (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'active', 'paused', 'expired', 'rejected', 'broken', 'removed')),
  rev INTEGER NOT NULL,
  note TEXT,
  paused_by TEXT,
  paused_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  purged_slot INTEGER,
  paused_until INTEGER,
  created_by TEXT NOT NULL DEFAULT 'owner',
  creator_role TEXT NOT NULL DEFAULT 'owner',
  creator_run INTEGER, -- the run from which an agent made it
  parent INTEGER,      -- and that run's schedule
  depth INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO schedules_new (id, agent, name, state, rev, note, paused_by, paused_at, created_at, updated_at, purged_slot)
  SELECT id, agent, name, state, rev, note, paused_by, paused_at, created_at, updated_at, purged_slot FROM schedules;
DROP TABLE schedules;
ALTER TABLE schedules_new RENAME TO schedules;
CREATE UNIQUE INDEX schedules_name ON schedules (name, agent) WHERE state <> 'removed';
CREATE INDEX schedules_until ON schedules (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_creator ON schedules (created_by) WHERE creator_role = 'agent';

-- Which gates with effects a run has passed: 1 checked, 2 approved.
ALTER TABLE runs ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_parked ON runs (not_before) WHERE state = 0 AND reason <> 'paused';

-- Named policies of every kind; a change of any raises the revision, by which engines know to read them again.
CREATE TABLE policies (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  definition TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  updated_by TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT;
CREATE TABLE policy_rev (rev INTEGER NOT NULL) STRICT;
INSERT INTO policy_rev VALUES (1);

CREATE TABLE throttles (
  provider TEXT PRIMARY KEY,
  resets_at INTEGER NOT NULL,
  activated_at INTEGER NOT NULL,
  affects TEXT NOT NULL,
  reason TEXT NOT NULL,
  set_by TEXT NOT NULL
) STRICT;

-- What people are asked. Bound to a digest; used once.
CREATE TABLE approvals (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  schedule_id INTEGER NOT NULL,
  run_id INTEGER,
  rev INTEGER NOT NULL,
  digest TEXT NOT NULL,
  policy TEXT NOT NULL,
  approvers TEXT NOT NULL,
  needed INTEGER NOT NULL,
  unanswered TEXT NOT NULL, -- what it comes to when it expires
  requested_by TEXT NOT NULL,
  requester_role TEXT NOT NULL,
  requested_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  state TEXT NOT NULL,
  decided_at INTEGER,
  request TEXT NOT NULL
) STRICT;
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE state = 'pending';
CREATE INDEX approvals_schedule ON approvals (schedule_id, id);
CREATE INDEX approvals_run ON approvals (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE votes (
  approval_id INTEGER NOT NULL,
  voter TEXT NOT NULL,
  vote TEXT NOT NULL,
  at INTEGER NOT NULL,
  note TEXT,
  digest TEXT NOT NULL,
  PRIMARY KEY (approval_id, voter)
) STRICT;

-- What guards, pre-checks and hooks said.
CREATE TABLE checks (
  run_id INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  kind TEXT NOT NULL,
  at INTEGER NOT NULL,
  took_ms INTEGER NOT NULL,
  exit_code INTEGER,
  said TEXT NOT NULL,
  output TEXT NOT NULL,
  PRIMARY KEY (run_id, epoch, kind)
) STRICT;

-- What runs may spend and have spent, in micro-dollars and tokens.
CREATE TABLE spend (
  run_id INTEGER PRIMARY KEY,
  schedule_id INTEGER NOT NULL,
  agent TEXT NOT NULL,
  at INTEGER NOT NULL,
  money_reserved INTEGER NOT NULL,
  tokens_reserved INTEGER NOT NULL,
  money INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  estimated INTEGER NOT NULL,
  settled_at INTEGER
) STRICT;
CREATE INDEX spend_schedule ON spend (schedule_id, run_id);
CREATE INDEX spend_at ON spend (at);
CREATE TABLE purses (
  budget TEXT NOT NULL,
  whose TEXT NOT NULL,
  period TEXT NOT NULL,
  money INTEGER NOT NULL DEFAULT 0,
  tokens INTEGER NOT NULL DEFAULT 0,
  money_reserved INTEGER NOT NULL DEFAULT 0,
  tokens_reserved INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (budget, whose, period)
) STRICT;
CREATE TABLE reservations (
  run_id INTEGER NOT NULL,
  budget TEXT NOT NULL,
  whose TEXT NOT NULL,
  period TEXT NOT NULL,
  money INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  PRIMARY KEY (run_id, budget)
) STRICT;
