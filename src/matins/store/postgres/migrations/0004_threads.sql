-- Where runs land: threads and what was said in them; the tool's own session goes with its thread.

CREATE TABLE threads (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  agent text NOT NULL,
  channel text,
  session text,      -- the tool's own id of the conversation
  session_name text,
  state text NOT NULL, -- waiting, running, closed
  tokens text,       -- what a session had used so far, for tools that count up
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL
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
  how text NOT NULL -- as asked, or the fallback that was taken
);
CREATE INDEX landings_thread ON landings (thread_id, run_id);
