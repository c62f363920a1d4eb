-- delete_spend: delete their spending
DELETE FROM spend WHERE run_id = ANY(%(ids)b);

-- delete_run_usage: delete what their steps spent together
DELETE FROM purses WHERE period = 'run' AND whose = ANY(SELECT 'run:' || id FROM unnest(%(ids)b) AS u(id));
