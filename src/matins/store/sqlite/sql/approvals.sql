-- votes: the votes on requests
SELECT v.approval_id, v.voter, v.vote, v.at, v.note, v.digest FROM json_each(:ids) j JOIN votes v ON v.approval_id = j.value
ORDER BY v.at, v.voter;

-- delete_approvals: delete their requests for approval that are not pending; the newest is kept, so ids stay unique, and so
--   is the last that was approved of each schedule
DELETE FROM approvals WHERE run_id IN (SELECT value FROM json_each(:ids)) AND state <> 'pending'
  AND id < (SELECT max(id) FROM approvals)
  AND NOT (state = 'used' AND id = (SELECT max(g.id) FROM approvals g
    WHERE g.schedule_id = approvals.schedule_id AND g.state = 'used' AND g.kind IN ('schedule', 'run')));
