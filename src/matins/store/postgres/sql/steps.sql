-- steps_of_runs: all steps of these runs
SELECT id FROM runs WHERE parent = ANY(%(ids)b);

-- live_steps(run_ids: Iterable[int]) -> list[int]: the live steps of these runs
SELECT id FROM runs WHERE parent = ANY(%(run_ids)b) AND state {live};

-- parents_of(run_ids: Iterable[int]) -> list[int]: the runs that these are steps of
SELECT DISTINCT parent FROM runs WHERE id = ANY(%(run_ids)b) AND parent IS NOT NULL ORDER BY parent;
