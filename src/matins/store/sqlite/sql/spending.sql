-- delete_spend: delete their spending
DELETE FROM spend WHERE run_id IN (SELECT value FROM json_each(:ids));

-- delete_run_usage: delete what their steps spent together
DELETE FROM purses WHERE period = 'run' AND whose IN (SELECT 'run:' || value FROM json_each(:ids));
