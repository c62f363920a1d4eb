-- Threads, their messages and their runs.

-- insert_thread(agent: str, channel: str | None, session: str | None, session_name: str | None, host: str | None,
--   now: int) -> int: add a thread
INSERT INTO threads (agent, channel, session, session_name, host, state, created_at, updated_at)
VALUES (:agent, :channel, :session, :session_name, :host, 'waiting', :now, :now) RETURNING id;

-- thread: one thread
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at, fresh_run, fresh_message,
  closing_run, kept, host FROM threads WHERE id = :id;

-- lock_thread: lock a thread
SELECT id FROM threads WHERE id = :id /* lock */;

-- channel_thread: the agent's newest thread in a channel that is not closed
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at, fresh_run, fresh_message,
  closing_run, kept, host FROM threads
WHERE agent = :agent AND channel = :channel AND state <> 'closed' ORDER BY id DESC LIMIT 1;

-- channel_session: the agent's last session in a channel
SELECT session, session_name, host FROM threads
WHERE agent = :agent AND channel = :channel AND session IS NOT NULL ORDER BY id DESC LIMIT 1;

-- session_thread: the newest thread of a session
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at, fresh_run, fresh_message,
  closing_run, kept, host FROM threads
WHERE agent = :agent AND (session = :session OR session_name = :session) ORDER BY id DESC LIMIT 1;

-- threads: a page of threads, the newest first
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at, fresh_run, fresh_message,
  closing_run, kept, host FROM threads
WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- set_thread: set the state, session and usage of a thread
UPDATE threads SET state = :state, session = coalesce(:session, session), usage = coalesce(:usage, usage),
  updated_at = :now WHERE id = :id;

-- set_session_host(thread_id: int, run_id: int) -> None: note that the session of a thread is on the node that runs a run
UPDATE threads SET host = (SELECT w.node FROM runs r JOIN workers w ON w.id = r.owner WHERE r.id = :run_id)
WHERE id = :thread_id;

-- assign_thread(run_id: int, thread_id: int, how: str) -> None: set the thread of a run
INSERT INTO landings (run_id, thread_id, how) VALUES (:run_id, :thread_id, :how)
ON CONFLICT (run_id) DO UPDATE SET thread_id = excluded.thread_id, how = excluded.how;

-- unassign_thread(run_id: int) -> None: delete the thread assignment of a run
DELETE FROM landings WHERE run_id = :run_id;

-- clear_session(thread_id: int, state: str) -> None: clear a session that the tool no longer knows
UPDATE threads SET session = NULL, session_name = NULL, host = NULL, usage = NULL, state = :state WHERE id = :thread_id;

-- thread_assignment: the thread of a run, and how it was chosen
SELECT l.run_id, l.how, t.id, t.agent, t.channel, t.session, t.session_name, t.state, t.usage, t.created_at, t.updated_at,
  t.fresh_run, t.fresh_message, t.closing_run, t.kept, t.host
FROM landings l JOIN threads t ON t.id = l.thread_id WHERE l.run_id = :run_id;

-- run_in_thread(thread_id: int, run_id: int) -> int | None: another run that is active in the thread
SELECT r.id FROM landings l JOIN runs r ON r.id = l.run_id
WHERE l.thread_id = :thread_id AND r.id <> :run_id AND r.state BETWEEN {starting} AND {held} LIMIT 1;

-- insert_message(thread_id: int, run_id: int | None, role: str, text: str, at: int) -> None: add a message
INSERT INTO messages (thread_id, run_id, role, text, at) VALUES (:thread_id, :run_id, :role, :text, :at);

-- messages(thread_id: int, after: int, limit: int) -> list[Message]: the messages of a thread after one
SELECT id, thread_id, run_id, role, text, at FROM messages WHERE thread_id = :thread_id AND id > :after ORDER BY id LIMIT :limit;

-- last_messages(thread_id: int, limit: int) -> list[Message]: the newest messages, oldest first
SELECT id, thread_id, run_id, role, text, at FROM (
  SELECT id, thread_id, run_id, role, text, at FROM messages WHERE thread_id = :thread_id ORDER BY id DESC LIMIT :limit) newest
ORDER BY id;

-- last_run_in(thread_id: int) -> int | None: the newest run in a thread
SELECT run_id FROM landings WHERE thread_id = :thread_id ORDER BY run_id DESC LIMIT 1;

-- session_use(thread_id: int, run_id: int) -> tuple[int, int]: runs and tokens of the thread's conversation before a run
SELECT count(*), coalesce(sum(s.tokens), 0) FROM threads t JOIN landings l ON l.thread_id = t.id AND l.run_id >= t.fresh_run
JOIN runs r ON r.id = l.run_id AND r.started_at IS NOT NULL LEFT JOIN spend s ON s.run_id = r.id
WHERE t.id = :thread_id AND l.run_id <> :run_id;

-- answer_in(thread_id: int, run_id: int) -> str | None: what the agent answered in a run
SELECT text FROM messages WHERE thread_id = :thread_id AND run_id = :run_id AND role = 'assistant' ORDER BY id DESC LIMIT 1;

-- close_conversation(thread_id: int, run_id: int) -> None: note the run with which the conversation of a thread ends
UPDATE threads SET closing_run = :run_id WHERE id = :thread_id;

-- start_afresh(thread_id: int, run_id: int, kept: str | None) -> None: begin another conversation in a thread with this run
UPDATE threads SET session = NULL, usage = NULL, closing_run = NULL, kept = :kept, fresh_run = :run_id,
  fresh_message = (SELECT coalesce(max(id), 0) FROM messages WHERE thread_id = :thread_id) WHERE id = :thread_id;

-- rename_threads(agent: str, name: str) -> list[int]: give the conversations of an agent to its new name
UPDATE threads SET agent = :name WHERE agent = :agent RETURNING id;
