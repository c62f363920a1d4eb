-- steps_of_runs: all steps of these runs
SELECT r.id FROM json_each(:ids) j JOIN runs r ON r.parent = j.value;

-- live_steps(run_ids: Iterable[int]) -> list[int]: the live steps of these runs
SELECT r.id FROM json_each(:run_ids) j JOIN runs r ON r.parent = j.value WHERE r.state {live};

-- parents_of(run_ids: Iterable[int]) -> list[int]: the runs that these are steps of
SELECT DISTINCT r.parent FROM json_each(:run_ids) j JOIN runs r ON r.id = j.value WHERE r.parent IS NOT NULL ORDER BY r.parent;
