-- votes: the votes on requests
SELECT approval_id, voter, vote, at, note, digest FROM votes WHERE approval_id = ANY(%(ids)b) ORDER BY at, voter;

-- delete_approvals: delete their requests for approval that are not pending; the last that was approved of each schedule is
--   kept
DELETE FROM approvals WHERE run_id = ANY(%(ids)b) AND state <> 'pending'
  AND NOT (state = 'used' AND id = (SELECT max(g.id) FROM approvals g
    WHERE g.schedule_id = approvals.schedule_id AND g.state = 'used' AND g.kind IN ('schedule', 'run')));
