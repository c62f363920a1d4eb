-- take_permit(scope: str, run_id: int) -> bool: take one free unit of a scope
UPDATE permits SET run_id = :run_id WHERE scope = :scope AND n = (SELECT min(n) FROM permits WHERE scope = :scope AND run_id IS NULL)
RETURNING n;

-- delete_surplus_permits: delete the units of these runs beyond a lowered limit
DELETE FROM permits WHERE n < 0 AND run_id IN (SELECT value FROM json_each(:ids));

-- release_permits: release the units of these runs
UPDATE permits SET run_id = NULL WHERE run_id IN (SELECT value FROM json_each(:ids));

-- grow_limit: add a unit if it is missing
INSERT INTO permits (scope, n) VALUES (?1, ?2) ON CONFLICT DO NOTHING;
