-- resume_runs(schedule_id: int, now: int) -> None: queue the held runs of a resumed schedule again
UPDATE runs SET state = CASE WHEN exclusive = 1 THEN {queued} ELSE {ready} END, reason = NULL, not_before = greatest(not_before, %(now)b)
WHERE schedule_id = %(schedule_id)b AND state {live} AND state = {waiting} AND reason = 'paused';
