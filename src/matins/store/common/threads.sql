-- insert_thread: add a thread
INSERT INTO threads (agent, channel, session, session_name, state, created_at, updated_at)
VALUES (:agent, :channel, :session, :session_name, :state, :now, :now) RETURNING id;

-- thread: one thread
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at FROM threads WHERE id = :id;

-- lock_thread: lock a thread
SELECT id FROM threads WHERE id = :id /* lock */;

-- channel_thread: the agent's newest thread in a channel that is not closed
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at FROM threads
WHERE agent = :agent AND channel = :channel AND state <> 'closed' ORDER BY id DESC LIMIT 1;

-- channel_session: the agent's last session in a channel
SELECT session, session_name FROM threads
WHERE agent = :agent AND channel = :channel AND session IS NOT NULL ORDER BY id DESC LIMIT 1;

-- session_thread: the newest thread of a session
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at FROM threads
WHERE agent = :agent AND (session = :session OR session_name = :session) ORDER BY id DESC LIMIT 1;

-- threads: a page of threads, the newest first
SELECT id, agent, channel, session, session_name, state, usage, created_at, updated_at FROM threads
WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- set_thread: set the state, session and usage of a thread
UPDATE threads SET state = :state, session = coalesce(:session, session), usage = coalesce(:usage, usage),
  updated_at = :now WHERE id = :id;

-- assign_thread: set the thread of a run
INSERT INTO landings (run_id, thread_id, how) VALUES (:run_id, :thread_id, :how)
ON CONFLICT (run_id) DO UPDATE SET thread_id = excluded.thread_id, how = excluded.how;

-- unassign_thread: delete the thread assignment of a run
DELETE FROM landings WHERE run_id = :run_id;

-- clear_session: clear a session that the tool no longer knows
UPDATE threads SET session = NULL, session_name = NULL, usage = NULL, state = :state WHERE id = :id;

-- thread_assignment: the thread of a run, and how it was chosen
SELECT l.run_id, l.how, t.id, t.agent, t.channel, t.session, t.session_name, t.state, t.usage, t.created_at, t.updated_at
FROM landings l JOIN threads t ON t.id = l.thread_id WHERE l.run_id = :run_id;

-- run_in_thread: another run that is active in the thread
SELECT r.id FROM landings l JOIN runs r ON r.id = l.run_id
WHERE l.thread_id = :id AND r.id <> :run_id AND r.state BETWEEN {starting} AND {held} LIMIT 1;

-- adopt: give a started run another owner, at the same epoch
UPDATE runs SET owner = :owner WHERE id = :run_id AND epoch = :epoch AND state BETWEEN {starting} AND {running} RETURNING id;

-- insert_message: add a message
INSERT INTO messages (thread_id, run_id, role, text, at) VALUES (:thread_id, :run_id, :role, :text, :at);

-- messages: the messages of a thread after one
SELECT id, thread_id, run_id, role, text, at FROM messages WHERE thread_id = :id AND id > :after ORDER BY id LIMIT :limit;

-- last_messages: the last messages of a thread, the newest first
SELECT id, thread_id, run_id, role, text, at FROM messages WHERE thread_id = :id ORDER BY id DESC LIMIT :limit;
