-- insert_thread: a new conversation
INSERT INTO threads (agent, channel, session, session_name, state, created_at, updated_at)
VALUES (:agent, :channel, :session, :session_name, :state, :now, :now) RETURNING id;

-- thread: one conversation
SELECT id, agent, channel, session, session_name, state, tokens, created_at, updated_at FROM threads WHERE id = :id;

-- lock_thread: nobody else lands there meanwhile
SELECT id FROM threads WHERE id = :id /* lock */;

-- channel_thread: the newest conversation of an agent in a channel that is not closed
SELECT id, agent, channel, session, session_name, state, tokens, created_at, updated_at FROM threads
WHERE agent = :agent AND channel = :channel AND state <> 'closed' ORDER BY id DESC LIMIT 1;

-- channel_session: the last session that an agent had in a channel
SELECT session, session_name FROM threads
WHERE agent = :agent AND channel = :channel AND session IS NOT NULL ORDER BY id DESC LIMIT 1;

-- session_thread: the newest conversation of a session
SELECT id, agent, channel, session, session_name, state, tokens, created_at, updated_at FROM threads
WHERE agent = :agent AND (session = :session OR session_name = :session) ORDER BY id DESC LIMIT 1;

-- threads: a page of conversations, the newest first
SELECT id, agent, channel, session, session_name, state, tokens, created_at, updated_at FROM threads
WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- set_thread: how a conversation stands
UPDATE threads SET state = :state, session = coalesce(:session, session), tokens = coalesce(:tokens, tokens),
  updated_at = :now WHERE id = :id;

-- assign_thread: where a run lands
INSERT INTO landings (run_id, thread_id, how) VALUES (:run_id, :thread_id, :how)
ON CONFLICT (run_id) DO UPDATE SET thread_id = excluded.thread_id, how = excluded.how;

-- unassign_thread: where a run lands is open again
DELETE FROM landings WHERE run_id = :run_id;

-- clear_session: what was said before is not known to the tool any more
UPDATE threads SET session = NULL, session_name = NULL, tokens = NULL, state = :state WHERE id = :id;

-- thread_assignment: where a run landed
SELECT l.run_id, l.how, t.id, t.agent, t.channel, t.session, t.session_name, t.state, t.tokens, t.created_at, t.updated_at
FROM landings l JOIN threads t ON t.id = l.thread_id WHERE l.run_id = :run_id;

-- run_in_thread: the run that is under way in a conversation, besides one
SELECT r.id FROM landings l JOIN runs r ON r.id = l.run_id
WHERE l.thread_id = :id AND r.id <> :run_id AND r.state BETWEEN {starting} AND {held} LIMIT 1;

-- adopt: a started run has another owner, under the epoch it has
UPDATE runs SET owner = :owner WHERE id = :run_id AND epoch = :epoch AND state BETWEEN {starting} AND {running} RETURNING id;

-- insert_message: what was said
INSERT INTO messages (thread_id, run_id, role, text, at) VALUES (:thread_id, :run_id, :role, :text, :at);

-- messages: what was said in a conversation, from a message on
SELECT id, thread_id, run_id, role, text, at FROM messages WHERE thread_id = :id AND id > :after ORDER BY id LIMIT :limit;

-- last_messages: what was said last in a conversation, the newest first
SELECT id, thread_id, run_id, role, text, at FROM messages WHERE thread_id = :id ORDER BY id DESC LIMIT :limit;
