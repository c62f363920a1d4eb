-- insert_attempt: add an attempt, durable before the start
INSERT INTO attempts (run_id, epoch, owner, started_at) VALUES (?, ?, ?, ?);

-- delete_attempts: delete their attempts
DELETE FROM attempts WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_turned_away: delete the notes about nodes that turned them away
DELETE FROM turned_away WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_watched: delete when to look at them
DELETE FROM watched_runs WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_checks: delete their checks
DELETE FROM checks WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_outputs: delete the output of runs
DELETE FROM outputs WHERE run_id IN (SELECT value FROM json_each(:ids));
