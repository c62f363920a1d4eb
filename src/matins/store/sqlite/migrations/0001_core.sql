-- Instants are UTC milliseconds. Run states are the numbers of RunState: below 10 live, from 10 on over.

CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) STRICT;
INSERT INTO meta VALUES ('next_run_id', 1), ('store_id', lower(hex(randomblob(8))));

CREATE TABLE schedules (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'broken', 'removed')),
  rev INTEGER NOT NULL,
  note TEXT,
  paused_by TEXT,
  paused_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  purged_slot INTEGER -- the last slot whose record is forgotten: even when the clock goes back it is not planned again
) STRICT;
CREATE UNIQUE INDEX schedules_name ON schedules (name, agent) WHERE state <> 'removed';

-- What a schedule said at each revision: a run's frozen copy is the revision that it was planned under.
CREATE TABLE revisions (
  schedule_id INTEGER NOT NULL REFERENCES schedules (id),
  rev INTEGER NOT NULL,
  definition TEXT NOT NULL,
  PRIMARY KEY (schedule_id, rev)
) STRICT, WITHOUT ROWID;

-- The hot row: the cursor. It is independent of history, so purging never fires anything again.
CREATE TABLE due (
  schedule_id INTEGER PRIMARY KEY REFERENCES schedules (id),
  next_slot INTEGER,
  due_at INTEGER,
  rev INTEGER NOT NULL,
  paused INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0, -- for a completion, which will say when the next slot is
  window_used INTEGER NOT NULL DEFAULT 0,
  executions INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX due_next ON due (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  schedule_id INTEGER NOT NULL REFERENCES schedules (id),
  rev INTEGER NOT NULL,
  slot INTEGER,
  request_key TEXT,
  state INTEGER NOT NULL,
  exclusive INTEGER NOT NULL,
  scope TEXT, -- the limited scope of its agent
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  owner INTEGER,
  not_before INTEGER,
  planned_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  covered INTEGER NOT NULL,
  covered_from INTEGER,
  cancelling INTEGER NOT NULL DEFAULT 0,
  reason TEXT,
  evidence TEXT,
  outcome TEXT
) STRICT;
CREATE UNIQUE INDEX runs_slot ON runs (schedule_id, slot); -- manual runs have none, and may be many
CREATE UNIQUE INDEX runs_request ON runs (schedule_id, request_key) WHERE request_key IS NOT NULL;
-- At most one run from ready to running, unless the schedule allows overlap.
CREATE UNIQUE INDEX runs_active ON runs (schedule_id) WHERE exclusive = 1 AND state BETWEEN 2 AND 4;
CREATE INDEX runs_live ON runs (schedule_id, id) WHERE state BETWEEN 0 AND 5;
CREATE INDEX runs_ready ON runs (not_before) WHERE state = 2;

CREATE TABLE attempts (
  run_id INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  owner INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, epoch)
) STRICT, WITHOUT ROWID;

-- One row for each unit of a limited scope; a run that holds one has its id here.
CREATE TABLE permits (
  scope TEXT NOT NULL,
  n INTEGER NOT NULL,
  run_id INTEGER,
  PRIMARY KEY (scope, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX permits_run ON permits (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE workers (
  id INTEGER PRIMARY KEY,
  identity TEXT NOT NULL,
  beat INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  stopped_at INTEGER
) STRICT;

-- Append-only, hash-chained per writer: gapless seq, hash over the hash before it.
CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  writer INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  type TEXT NOT NULL,
  schedule_id INTEGER,
  run_id INTEGER,
  data TEXT,
  hash BLOB NOT NULL
) STRICT;
CREATE TABLE writers (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  pruned_seq INTEGER NOT NULL DEFAULT 0,
  pruned_hash BLOB
) STRICT;
-- The heads of all chains together, once a second when anything changed.
CREATE TABLE seals (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  upto INTEGER NOT NULL, -- the newest event that it covers
  heads TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
