-- Calls, the runs that they started, and the schedules that listen to them.

-- insert_call: add a call; nothing when its key is known
INSERT INTO calls (source, name, key, type, sender, hops, at, outcome, text, body)
VALUES (:source, :name, :key, :type, :sender, :hops, :at, 'ignored', :text, :body) ON CONFLICT DO NOTHING RETURNING id;

-- claim_signed: note with which key signed content arrived; nothing when it arrived since an instant
INSERT INTO signed_calls (source, name, digest, key, at) VALUES (:source, :name, :digest, :key, :at)
ON CONFLICT (source, name, digest) DO UPDATE SET key = excluded.key, at = excluded.at WHERE signed_calls.at <= :since
RETURNING key;

-- signed_key: the key with which signed content arrived
SELECT key FROM signed_calls WHERE source = :source AND name = :name AND digest = :digest;

-- set_call_outcome(call_id: int, outcome: CallOutcome, reason: str | None) -> None: set the outcome of a call
UPDATE calls SET outcome = :outcome, reason = :reason WHERE id = :call_id;

-- call(call_id: int) -> CallRow | None: one call
SELECT id, source, name, key, type, sender, hops, at, outcome, reason, text, body FROM calls WHERE id = :call_id;

-- call_by_key(source: str, name: str, key: str) -> CallRow | None: the call with this key
SELECT id, source, name, key, type, sender, hops, at, outcome, reason, text, body FROM calls
WHERE source = :source AND name = :name AND key = :key;

-- calls(before: int, limit: int, source: str, name: str) -> list[CallRow]: a page of calls, the newest first. An empty
--   source or name stands for all
SELECT id, source, name, key, type, sender, hops, at, outcome, reason, text, body FROM calls
WHERE id < :before AND (:source = '' OR source = :source) AND (:name = '' OR name = :name) ORDER BY id DESC LIMIT :limit;

-- calls_of_run(run_id: int, limit: int) -> list[CallRow]: the calls that a run, or the run whose step it is, stands for, the
--   newest first
SELECT c.id, c.source, c.name, c.key, c.type, c.sender, c.hops, c.at, c.outcome, c.reason, c.text, c.body
FROM call_runs l JOIN calls c ON c.id = l.call_id
WHERE l.run_id = coalesce((SELECT parent FROM runs WHERE id = :run_id), :run_id) ORDER BY c.id DESC LIMIT :limit;

-- is_called(run_id: int) -> bool: whether a call started the run
SELECT 1 FROM call_runs WHERE run_id = :run_id LIMIT 1;

-- link_call(call_id: int, run_id: int, grouped: str | None) -> None: let a run stand for a call
INSERT INTO call_runs (call_id, run_id, grouped) VALUES (:call_id, :run_id, :grouped) ON CONFLICT DO NOTHING;

-- debouncing_run(schedule_id: int, grouped: str) -> int | None: the run of the schedule that waits for further calls of this
--   group
SELECT r.id FROM runs r JOIN call_runs l ON l.run_id = r.id
WHERE r.schedule_id = :schedule_id AND r.state {live} AND r.state = {waiting} AND r.reason = 'debouncing' AND l.grouped = :grouped
ORDER BY r.id LIMIT 1;

-- debounce_run(run_id: int, until: int, most: int) -> bool: add a call to a run that waits. It waits again until it stands
--   for `most` calls. False when it waits no longer
UPDATE runs SET slots = slots + 1, not_before = CASE WHEN slots < :most THEN :until ELSE not_before END
WHERE id = :run_id AND state = {waiting} AND reason = 'debouncing' RETURNING id;

-- delete_listeners: delete what a schedule listens to
DELETE FROM listeners WHERE schedule_id = :id;

-- insert_listener: add what a schedule listens to
INSERT INTO listeners (source, name, agent, schedule_id) VALUES (:source, :name, :agent, :schedule_id) ON CONFLICT DO NOTHING;

-- listeners(source: str, name: str, agent: str) -> list[int]: the schedules that listen to a source, by id: the order in
--   which cursors are locked
SELECT l.schedule_id FROM listeners l JOIN schedules s ON s.id = l.schedule_id
WHERE l.source = :source AND l.name = :name AND l.agent = :agent AND s.state <> 'removed' ORDER BY l.schedule_id;

-- pipelines() -> list[tuple[int, int]]: (schedule, schedule that follows it)
SELECT s.id, l.schedule_id FROM listeners l JOIN schedules s ON s.name = l.name AND s.agent = l.agent
JOIN schedules f ON f.id = l.schedule_id
WHERE l.source = 'schedule' AND s.state <> 'removed' AND f.state <> 'removed';

-- prune_call_bodies: delete the bodies of old calls whose runs have ended
UPDATE calls SET body = NULL, text = NULL WHERE at < :before AND body IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM call_runs l JOIN runs r ON r.id = l.run_id WHERE l.call_id = calls.id AND r.state {live});

-- prune_calls: delete old calls whose runs have ended
DELETE FROM calls WHERE at < :before AND NOT EXISTS (
  SELECT 1 FROM call_runs l JOIN runs r ON r.id = l.run_id WHERE l.call_id = calls.id AND r.state {live});

-- prune_call_runs: delete links to deleted calls and runs
DELETE FROM call_runs WHERE NOT EXISTS (SELECT 1 FROM calls c WHERE c.id = call_runs.call_id)
  OR NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = call_runs.run_id);

-- prune_signed: delete digests of signed content that arrived before an instant
DELETE FROM signed_calls WHERE at <= :before;
