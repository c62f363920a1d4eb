-- copy_attempts: add attempts, durable before the start
COPY attempts (run_id, epoch, owner, started_at) FROM STDIN (FORMAT binary);

-- delete_attempts: delete their attempts
DELETE FROM attempts WHERE run_id = ANY(%(ids)b);

-- delete_turned_away: delete the notes about nodes that turned them away
DELETE FROM turned_away WHERE run_id = ANY(%(ids)b);

-- delete_watched: delete when to look at them
DELETE FROM watched_runs WHERE run_id = ANY(%(ids)b);

-- delete_checks: delete their checks
DELETE FROM checks WHERE run_id = ANY(%(ids)b);

-- delete_outputs: delete the output of runs
DELETE FROM outputs WHERE run_id = ANY(%(ids)b);
