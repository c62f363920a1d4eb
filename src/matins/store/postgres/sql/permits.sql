-- take_permits(scope: str, run_ids: Iterable[int]) -> list[int]: give these runs free units of a scope, the first ones first;
--   returns those that got one
WITH free AS MATERIALIZED (
  SELECT n FROM permits WHERE scope = %(scope)b AND run_id IS NULL AND n > 0 ORDER BY n LIMIT cardinality(%(run_ids)b)
  FOR UPDATE SKIP LOCKED),
pairs AS (SELECT f.n, u.run_id FROM (SELECT n, row_number() OVER (ORDER BY n) AS nth FROM free) f
  JOIN unnest(%(run_ids)b) WITH ORDINALITY u (run_id, nth) USING (nth))
UPDATE permits p SET run_id = u.run_id FROM pairs u WHERE p.scope = %(scope)b AND p.n = u.n RETURNING p.run_id;

-- delete_surplus_permits: delete the units of these runs beyond a lowered limit
DELETE FROM permits WHERE n < 0 AND run_id = ANY(%(ids)b);

-- release_permits: release the units of these runs
UPDATE permits SET run_id = NULL WHERE run_id = ANY(%(ids)b);

-- grow_limit: add the missing units
INSERT INTO permits (scope, n) SELECT %(scope)b, n FROM generate_series(1, %(size)b) n ON CONFLICT DO NOTHING;

-- lock_limit: lock the units of a scope while their number changes
SELECT 1 FROM permits WHERE scope = %(scope)b ORDER BY n FOR UPDATE;
