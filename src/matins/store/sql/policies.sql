-- Policies and throttles.

-- policy_rev: the revision of the policies, which engines compare
SELECT rev FROM policy_rev;

-- lock_policies() -> None: lock policies, throttles and budget usage, before any of them is changed
SELECT rev FROM policy_rev /* lock */;

-- increment_policy_rev: raise the revision of the policies
UPDATE policy_rev SET rev = rev + 1;

-- policies() -> list[PolicyRow]: all policies
SELECT kind, name, definition FROM policies ORDER BY kind, name;

-- upsert_policy: add or change a policy
INSERT INTO policies (kind, name, definition, updated_at, updated_by) VALUES (:kind, :name, :definition, :now, :by)
ON CONFLICT (kind, name) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at,
  updated_by = excluded.updated_by;

-- delete_policy: delete a policy
DELETE FROM policies WHERE kind = :kind AND name = :name RETURNING name;

-- throttles: all throttles
SELECT provider, resets_at, activated_at, affects, reason, set_by AS "by", login FROM throttles ORDER BY provider;

-- upsert_throttle: add a provider's rate limit; of two that overlap, the later end applies
INSERT INTO throttles (provider, resets_at, activated_at, affects, reason, set_by, login)
VALUES (:provider, :resets_at, :activated_at, :affects, :reason, :by, :login)
ON CONFLICT (provider) DO UPDATE SET resets_at = excluded.resets_at, activated_at = excluded.activated_at,
  affects = excluded.affects, reason = excluded.reason, set_by = excluded.set_by,
  login = excluded.login
WHERE excluded.resets_at >= throttles.resets_at;

-- delete_throttle: delete a throttle
DELETE FROM throttles WHERE provider = :provider RETURNING provider;

-- delete_ended_throttles: delete throttles that have ended
DELETE FROM throttles WHERE resets_at <= :now RETURNING provider;

-- last_one_shot(agent: str) -> int | None: when the rules approved the last one-shot that the agent made outside a run
SELECT approved_at FROM one_shots WHERE agent = :agent;

-- set_last_one_shot(agent: str, now: int) -> None: note that the rules approved such a one-shot
INSERT INTO one_shots (agent, approved_at) VALUES (:agent, :now)
ON CONFLICT (agent) DO UPDATE SET approved_at = excluded.approved_at;

-- rename_one_shots(agent: str, name: str) -> None: what an agent was allowed counts for its new name
UPDATE one_shots SET agent = :name WHERE agent = :agent AND NOT EXISTS (SELECT 1 FROM one_shots o WHERE o.agent = :name);
