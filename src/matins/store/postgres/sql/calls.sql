-- runs_of_calls(call_ids: Iterable[int]) -> list[CalledRun]: the runs of calls
SELECT l.call_id, r.id, s.name AS schedule, r.state, r.reason FROM call_runs l JOIN runs r ON r.id = l.run_id
JOIN schedules s ON s.id = r.schedule_id WHERE l.call_id = ANY(%(call_ids)b) ORDER BY r.id;
