-- Where runs land: threads and what was said in them; the tool's own session goes with its thread.

CREATE TABLE threads (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  channel TEXT,
  session TEXT,      -- the tool's own id of the conversation
  session_name TEXT,
  state TEXT NOT NULL, -- waiting, running, closed
  tokens TEXT,       -- what a session had used so far, for tools that count up
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
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
  how TEXT NOT NULL -- as asked, or the fallback that was taken
) STRICT;
CREATE INDEX landings_thread ON landings (thread_id, run_id);
