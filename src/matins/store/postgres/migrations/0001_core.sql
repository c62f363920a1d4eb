-- Instants are UTC milliseconds. Run states are the numbers of RunState: below 10 live, from 10 on over.
-- References are kept by the transactions; checking them would lock the rows that the loops fight over.

CREATE TABLE migrations (number bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at bigint NOT NULL);
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO meta VALUES
  ('store_id', substr(md5(gen_random_uuid()::text), 1, 16)),
  ('xact_base', '0'), -- added to transaction ids, so that they go on rising in a copy on another server
  ('sealed', '0');    -- all events below this one are sealed

CREATE SEQUENCE run_ids;
CREATE SEQUENCE schedule_ids;

CREATE TABLE schedules (
  id bigint PRIMARY KEY,
  agent text NOT NULL,
  name text NOT NULL,
  state text NOT NULL CHECK (state IN ('active', 'paused', 'broken', 'removed')),
  rev bigint NOT NULL,
  note text,
  paused_by text,
  paused_at bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  purged_slot bigint -- the last slot whose record is forgotten: even when the clock goes back it is not planned again
);
CREATE UNIQUE INDEX schedules_name ON schedules (name, agent) WHERE state <> 'removed';

-- What a schedule said at each revision: a run's frozen copy is the revision that it was planned under.
CREATE TABLE revisions (
  schedule_id bigint NOT NULL,
  rev bigint NOT NULL,
  definition text NOT NULL,
  PRIMARY KEY (schedule_id, rev)
);

-- The hot row: the cursor. It is independent of history, so purging never fires anything again.
CREATE TABLE due (
  schedule_id bigint PRIMARY KEY,
  next_slot bigint,
  due_at bigint,
  rev bigint NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  waiting boolean NOT NULL DEFAULT false, -- for a completion, which will say when the next slot is
  window_used bigint NOT NULL DEFAULT 0,
  executions bigint NOT NULL DEFAULT 0,
  failures bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX due_next ON due (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE runs (
  id bigint PRIMARY KEY,
  schedule_id bigint NOT NULL,
  rev bigint NOT NULL,
  slot bigint,
  request_key text,
  state smallint NOT NULL,
  exclusive smallint NOT NULL,
  scope text, -- the limited scope of its agent
  epoch bigint NOT NULL,
  attempt bigint NOT NULL,
  owner bigint,
  not_before bigint,
  planned_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  covered bigint NOT NULL,
  covered_from bigint,
  cancelling smallint NOT NULL DEFAULT 0,
  reason text,
  evidence text,
  outcome text
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX runs_slot ON runs (schedule_id, slot) WHERE slot IS NOT NULL;
CREATE UNIQUE INDEX runs_request ON runs (schedule_id, request_key) WHERE request_key IS NOT NULL;
-- At most one run from ready to running, unless the schedule allows overlap.
CREATE UNIQUE INDEX runs_active ON runs (schedule_id) WHERE exclusive = 1 AND state BETWEEN 2 AND 4;
CREATE INDEX runs_live ON runs (schedule_id, id) WHERE state BETWEEN 0 AND 5;
CREATE INDEX runs_ready ON runs (not_before) WHERE state = 2;
CREATE INDEX runs_history ON runs (schedule_id, id);
CREATE INDEX runs_ended ON runs USING brin (ended_at) WITH (autosummarize = on);

CREATE TABLE attempts (
  run_id bigint NOT NULL,
  epoch bigint NOT NULL,
  owner bigint NOT NULL,
  started_at bigint NOT NULL,
  PRIMARY KEY (run_id, epoch)
);

-- One row for each unit of a limited scope; a run that holds one has its id here.
CREATE TABLE permits (
  scope text NOT NULL,
  n bigint NOT NULL,
  run_id bigint,
  PRIMARY KEY (scope, n)
);
CREATE INDEX permits_run ON permits (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE workers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  identity text NOT NULL,
  beat bigint NOT NULL,
  started_at bigint NOT NULL,
  stopped_at bigint
);

-- Append-only, hash-chained per writer: gapless seq, hash over the hash before it. The id is the transaction's, then
-- the place in it: what commits later never has a smaller id than what a reader below the horizon has seen.
CREATE TABLE events (
  id bigint PRIMARY KEY,
  writer bigint NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,
  type text NOT NULL,
  schedule_id bigint,
  run_id bigint,
  data text,
  hash bytea NOT NULL
);
CREATE TABLE writers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  uuid text NOT NULL,
  opened_at bigint NOT NULL,
  sealed_seq bigint NOT NULL DEFAULT 0,
  pruned_seq bigint NOT NULL DEFAULT 0,
  pruned_hash bytea
);
-- The heads of all chains together, once a second when anything changed.
CREATE TABLE seals (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  heads text NOT NULL,
  hash bytea NOT NULL
);
