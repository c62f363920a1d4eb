-- Values of the store itself.

-- meta: a value of the store
SELECT value FROM meta WHERE key = :key;

-- set_meta: set a value of the store
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- set_recorded: set the last slot that has a record and is still to come, if it differs
INSERT INTO meta (key, value) VALUES ('recorded_until', :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE meta.value <> excluded.value RETURNING key;

-- delete_meta: delete a value of the store
DELETE FROM meta WHERE key = :key;

-- renew_incarnation: give the store another incarnation, unless another process has done so
UPDATE meta SET value = :new WHERE key = 'incarnation' AND value = :old RETURNING value;
