-- Instants are UTC milliseconds. Run states are the numbers of RunState: below 10 live, from 10 on ended.
-- Transactions keep references valid. Foreign keys would lock the rows that the loops compete for.

CREATE TABLE migrations (number bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at bigint NOT NULL);
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO meta VALUES
  ('store_id', substr(md5(gen_random_uuid()::text), 1, 16)),
  ('incarnation', substr(md5(gen_random_uuid()::text), 1, 16)), -- another one after the store was set back to an older copy
  ('run_key', gen_random_uuid()::text || gen_random_uuid()::text), -- the key of run tokens
  ('xact_base', '0'), -- added to transaction ids, so that they keep rising in a copy on another server
  ('sealed', '0');    -- all events below this one are sealed

-- Schedules: definitions, creators and due times.

CREATE SEQUENCE schedule_ids;
CREATE TABLE schedules (
  id bigint PRIMARY KEY,
  uid text NOT NULL DEFAULT substr(md5(gen_random_uuid()::text), 1, 16), -- never given again, unlike an id in a store that is set back
  agent text NOT NULL,
  name text NOT NULL,
  state text NOT NULL CHECK (state IN ('pending', 'active', 'paused', 'expired', 'rejected', 'broken', 'removed')),
  rev bigint NOT NULL,
  note text,
  paused_by text,
  paused_at bigint,
  paused_until bigint,
  pause_id text, -- the pause of several schedules that it belongs to
  created_at bigint NOT NULL,
  created_by text NOT NULL DEFAULT 'owner',
  creator_role text NOT NULL DEFAULT 'owner',
  creator_run bigint, -- the run in which an agent created it
  parent bigint,      -- the schedule of that run
  depth bigint NOT NULL DEFAULT 0,
  updated_at bigint NOT NULL,
  purged_slot bigint -- the last slot whose run is deleted; it is not planned again after the clock is set back
);
CREATE UNIQUE INDEX schedules_name ON schedules (name, agent) WHERE state <> 'removed';
CREATE INDEX schedules_stopped ON schedules (state) WHERE state <> 'active'; -- few, so that counting them is quick
CREATE INDEX schedules_until ON schedules (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_creator ON schedules (created_by) WHERE creator_role = 'agent';

-- The definition of a schedule at each revision. A run keeps the revision that it was planned under.
CREATE TABLE revisions (
  schedule_id bigint NOT NULL,
  rev bigint NOT NULL,
  definition text NOT NULL,
  author text, -- only the owner may approve their own changes
  author_role text,
  at bigint, -- when the schedule got it; NULL for the first, and for settings of one run
  PRIMARY KEY (schedule_id, rev)
);

-- The names that schedules had, up to a revision. Digests of then have them.
CREATE TABLE former_names (
  schedule_id bigint NOT NULL,
  rev bigint NOT NULL,
  agent text NOT NULL,
  name text NOT NULL,
  creator text NOT NULL, -- who made it, as it was written then
  at bigint NOT NULL, -- when it got another one
  PRIMARY KEY (schedule_id, rev)
);
CREATE INDEX former_names_name ON former_names (name);

-- The labels of schedules at their present revision.
CREATE TABLE schedule_labels (
  key text NOT NULL,
  value text NOT NULL,
  schedule_id bigint NOT NULL,
  PRIMARY KEY (key, value, schedule_id)
);
CREATE INDEX schedule_labels_schedule ON schedule_labels (schedule_id);

-- The hot row: the cursor. It does not depend on history, so pruning never fires a slot again.
CREATE TABLE due (
  schedule_id bigint PRIMARY KEY,
  next_slot bigint,
  due_at bigint,
  rev bigint NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  waiting boolean NOT NULL DEFAULT false, -- for a completion, which decides the next slot
  window_used bigint NOT NULL DEFAULT 0,
  executions bigint NOT NULL DEFAULT 0,
  failures bigint NOT NULL DEFAULT 0,
  failed_at bigint -- the last of these failures, while slots may be skipped for it
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX due_next ON due (due_at) WHERE due_at IS NOT NULL;

-- The data of time zones from which slots were computed: with other data, an engine computes the next slots again.
CREATE TABLE zone_versions (
  name text NOT NULL,
  digest text NOT NULL,
  data bytea NOT NULL, -- the TZif file
  used_at bigint NOT NULL, -- when an engine last started with it; 0 if only schedules were written with it
  moved_at bigint, -- when slots last moved to those of these data
  moved bigint NOT NULL DEFAULT 0, -- the number of schedules that moved then
  PRIMARY KEY (name, digest)
);

-- Runs: the state and the owner of each slot.

CREATE SEQUENCE run_ids;
CREATE TABLE runs (
  id bigint PRIMARY KEY,
  schedule_id bigint NOT NULL,
  rev bigint NOT NULL,
  slot bigint,
  request_key text,
  state smallint NOT NULL,
  exclusive smallint NOT NULL,
  scope text, -- the limited scope of the agent
  epoch bigint NOT NULL,
  attempt bigint NOT NULL,
  owner bigint,
  not_before bigint,
  planned_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  slots bigint NOT NULL,
  first_slot bigint,
  cleared bigint NOT NULL DEFAULT 0, -- the `GatesPassed` of the run: 1 checked, 2 approved
  cancelling smallint NOT NULL DEFAULT 0,
  reason text,
  evidence text,
  outcome text,
  parent bigint,      -- the run whose step this is
  step bigint NOT NULL DEFAULT 0, -- the number of the step, from 1; 0 for a whole run
  round bigint,       -- which attempt of the parent made it
  retry_of bigint,    -- the run whose steps that succeeded are carried over
  retry_from bigint, -- the step from which everything runs again
  place integer NOT NULL DEFAULT 0, -- the set of needs, see places; 0 where any engine can do it
  given text, -- what it was started with beside the settings of its schedule, as JSON; mostly nothing
  for_slot bigint, -- the past slot that a run without a slot stands for
  backfill bigint -- the backfill that made it
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX runs_slot ON runs (schedule_id, slot) WHERE slot IS NOT NULL;
CREATE UNIQUE INDEX runs_request ON runs (schedule_id, request_key) WHERE request_key IS NOT NULL;
-- At most one run from ready to running, unless the schedule allows overlap.
CREATE UNIQUE INDEX runs_active ON runs (schedule_id) WHERE exclusive = 1 AND state BETWEEN 2 AND 4;
CREATE INDEX runs_live ON runs (schedule_id, state, id) WHERE state BETWEEN 0 AND 5;
CREATE INDEX runs_ready ON runs (place, not_before) WHERE state = 2;
CREATE INDEX runs_parked ON runs (not_before) WHERE state = 0 AND reason <> 'paused';
CREATE UNIQUE INDEX runs_backfill ON runs (backfill, for_slot) WHERE backfill IS NOT NULL;
CREATE INDEX runs_made_up ON runs (schedule_id, for_slot) WHERE for_slot IS NOT NULL;
CREATE INDEX runs_history ON runs (schedule_id, id) WHERE step = 0;
CREATE INDEX runs_manual ON runs (schedule_id, id) WHERE slot IS NULL AND step = 0; -- few, between many
CREATE UNIQUE INDEX runs_step ON runs (parent, round, step) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs USING brin (ended_at) WITH (autosummarize = on);

-- Runs for past slots, made one after the other: a row, however many slots it covers.
CREATE TABLE backfills (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id bigint NOT NULL REFERENCES schedules (id),
  rev bigint NOT NULL, -- the settings of its start
  state text NOT NULL CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
  reason text, -- why it is paused: person, schedule, failures, budget, max_cost
  changed_by text, -- who paused, resumed or cancelled it
  first_slot bigint NOT NULL, -- the range, both ends included
  last_slot bigint NOT NULL,
  choice text NOT NULL, -- which slots: missing, failed, all
  newest_first bigint NOT NULL,
  last_seen bigint, -- the last slot that was looked at
  planned bigint NOT NULL, -- the runs of its preview
  made bigint NOT NULL DEFAULT 0,
  most bigint NOT NULL, -- runs that it may make
  max_parallel bigint NOT NULL,
  max_cost bigint, -- in micro-dollars, for the whole
  waits_since bigint, -- since when it lets other runs pass
  failures_after bigint NOT NULL DEFAULT 0, -- up to this run, failures do not count
  next_at bigint, -- when to look at it next
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  ended_at bigint
);
CREATE INDEX backfills_next ON backfills (next_at) WHERE state = 'running';
CREATE INDEX backfills_schedule ON backfills (schedule_id, id);

-- Runs of which people hear when they are late or take long: when to look at each.
CREATE TABLE watched_runs (
  run_id bigint PRIMARY KEY,
  at bigint NOT NULL,
  late boolean NOT NULL -- whether it was late, and that was told
);
CREATE INDEX watched_runs_at ON watched_runs (at);

-- The addresses at which work elsewhere reports to a schedule.
CREATE TABLE ping_tokens (
  schedule_id bigint PRIMARY KEY,
  token text NOT NULL UNIQUE
);

-- Sets of needs, such as ["job:report"]: an engine claims only runs of places whose needs it has.
CREATE TABLE places (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  needs text NOT NULL UNIQUE,
  reported_at bigint -- when it was reported that no engine has them
);

-- Nodes that lack what a run needs, which they found when they were about to start it.
CREATE TABLE turned_away (
  run_id bigint NOT NULL,
  node text NOT NULL,
  reason text NOT NULL,
  PRIMARY KEY (run_id, node)
);

CREATE TABLE attempts (
  run_id bigint NOT NULL,
  epoch bigint NOT NULL,
  owner bigint NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint, -- of an attempt after which the run goes on; the end of the last one is that of the run
  reported text, -- the outcome that the agent reported, as JSON
  PRIMARY KEY (run_id, epoch)
);

-- Output of attempts, for readers on other machines: pieces of stdout and stderr, compressed by zlib.
CREATE TABLE outputs (
  run_id bigint NOT NULL,
  epoch bigint NOT NULL,
  stream text NOT NULL,
  at bigint NOT NULL,    -- where the piece begins
  size bigint NOT NULL,  -- its bytes
  total bigint NOT NULL, -- those of the stream at that moment
  data bytea NOT NULL,
  url text,              -- where the piece is instead, on object storage
  PRIMARY KEY (run_id, epoch, stream, at)
);
ALTER TABLE outputs ALTER COLUMN data SET STORAGE EXTERNAL; -- it is compressed already
-- Live runs whose output somebody reads on another machine: it is sent each second.
CREATE TABLE output_followers (run_id bigint PRIMARY KEY, until bigint NOT NULL);

-- Verdicts of guards, pre-checks and hooks.
CREATE TABLE checks (
  run_id bigint NOT NULL,
  epoch bigint NOT NULL,
  kind text NOT NULL,
  at bigint NOT NULL,
  duration_ms bigint NOT NULL,
  exit_code bigint,
  verdict text NOT NULL,
  reason text,
  output text NOT NULL,
  PRIMARY KEY (run_id, epoch, kind)
);

-- One row for each unit of a limited scope, with the id of the run that holds it.
CREATE TABLE permits (
  scope text NOT NULL,
  n bigint NOT NULL,
  run_id bigint,
  PRIMARY KEY (scope, n)
) WITH (fillfactor = 50); -- few rows that change all the time
CREATE INDEX permits_run ON permits (run_id) WHERE run_id IS NOT NULL;

-- The last run that was let into a checkout which runs do not share. It is busy while that run is live.
CREATE TABLE checkouts (
  host text NOT NULL,
  folder text NOT NULL,
  run_id bigint NOT NULL,
  PRIMARY KEY (host, folder)
);

-- Nodes that take no new runs. All others are open.
CREATE TABLE nodes (
  name text PRIMARY KEY,
  state text NOT NULL CHECK (state IN ('cordoned', 'draining')),
  by text NOT NULL, -- who said so
  note text,
  at bigint NOT NULL,
  ends_at bigint -- of a draining node: when runs that have not ended are interrupted
);

CREATE TABLE workers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  identity text NOT NULL,
  beat bigint NOT NULL,
  started_at bigint NOT NULL,
  stopped_at bigint,
  offers text NOT NULL, -- what runs may need and find there, as JSON: ["job:report", "runner:claude"]
  node text NOT NULL -- the name of its node: of the host, unless the operator gave another
);

-- Events: append-only, hash-chained per writer: gapless seq, hash over the previous hash. The id is the transaction's,
-- then the position in it: a later commit never has a smaller id than an event that readers below the horizon saw.

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
CREATE INDEX events_pruning ON events (id) WHERE type = 'history.pruned'; -- a long log has few of them, or none
CREATE TABLE writers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  uuid text NOT NULL,
  opened_at bigint NOT NULL,
  sealed_seq bigint NOT NULL DEFAULT 0,
  pruned_seq bigint NOT NULL DEFAULT 0,
  pruned_hash bytea
);
-- Chains that transactions of callers continue, one after the other. Who continues one holds its row here, not that of the
-- writer, which seals change.
CREATE TABLE callers_chains (
  writer bigint PRIMARY KEY,
  event_id bigint NOT NULL, -- of its last event
  seq bigint NOT NULL,
  hash bytea NOT NULL
);
-- Seals over the heads of all chains, once a second after changes.
CREATE TABLE seals (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  heads text NOT NULL,
  hash bytea NOT NULL
);
-- The last event id up to which all events are visible: below the oldest open transaction.
CREATE VIEW event_horizon AS
SELECT ((pg_snapshot_xmin(pg_current_snapshot())::text::bigint + value::bigint) << 22) - 1 AS id
FROM meta WHERE key = 'xact_base';

-- Policies, approvals and spending.

-- Named policies of every kind. A change raises the revision, and engines then read them again.
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

-- When the rules approved the last one-shot that an agent made outside a run. It outlives the schedule.
CREATE TABLE one_shots (
  agent text PRIMARY KEY,
  approved_at bigint NOT NULL
);

CREATE TABLE throttles (
  provider text PRIMARY KEY,
  resets_at bigint NOT NULL,
  activated_at bigint NOT NULL,
  affects text NOT NULL,
  reason text NOT NULL,
  set_by text NOT NULL,
  login text
);

-- Requests for approval. Each is bound to a digest and used once.
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
  unanswered text NOT NULL, -- the decision when the request expires
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

-- Reservations and spending of runs, in micro-dollars and tokens.
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

-- Threads of runs, and their messages. The tool's session belongs to the thread.

CREATE TABLE threads (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  agent text NOT NULL,
  channel text,
  session text,        -- the tool's id of the conversation
  session_name text,
  state text NOT NULL, -- waiting, running, closed
  usage text,          -- tokens and micro-dollars of the session so far, for tools that report totals
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  fresh_run bigint NOT NULL DEFAULT 0, -- the first run of its present conversation
  fresh_message bigint NOT NULL DEFAULT 0, -- messages up to this one belong to earlier conversations
  closing_run bigint, -- the run that was told to write down what the next conversation must know
  kept text, -- what it wrote
  host text -- the node whose tool has the session
);
CREATE INDEX threads_channel ON threads (agent, channel, id) WHERE channel IS NOT NULL;
CREATE INDEX threads_session ON threads (agent, session) WHERE session IS NOT NULL;
CREATE TABLE messages (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  thread_id bigint NOT NULL,
  run_id bigint,
  role text NOT NULL,
  text text NOT NULL,
  at bigint NOT NULL
);
CREATE INDEX messages_thread ON messages (thread_id, id);
CREATE TABLE landings (
  run_id bigint PRIMARY KEY,
  thread_id bigint NOT NULL,
  how text NOT NULL -- as requested, or the fallback
);
CREATE INDEX landings_thread ON landings (thread_id, run_id);

-- The outbox: subscriptions and pending deliveries.

CREATE TABLE subscriptions (
  name text PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('webhook', 'hook', 'function', 'pipeline', 'incident', 'notice', 'answer', 'ping', 'text')),
  target text NOT NULL,
  types text NOT NULL,
  cursor bigint NOT NULL, -- events up to this one are delivered, not wanted, or among the deliveries
  state text NOT NULL CHECK (state IN ('active', 'paused')),
  note text,
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  lease_owner text, -- the process that delivers the events
  lease_until bigint
);

CREATE TABLE deliveries (
  subscription text NOT NULL,
  event_id bigint NOT NULL,
  schedule_id bigint NOT NULL, -- 0 for events that belong to no schedule
  attempts bigint NOT NULL,
  next_at bigint, -- NULL while an earlier event of the schedule is pending
  last_error text,
  state text NOT NULL CHECK (state IN ('retrying', 'discarded')),
  PRIMARY KEY (subscription, event_id)
);
CREATE INDEX deliveries_lane ON deliveries (subscription, schedule_id, event_id) WHERE state = 'retrying';
CREATE INDEX deliveries_due ON deliveries (subscription, next_at) WHERE state = 'retrying';

-- Hooks after a run have their own subscription, which starts when the first hook is set.
CREATE FUNCTION open_hooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'hooks', 'hook', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon ON CONFLICT DO NOTHING;
  IF FOUND THEN
    UPDATE policy_rev SET rev = rev + 1;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER hook_in_words AFTER INSERT ON revisions FOR EACH ROW
WHEN (NEW.definition LIKE '%"after_run":%') EXECUTE FUNCTION open_hooks();
CREATE TRIGGER hook_for_all AFTER INSERT ON policies FOR EACH ROW
WHEN (NEW.kind = 'hook' AND NEW.name = 'after:run') EXECUTE FUNCTION open_hooks();

-- It also releases work items that were claimed for a request.
CREATE TRIGGER item_in_request AFTER INSERT ON approvals FOR EACH ROW
WHEN (NEW.request LIKE '%"work_item":%') EXECUTE FUNCTION open_hooks();

-- Answers of runs for destinations: what waits is sent by the outbox. The text of a run's end is in its outcome.
CREATE TABLE answers (
  run_id bigint NOT NULL,
  number bigint NOT NULL, -- 0 for the end of the run; messages during it count from 1
  destination text NOT NULL,
  schedule_id bigint NOT NULL,
  state text NOT NULL CHECK (state IN ('queued', 'retrying', 'delivered', 'withheld', 'unconfirmed', 'discarded')),
  reason text,
  digest text NOT NULL, -- of the text
  created_at bigint NOT NULL,
  next_at bigint,
  title text, -- title, text and files of a message during the run
  text text,
  files text,
  attempts bigint NOT NULL,
  parts bigint,
  parts_sent bigint NOT NULL,
  sending bigint, -- the part that was about to leave
  again bigint NOT NULL, -- whether that part was repeated
  lost bigint NOT NULL, -- parts that were not confirmed
  copy bigint NOT NULL, -- how often a person had it sent again
  digest_at bigint, -- the hour whose digest tells it instead
  receipt text,
  error text,
  sent_at bigint,
  PRIMARY KEY (run_id, number, destination)
);
CREATE INDEX answers_waiting ON answers (destination, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX answers_order ON answers (schedule_id, destination, run_id, number);
CREATE INDEX answers_sent ON answers (destination, sent_at) WHERE sent_at IS NOT NULL;

-- Chat: dialogues that ask for what is missing, messages that Matins posted, and where threads are.

CREATE TABLE chat_drafts (
  place text NOT NULL, -- slack:TEAM/CHANNEL/TS
  person text NOT NULL,
  draft text NOT NULL, -- JSON
  expires_at bigint NOT NULL,
  PRIMARY KEY (place, person)
);
CREATE TABLE chat_posts (
  service text NOT NULL,
  subject text NOT NULL, -- approval:31, run:841
  channel text NOT NULL,
  ts text NOT NULL,
  digest text,           -- of the request that a card shows
  via text,              -- the person who answered a card there
  at bigint NOT NULL,
  PRIMARY KEY (service, subject, channel, ts)
);
CREATE INDEX chat_posts_at ON chat_posts (at);
CREATE INDEX chat_posts_ts ON chat_posts (channel, ts);
CREATE TABLE chat_threads (
  thread_id bigint PRIMARY KEY,
  place text NOT NULL
);
CREATE INDEX chat_threads_place ON chat_threads (place, thread_id);
CREATE TABLE chat_bots (
  service text PRIMARY KEY,
  name text,    -- @matins_bot
  problem text  -- why nothing is heard
);
CREATE TABLE chat_links (
  hash text PRIMARY KEY, -- SHA-256 of the code that a person sends to the bot
  service text NOT NULL,
  person text NOT NULL,
  expires_at bigint NOT NULL
);

-- Pings have their own subscription, which starts when the first schedule has a URL.
CREATE FUNCTION open_pings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'pings', 'ping', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon ON CONFLICT DO NOTHING;
  IF FOUND THEN
    UPDATE policy_rev SET rev = rev + 1;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER first_ping AFTER INSERT ON revisions FOR EACH ROW
WHEN (NEW.definition LIKE '%"ping":%') EXECUTE FUNCTION open_pings();

-- Incidents: what people hear of once, however often it happens. A subscription that is always there keeps them.
CREATE TABLE incidents (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id bigint NOT NULL, -- 0 for an incident of none, or of several
  kind text NOT NULL,
  signature text NOT NULL, -- what equal troubles have in common
  summary text NOT NULL,
  quote text,
  error text,
  run_id bigint,
  times bigint NOT NULL, -- how often it happened
  details text NOT NULL,
  opened_at bigint NOT NULL,
  last_at bigint NOT NULL,
  told bigint NOT NULL,       -- the number of messages about it
  told_times bigint NOT NULL, -- how often it had happened at the last message
  next_at bigint,             -- when it is looked at again, for a reminder
  acknowledged_at bigint,
  acknowledged_by text,
  resolved_at bigint,
  resolution text
);
CREATE UNIQUE INDEX incidents_open ON incidents (schedule_id, kind, signature) WHERE resolved_at IS NULL;
CREATE INDEX incidents_schedule ON incidents (schedule_id, opened_at);
CREATE INDEX incidents_due ON incidents (next_at) WHERE next_at IS NOT NULL;
-- Messages to destinations: those of the last hours, and those that wait for a digest.
CREATE TABLE notices (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  destination text NOT NULL,
  at bigint NOT NULL,
  title text NOT NULL,
  held_until bigint -- NULL when it was sent on its own
);
CREATE INDEX notices_destination ON notices (destination, at);
CREATE INDEX notices_held ON notices (held_until) WHERE held_until IS NOT NULL;
INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
VALUES ('incidents', 'incident', '{}', '[]', 0, 'active', 0, 'matins');

-- What whole runs said, for searches: answers, errors, reasons and the ends of outputs. A subscription fills it. Signs
-- become blanks, so that the parser sees the same words as the index of SQLite.
CREATE TABLE run_texts (
  run_id bigint PRIMARY KEY,
  text text NOT NULL,
  words tsvector NOT NULL GENERATED ALWAYS AS (
    strip(to_tsvector('simple', translate(text, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32))))) STORED
);
CREATE INDEX run_texts_words ON run_texts USING gin (words);
INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
VALUES ('texts', 'text', '{}', '[]', 0, 'active', 0, 'matins');

-- Calls from outside: deliveries to inbound endpoints, chat messages, and outcomes of schedules.

CREATE TABLE calls (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  source text NOT NULL, -- webhook, chat, schedule
  name text NOT NULL,   -- the endpoint, the channel, or the schedule as agent/name
  key text NOT NULL,    -- deliveries with the same key are one call
  type text,
  sender text,
  hops bigint NOT NULL,
  at bigint NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('accepted', 'ignored')),
  reason text,
  text text,
  body text -- JSON; NULL when it is no longer kept
);
CREATE UNIQUE INDEX calls_key ON calls (source, name, key);
CREATE INDEX calls_at ON calls (at);
-- The keys of the last day's calls by the digest of what was signed, where the key is not a part of it.
CREATE TABLE signed_calls (
  source text NOT NULL,
  name text NOT NULL,
  digest text NOT NULL,
  key text NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (source, name, digest)
);
-- A call may start runs of several schedules. A debounced run stands for several calls.
CREATE TABLE call_runs (
  call_id bigint NOT NULL,
  run_id bigint NOT NULL,
  grouped text, -- further calls with this value belong to the same run while it waits
  PRIMARY KEY (call_id, run_id)
);
CREATE INDEX call_runs_run ON call_runs (run_id);
-- What each schedule listens to, by its present revision.
CREATE TABLE listeners (
  source text NOT NULL,
  name text NOT NULL,
  agent text NOT NULL, -- of the schedule that is followed
  schedule_id bigint NOT NULL,
  PRIMARY KEY (source, name, agent, schedule_id)
);
CREATE INDEX listeners_schedule ON listeners (schedule_id);
-- Pipelines have their own subscription, which starts when the first schedule follows another.
CREATE FUNCTION open_pipelines() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'pipelines', 'pipeline', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon ON CONFLICT DO NOTHING;
  IF FOUND THEN
    UPDATE policy_rev SET rev = rev + 1;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER first_pipeline AFTER INSERT ON listeners FOR EACH ROW
WHEN (NEW.source = 'schedule') EXECUTE FUNCTION open_pipelines();

-- Records of the surfaces: tokens, responses to idempotent requests, and the file.

CREATE TABLE tokens (
  id text PRIMARY KEY,
  hash text NOT NULL, -- SHA-256 of the whole token
  name text NOT NULL,
  role text NOT NULL,
  rights text,        -- rights among those of the role, as JSON; NULL for all
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  expires_at bigint,
  person text,         -- whose token it is, with their rights of now; NULL for a program
  revoked_at bigint,
  used_at bigint
);

CREATE TABLE sessions (
  id text PRIMARY KEY,
  hash text NOT NULL UNIQUE, -- SHA-256 of the code of the link, then of the cookie
  role text NOT NULL,
  name text NOT NULL,
  rights text,
  token text, -- the token that it came from and ends with
  person text, -- the person whose session it is; it ends with the person
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  method text NOT NULL, -- link, invitation, email, chat, password, provider
  browser text, -- SHA-256 of the cookie of the browser that asked for the link
  opened_at bigint,
  used_at bigint,
  ended_at bigint
);

CREATE TABLE credentials (
  kind text NOT NULL,    -- password, provider, heir, left
  subject text NOT NULL, -- the person; of a provider, its issuer and the subject there
  person text NOT NULL,  -- of a person who left: to whom their schedules belong
  hash text,             -- argon2id
  at bigint NOT NULL,
  PRIMARY KEY (kind, subject)
);

CREATE TABLE sign_in_tries (
  whose text NOT NULL, -- SHA-256 of a kind of try, and of a name or an address
  at bigint NOT NULL
);
CREATE INDEX sign_in_tries_whose ON sign_in_tries (whose, at);

CREATE TABLE requests (
  principal text NOT NULL,
  key text NOT NULL,
  digest text NOT NULL, -- of the request
  status integer,       -- NULL while the request is being processed
  answer text,
  at bigint NOT NULL,
  PRIMARY KEY (principal, key)
);
CREATE INDEX requests_at ON requests (at);

CREATE TABLE file_entries (
  kind text NOT NULL, -- schedule, agent, quiet_hours …
  name text NOT NULL,
  file text NOT NULL, -- the name of the file that owns it
  path text NOT NULL,
  line integer NOT NULL,
  digest text NOT NULL,
  PRIMARY KEY (kind, name)
);

-- Files by the names that are written in them. One place at a time applies a name.
CREATE TABLE files (
  name text PRIMARY KEY,
  place text NOT NULL, -- where it was applied from
  digest text NOT NULL,
  content text NOT NULL,
  at bigint NOT NULL,
  by text NOT NULL
);
