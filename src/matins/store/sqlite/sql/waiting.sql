-- resume_runs(schedule_id: int, now: int) -> None: queue the held runs of a resumed schedule again
UPDATE runs SET state = CASE WHEN exclusive THEN {queued} ELSE {ready} END, reason = NULL, not_before = max(not_before, :now)
WHERE schedule_id = :schedule_id AND state {live} AND state = {waiting} AND reason = 'paused';
