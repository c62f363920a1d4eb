-- Instants are UTC milliseconds. Run states are the numbers of RunState: below 10 live, from 10 on ended.

CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) STRICT;
INSERT INTO meta VALUES ('next_run_id', 1), ('store_id', lower(hex(randomblob(8)))),
  ('run_key', lower(hex(randomblob(32)))), -- the key of run tokens
  ('incarnation', lower(hex(randomblob(8)))); -- another one after the store was set back to an older copy

-- Schedules: definitions, creators and due times.

CREATE TABLE schedules (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL DEFAULT (lower(hex(randomblob(8)))), -- never given again, unlike an id in a store that is set back
  agent TEXT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'active', 'paused', 'expired', 'rejected', 'broken', 'removed')),
  rev INTEGER NOT NULL,
  note TEXT,
  paused_by TEXT,
  paused_at INTEGER,
  paused_until INTEGER,
  pause_id TEXT, -- the pause of several schedules that it belongs to
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL DEFAULT 'owner',
  creator_role TEXT NOT NULL DEFAULT 'owner',
  creator_run INTEGER, -- the run in which an agent created it
  parent INTEGER,      -- the schedule of that run
  depth INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL,
  purged_slot INTEGER -- the last slot whose run is deleted; it is not planned again after the clock is set back
) STRICT;
CREATE UNIQUE INDEX schedules_name ON schedules (name, agent) WHERE state <> 'removed';
CREATE INDEX schedules_stopped ON schedules (state) WHERE state <> 'active'; -- few, so that counting them is quick
CREATE INDEX schedules_until ON schedules (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_creator ON schedules (created_by) WHERE creator_role = 'agent';

-- The definition of a schedule at each revision. A run keeps the revision that it was planned under.
CREATE TABLE revisions (
  schedule_id INTEGER NOT NULL REFERENCES schedules (id),
  rev INTEGER NOT NULL,
  definition TEXT NOT NULL,
  author TEXT, -- only the owner may approve their own changes
  author_role TEXT,
  at INTEGER, -- when the schedule got it; NULL for the first, and for settings of one run
  PRIMARY KEY (schedule_id, rev)
) STRICT, WITHOUT ROWID;

-- The names that schedules had, up to a revision. Digests of then have them.
CREATE TABLE former_names (
  schedule_id INTEGER NOT NULL,
  rev INTEGER NOT NULL,
  agent TEXT NOT NULL,
  name TEXT NOT NULL,
  creator TEXT NOT NULL, -- who made it, as it was written then
  at INTEGER NOT NULL, -- when it got another one
  PRIMARY KEY (schedule_id, rev)
) STRICT, WITHOUT ROWID;
CREATE INDEX former_names_name ON former_names (name);

-- The labels of schedules at their present revision.
CREATE TABLE schedule_labels (
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  schedule_id INTEGER NOT NULL,
  PRIMARY KEY (key, value, schedule_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_labels_schedule ON schedule_labels (schedule_id);

-- The hot row: the cursor. It does not depend on history, so pruning never fires a slot again.
CREATE TABLE due (
  schedule_id INTEGER PRIMARY KEY REFERENCES schedules (id),
  next_slot INTEGER,
  due_at INTEGER,
  rev INTEGER NOT NULL,
  paused INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0, -- for a completion, which decides the next slot
  window_used INTEGER NOT NULL DEFAULT 0,
  executions INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  failed_at INTEGER -- the last of these failures, while slots may be skipped for it
) STRICT;
CREATE INDEX due_next ON due (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX due_failing ON due (schedule_id) WHERE failures > 0; -- few, so that most turns reset no failures

-- The data of time zones from which slots were computed: with other data, an engine computes the next slots again.
CREATE TABLE zone_versions (
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  data BLOB NOT NULL, -- the TZif file
  used_at INTEGER NOT NULL, -- when an engine last started with it; 0 if only schedules were written with it
  moved_at INTEGER, -- when slots last moved to those of these data
  moved INTEGER NOT NULL DEFAULT 0, -- the number of schedules that moved then
  PRIMARY KEY (name, digest)
) STRICT, WITHOUT ROWID;

-- Runs: the state and the owner of each slot.

CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  schedule_id INTEGER NOT NULL REFERENCES schedules (id),
  rev INTEGER NOT NULL,
  slot INTEGER,
  request_key TEXT,
  state INTEGER NOT NULL,
  exclusive INTEGER NOT NULL,
  scope TEXT, -- the limited scope of the agent
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  owner INTEGER,
  not_before INTEGER,
  planned_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  slots INTEGER NOT NULL,
  first_slot INTEGER,
  cleared INTEGER NOT NULL DEFAULT 0, -- the `GatesPassed` of the run: 1 checked, 2 approved
  cancelling INTEGER NOT NULL DEFAULT 0,
  reason TEXT,
  evidence TEXT,
  outcome TEXT,
  parent INTEGER,     -- the run whose step this is
  step INTEGER NOT NULL DEFAULT 0, -- the number of the step, from 1; 0 for a whole run
  round INTEGER,      -- which attempt of the parent made it
  retry_of INTEGER,   -- the run whose steps that succeeded are carried over
  retry_from INTEGER, -- the step from which everything runs again
  place INTEGER NOT NULL DEFAULT 0, -- the set of needs, see places; 0 where any engine can do it
  given TEXT, -- what it was started with beside the settings of its schedule, as JSON; mostly nothing
  for_slot INTEGER, -- the past slot that a run without a slot stands for
  backfill INTEGER -- the backfill that made it
) STRICT;
CREATE UNIQUE INDEX runs_slot ON runs (schedule_id, slot) WHERE step = 0; -- manual runs have no slot
CREATE UNIQUE INDEX runs_step ON runs (parent, round, step) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX runs_request ON runs (schedule_id, request_key) WHERE request_key IS NOT NULL;
-- At most one run from ready to running, unless the schedule allows overlap.
CREATE UNIQUE INDEX runs_active ON runs (schedule_id) WHERE exclusive = 1 AND state BETWEEN 2 AND 4;
CREATE INDEX runs_live ON runs (schedule_id, state, id) WHERE state BETWEEN 0 AND 5;
CREATE INDEX runs_ready ON runs (place, not_before) WHERE state = 2;
CREATE INDEX runs_parked ON runs (not_before) WHERE state = 0 AND reason <> 'paused';
CREATE UNIQUE INDEX runs_backfill ON runs (backfill, for_slot) WHERE backfill IS NOT NULL;
CREATE INDEX runs_made_up ON runs (schedule_id, for_slot) WHERE for_slot IS NOT NULL;

-- Runs for past slots, made one after the other: a row, however many slots it covers.
CREATE TABLE backfills (
  id INTEGER PRIMARY KEY,
  schedule_id INTEGER NOT NULL REFERENCES schedules (id),
  rev INTEGER NOT NULL, -- the settings of its start
  state TEXT NOT NULL CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
  reason TEXT, -- why it is paused: person, schedule, failures, budget, max_cost
  changed_by TEXT, -- who paused, resumed or cancelled it
  first_slot INTEGER NOT NULL, -- the range, both ends included
  last_slot INTEGER NOT NULL,
  choice TEXT NOT NULL, -- which slots: missing, failed, all
  newest_first INTEGER NOT NULL,
  last_seen INTEGER, -- the last slot that was looked at
  planned INTEGER NOT NULL, -- the runs of its preview
  made INTEGER NOT NULL DEFAULT 0,
  most INTEGER NOT NULL, -- runs that it may make
  max_parallel INTEGER NOT NULL,
  max_cost INTEGER, -- in micro-dollars, for the whole
  waits_since INTEGER, -- since when it lets other runs pass
  failures_after INTEGER NOT NULL DEFAULT 0, -- up to this run, failures do not count
  next_at INTEGER, -- when to look at it next
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  ended_at INTEGER
) STRICT;
CREATE INDEX backfills_next ON backfills (next_at) WHERE state = 'running';
CREATE INDEX backfills_schedule ON backfills (schedule_id, id);

-- Runs of which people hear when they are late or take long: when to look at each.
CREATE TABLE watched_runs (
  run_id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  late INTEGER NOT NULL -- whether it was late, and that was told
) STRICT;
CREATE INDEX watched_runs_at ON watched_runs (at);

-- The addresses at which work elsewhere reports to a schedule.
CREATE TABLE ping_tokens (
  schedule_id INTEGER PRIMARY KEY,
  token TEXT NOT NULL UNIQUE
) STRICT;

-- Sets of needs, such as ["job:report"]: an engine claims only runs of places whose needs it has.
CREATE TABLE places (
  id INTEGER PRIMARY KEY,
  needs TEXT NOT NULL UNIQUE,
  reported_at INTEGER -- when it was reported that no engine has them
) STRICT;

-- Nodes that lack what a run needs, which they found when they were about to start it.
CREATE TABLE turned_away (
  run_id INTEGER NOT NULL,
  node TEXT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (run_id, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  run_id INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  owner INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER, -- of an attempt after which the run goes on; the end of the last one is that of the run
  reported TEXT, -- the outcome that the agent reported, as JSON
  PRIMARY KEY (run_id, epoch)
) STRICT, WITHOUT ROWID;

-- Output of runs in pieces of at most 64 KB, as zlib packs them, for runs whose files other machines have: the beginning
-- and the end of each stream, 1 MB together.
CREATE TABLE outputs (
  run_id INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  stream TEXT NOT NULL,
  at INTEGER NOT NULL,    -- where the piece begins
  size INTEGER NOT NULL,  -- its bytes
  total INTEGER NOT NULL, -- those of the stream at that moment
  data BLOB NOT NULL,
  url TEXT,              -- where the piece is instead, on object storage
  PRIMARY KEY (run_id, epoch, stream, at)
) STRICT;
-- Live runs whose output somebody reads on another machine: it is sent each second.
CREATE TABLE output_followers (run_id INTEGER PRIMARY KEY, until INTEGER NOT NULL) STRICT;

-- Verdicts of guards, pre-checks and hooks.
CREATE TABLE checks (
  run_id INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  kind TEXT NOT NULL,
  at INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  exit_code INTEGER,
  verdict TEXT NOT NULL,
  reason TEXT,
  output TEXT NOT NULL,
  PRIMARY KEY (run_id, epoch, kind)
) STRICT;

-- One row for each unit of a limited scope, with the id of the run that holds it.
CREATE TABLE permits (
  scope TEXT NOT NULL,
  n INTEGER NOT NULL,
  run_id INTEGER,
  PRIMARY KEY (scope, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX permits_run ON permits (run_id) WHERE run_id IS NOT NULL;

-- The last run that was let into a checkout which runs do not share. It is busy while that run is live.
CREATE TABLE checkouts (
  host TEXT NOT NULL,
  folder TEXT NOT NULL,
  run_id INTEGER NOT NULL,
  PRIMARY KEY (host, folder)
) STRICT, WITHOUT ROWID;

-- Nodes that take no new runs. All others are open.
CREATE TABLE nodes (
  name TEXT PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('cordoned', 'draining')),
  by TEXT NOT NULL, -- who said so
  note TEXT,
  at INTEGER NOT NULL,
  ends_at INTEGER -- of a draining node: when runs that have not ended are interrupted
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  id INTEGER PRIMARY KEY,
  identity TEXT NOT NULL,
  beat INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  stopped_at INTEGER,
  offers TEXT NOT NULL, -- what runs may need and find there, as JSON: ["job:report", "runner:claude"]
  node TEXT NOT NULL -- the name of its node: of the host, unless the operator gave another
) STRICT;

-- Events: append-only, hash-chained per writer: gapless seq, hash over the previous hash.

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
CREATE INDEX events_pruning ON events (id) WHERE type = 'history.pruned'; -- a long log has few of them, or none
CREATE TABLE writers (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  pruned_seq INTEGER NOT NULL DEFAULT 0,
  pruned_hash BLOB
) STRICT;
-- Seals over the heads of all chains, once a second after changes.
CREATE TABLE seals (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  upto INTEGER NOT NULL, -- the newest event that the seal covers
  heads TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
-- The last event id up to which all events are visible.
CREATE VIEW event_horizon AS SELECT coalesce(max(id), 0) AS id FROM events;

-- Policies, approvals and spending.

-- Named policies of every kind. A change raises the revision, and engines then read them again.
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

-- When the rules approved the last one-shot that an agent made outside a run. It outlives the schedule.
CREATE TABLE one_shots (
  agent TEXT PRIMARY KEY,
  approved_at INTEGER NOT NULL
) STRICT;

CREATE TABLE throttles (
  provider TEXT PRIMARY KEY,
  resets_at INTEGER NOT NULL,
  activated_at INTEGER NOT NULL,
  affects TEXT NOT NULL,
  reason TEXT NOT NULL,
  set_by TEXT NOT NULL,
  login TEXT
) STRICT;

-- Requests for approval. Each is bound to a digest and used once.
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
  unanswered TEXT NOT NULL, -- the decision when the request expires
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

-- Reservations and spending of runs, in micro-dollars and tokens.
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

-- Threads of runs, and their messages. The tool's session belongs to the thread.

CREATE TABLE threads (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  channel TEXT,
  session TEXT,        -- the tool's id of the conversation
  session_name TEXT,
  state TEXT NOT NULL, -- waiting, running, closed
  usage TEXT,          -- tokens and micro-dollars of the session so far, for tools that report totals
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  fresh_run INTEGER NOT NULL DEFAULT 0, -- the first run of its present conversation
  fresh_message INTEGER NOT NULL DEFAULT 0, -- messages up to this one belong to earlier conversations
  closing_run INTEGER, -- the run that was told to write down what the next conversation must know
  kept TEXT, -- what it wrote
  host TEXT -- the node whose tool has the session
) STRICT;
CREATE INDEX threads_channel ON threads (agent, channel, id) WHERE channel IS NOT NULL;
CREATE INDEX threads_session ON threads (agent, session) WHERE session IS NOT NULL;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  thread_id INTEGER NOT NULL,
  run_id INTEGER,
  role TEXT NOT NULL,
  text TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_thread ON messages (thread_id, id);
CREATE TABLE landings (
  run_id INTEGER PRIMARY KEY,
  thread_id INTEGER NOT NULL,
  how TEXT NOT NULL -- as requested, or the fallback
) STRICT;
CREATE INDEX landings_thread ON landings (thread_id, run_id);

-- The outbox: subscriptions and pending deliveries.

CREATE TABLE subscriptions (
  name TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('webhook', 'hook', 'function', 'pipeline', 'incident', 'notice', 'answer', 'ping', 'text')),
  target TEXT NOT NULL,
  types TEXT NOT NULL,
  cursor INTEGER NOT NULL, -- events up to this one are delivered, not wanted, or among the deliveries
  state TEXT NOT NULL CHECK (state IN ('active', 'paused')),
  note TEXT,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  lease_owner TEXT, -- the process that delivers the events
  lease_until INTEGER
) STRICT;

CREATE TABLE deliveries (
  subscription TEXT NOT NULL,
  event_id INTEGER NOT NULL,
  schedule_id INTEGER NOT NULL, -- 0 for events that belong to no schedule
  attempts INTEGER NOT NULL,
  next_at INTEGER, -- NULL while an earlier event of the schedule is pending
  last_error TEXT,
  state TEXT NOT NULL CHECK (state IN ('retrying', 'discarded')),
  PRIMARY KEY (subscription, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_lane ON deliveries (subscription, schedule_id, event_id) WHERE state = 'retrying';
CREATE INDEX deliveries_due ON deliveries (subscription, next_at) WHERE state = 'retrying';

-- Hooks after a run have their own subscription, which starts when the first hook is set.
CREATE TRIGGER hook_in_words AFTER INSERT ON revisions
WHEN NEW.definition LIKE '%"after_run":%' AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE name = 'hooks')
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'hooks', 'hook', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon;
  UPDATE policy_rev SET rev = rev + 1;
END;
CREATE TRIGGER hook_for_all AFTER INSERT ON policies
WHEN NEW.kind = 'hook' AND NEW.name = 'after:run' AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE name = 'hooks')
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'hooks', 'hook', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon;
  UPDATE policy_rev SET rev = rev + 1;
END;

-- It also releases work items that were claimed for a request.
CREATE TRIGGER item_in_request AFTER INSERT ON approvals
WHEN NEW.request LIKE '%"work_item":%' AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE name = 'hooks')
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'hooks', 'hook', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon;
  UPDATE policy_rev SET rev = rev + 1;
END;

-- Answers of runs for destinations: what waits is sent by the outbox. The text of a run's end is in its outcome.
CREATE TABLE answers (
  run_id INTEGER NOT NULL,
  number INTEGER NOT NULL, -- 0 for the end of the run; messages during it count from 1
  destination TEXT NOT NULL,
  schedule_id INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'retrying', 'delivered', 'withheld', 'unconfirmed', 'discarded')),
  reason TEXT,
  digest TEXT NOT NULL, -- of the text
  created_at INTEGER NOT NULL,
  next_at INTEGER,
  title TEXT, -- title, text and files of a message during the run
  text TEXT,
  files TEXT,
  attempts INTEGER NOT NULL,
  parts INTEGER,
  parts_sent INTEGER NOT NULL,
  sending INTEGER, -- the part that was about to leave
  again INTEGER NOT NULL, -- whether that part was repeated
  lost INTEGER NOT NULL, -- parts that were not confirmed
  copy INTEGER NOT NULL, -- how often a person had it sent again
  digest_at INTEGER, -- the hour whose digest tells it instead
  receipt TEXT,
  error TEXT,
  sent_at INTEGER,
  PRIMARY KEY (run_id, number, destination)
) STRICT;
CREATE INDEX answers_waiting ON answers (destination, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX answers_order ON answers (schedule_id, destination, run_id, number);
CREATE INDEX answers_sent ON answers (destination, sent_at) WHERE sent_at IS NOT NULL;

-- Chat: dialogues that ask for what is missing, messages that Matins posted, and where threads are.

CREATE TABLE chat_drafts (
  place TEXT NOT NULL, -- slack:TEAM/CHANNEL/TS
  person TEXT NOT NULL,
  draft TEXT NOT NULL, -- JSON
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (place, person)
) STRICT;
CREATE TABLE chat_posts (
  service TEXT NOT NULL,
  subject TEXT NOT NULL, -- approval:31, run:841
  channel TEXT NOT NULL,
  ts TEXT NOT NULL,
  digest TEXT,           -- of the request that a card shows
  via TEXT,              -- the person who answered a card there
  at INTEGER NOT NULL,
  PRIMARY KEY (service, subject, channel, ts)
) STRICT;
CREATE INDEX chat_posts_at ON chat_posts (at);
CREATE INDEX chat_posts_ts ON chat_posts (channel, ts);
CREATE TABLE chat_threads (
  thread_id INTEGER PRIMARY KEY,
  place TEXT NOT NULL
) STRICT;
CREATE INDEX chat_threads_place ON chat_threads (place, thread_id);
CREATE TABLE chat_bots (
  service TEXT PRIMARY KEY,
  name TEXT,    -- @matins_bot
  problem TEXT  -- why nothing is heard
) STRICT;
CREATE TABLE chat_links (
  hash TEXT PRIMARY KEY, -- SHA-256 of the code that a person sends to the bot
  service TEXT NOT NULL,
  person TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;

-- Pings have their own subscription, which starts when the first schedule has a URL.
CREATE TRIGGER first_ping AFTER INSERT ON revisions
WHEN NEW.definition LIKE '%"ping":%' AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE name = 'pings')
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'pings', 'ping', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon;
  UPDATE policy_rev SET rev = rev + 1;
END;

-- Incidents: what people hear of once, however often it happens. A subscription that is always there keeps them.
CREATE TABLE incidents (
  id INTEGER PRIMARY KEY,
  schedule_id INTEGER NOT NULL, -- 0 for an incident of none, or of several
  kind TEXT NOT NULL,
  signature TEXT NOT NULL, -- what equal troubles have in common
  summary TEXT NOT NULL,
  quote TEXT,
  error TEXT,
  run_id INTEGER,
  times INTEGER NOT NULL, -- how often it happened
  details TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  told INTEGER NOT NULL,       -- the number of messages about it
  told_times INTEGER NOT NULL, -- how often it had happened at the last message
  next_at INTEGER,             -- when it is looked at again, for a reminder
  acknowledged_at INTEGER,
  acknowledged_by TEXT,
  resolved_at INTEGER,
  resolution TEXT
) STRICT;
CREATE UNIQUE INDEX incidents_open ON incidents (schedule_id, kind, signature) WHERE resolved_at IS NULL;
CREATE INDEX incidents_schedule ON incidents (schedule_id, opened_at);
CREATE INDEX incidents_due ON incidents (next_at) WHERE next_at IS NOT NULL;
-- Messages to destinations: those of the last hours, and those that wait for a digest.
CREATE TABLE notices (
  id INTEGER PRIMARY KEY,
  destination TEXT NOT NULL,
  at INTEGER NOT NULL,
  title TEXT NOT NULL,
  held_until INTEGER -- NULL when it was sent on its own
) STRICT;
CREATE INDEX notices_destination ON notices (destination, at);
CREATE INDEX notices_held ON notices (held_until) WHERE held_until IS NOT NULL;
INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
VALUES ('incidents', 'incident', '{}', '[]', 0, 'active', 0, 'matins');

-- What whole runs said, for searches: answers, errors, reasons and the ends of outputs. A subscription fills it.
CREATE TABLE run_texts (
  run_id INTEGER PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;
CREATE VIRTUAL TABLE run_words USING fts5 (text, content = 'run_texts', content_rowid = 'run_id', tokenize = 'unicode61 remove_diacritics 0');
CREATE TRIGGER run_text_added AFTER INSERT ON run_texts BEGIN
  INSERT INTO run_words (rowid, text) VALUES (NEW.run_id, NEW.text);
END;
CREATE TRIGGER run_text_changed AFTER UPDATE ON run_texts BEGIN
  INSERT INTO run_words (run_words, rowid, text) VALUES ('delete', OLD.run_id, OLD.text);
  INSERT INTO run_words (rowid, text) VALUES (NEW.run_id, NEW.text);
END;
CREATE TRIGGER run_text_deleted AFTER DELETE ON run_texts BEGIN
  INSERT INTO run_words (run_words, rowid, text) VALUES ('delete', OLD.run_id, OLD.text);
END;
INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
VALUES ('texts', 'text', '{}', '[]', 0, 'active', 0, 'matins');

-- Calls from outside: deliveries to inbound endpoints, chat messages, and outcomes of schedules.

CREATE TABLE calls (
  id INTEGER PRIMARY KEY,
  source TEXT NOT NULL, -- webhook, chat, schedule
  name TEXT NOT NULL,   -- the endpoint, the channel, or the schedule as agent/name
  key TEXT NOT NULL,    -- deliveries with the same key are one call
  type TEXT,
  sender TEXT,
  hops INTEGER NOT NULL,
  at INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('accepted', 'ignored')),
  reason TEXT,
  text TEXT,
  body TEXT -- JSON; NULL when it is no longer kept
) STRICT;
CREATE UNIQUE INDEX calls_key ON calls (source, name, key);
CREATE INDEX calls_at ON calls (at);
-- The keys of the last day's calls by the digest of what was signed, where the key is not a part of it.
CREATE TABLE signed_calls (
  source TEXT NOT NULL,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (source, name, digest)
) STRICT, WITHOUT ROWID;
-- A call may start runs of several schedules. A debounced run stands for several calls.
CREATE TABLE call_runs (
  call_id INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  grouped TEXT, -- further calls with this value belong to the same run while it waits
  PRIMARY KEY (call_id, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX call_runs_run ON call_runs (run_id);
-- What each schedule listens to, by its present revision.
CREATE TABLE listeners (
  source TEXT NOT NULL,
  name TEXT NOT NULL,
  agent TEXT NOT NULL, -- of the schedule that is followed
  schedule_id INTEGER NOT NULL,
  PRIMARY KEY (source, name, agent, schedule_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX listeners_schedule ON listeners (schedule_id);
-- Pipelines have their own subscription, which starts when the first schedule follows another.
CREATE TRIGGER first_pipeline AFTER INSERT ON listeners
WHEN NEW.source = 'schedule' AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE name = 'pipelines')
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'pipelines', 'pipeline', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon;
  UPDATE policy_rev SET rev = rev + 1;
END;

-- Records of the surfaces: tokens, responses to idempotent requests, and the file.

CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  hash TEXT NOT NULL, -- SHA-256 of the whole token
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  rights TEXT,        -- rights among those of the role, as JSON; NULL for all
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_at INTEGER,
  person TEXT,         -- whose token it is, with their rights of now; NULL for a program
  revoked_at INTEGER,
  used_at INTEGER
) STRICT;

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE, -- SHA-256 of the code of the link, then of the cookie
  role TEXT NOT NULL,
  name TEXT NOT NULL,
  rights TEXT,
  token TEXT, -- the token that it came from and ends with
  person TEXT, -- the person whose session it is; it ends with the person
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  method TEXT NOT NULL, -- link, invitation, email, chat, password, provider
  browser TEXT, -- SHA-256 of the cookie of the browser that asked for the link
  opened_at INTEGER,
  used_at INTEGER,
  ended_at INTEGER
) STRICT;

CREATE TABLE credentials (
  kind TEXT NOT NULL,    -- password, provider, heir, left
  subject TEXT NOT NULL, -- the person; of a provider, its issuer and the subject there
  person TEXT NOT NULL,  -- of a person who left: to whom their schedules belong
  hash TEXT,             -- argon2id
  at INTEGER NOT NULL,
  PRIMARY KEY (kind, subject)
) STRICT;

CREATE TABLE sign_in_tries (
  whose TEXT NOT NULL, -- SHA-256 of a kind of try, and of a name or an address
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_in_tries_whose ON sign_in_tries (whose, at);

CREATE TABLE requests (
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  digest TEXT NOT NULL, -- of the request
  status INTEGER,       -- NULL while the request is being processed
  answer TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT;
CREATE INDEX requests_at ON requests (at);

CREATE TABLE file_entries (
  kind TEXT NOT NULL, -- schedule, agent, quiet_hours …
  name TEXT NOT NULL,
  file TEXT NOT NULL, -- the name of the file that owns it
  path TEXT NOT NULL,
  line INTEGER NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT;

-- Files by the names that are written in them. One place at a time applies a name.
CREATE TABLE files (
  name TEXT PRIMARY KEY,
  place TEXT NOT NULL, -- where it was applied from
  digest TEXT NOT NULL,
  content TEXT NOT NULL,
  at INTEGER NOT NULL,
  by TEXT NOT NULL
) STRICT;
