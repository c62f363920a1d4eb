-- take_permits(scope: str, run_ids: Iterable[int]) -> list[int]: give these runs free units of a scope, the first ones first;
--   returns those that got one
UPDATE permits SET run_id = u.run_id
FROM (SELECT n, row_number() OVER (ORDER BY n) AS nth FROM permits WHERE scope = :scope AND run_id IS NULL) f
JOIN (SELECT value AS run_id, key + 1 AS nth FROM json_each(:run_ids)) u USING (nth)
WHERE permits.scope = :scope AND permits.n = f.n RETURNING run_id;

-- delete_surplus_permits: delete the units of these runs beyond a lowered limit
DELETE FROM permits WHERE n < 0 AND run_id IN (SELECT value FROM json_each(:ids));

-- release_permits: release the units of these runs
UPDATE permits SET run_id = NULL WHERE run_id IN (SELECT value FROM json_each(:ids));

-- grow_limit: add a unit if it is missing
INSERT INTO permits (scope, n) VALUES (?1, ?2) ON CONFLICT DO NOTHING;
