-- take_permit(scope: str, run_id: int) -> bool: take one free unit of a scope
UPDATE permits SET run_id = %(run_id)b WHERE scope = %(scope)b AND n = (
  SELECT n FROM permits WHERE scope = %(scope)b AND run_id IS NULL AND n > 0 ORDER BY n LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING n;

-- delete_surplus_permits: delete the units of these runs beyond a lowered limit
DELETE FROM permits WHERE n < 0 AND run_id = ANY(%(ids)b);

-- release_permits: release the units of these runs
UPDATE permits SET run_id = NULL WHERE run_id = ANY(%(ids)b);

-- grow_limit: add the missing units
INSERT INTO permits (scope, n) SELECT %(scope)b, n FROM generate_series(1, %(size)b) n ON CONFLICT DO NOTHING;

-- lock_limit: lock the units of a scope while their number changes
SELECT 1 FROM permits WHERE scope = %(scope)b ORDER BY n FOR UPDATE;
