-- runs_of_calls(call_ids: Iterable[int]) -> list[CalledRun]: the runs of calls
SELECT l.call_id, r.id, s.name AS schedule, r.state, r.reason FROM json_each(:call_ids) j JOIN call_runs l ON l.call_id = j.value
JOIN runs r ON r.id = l.run_id JOIN schedules s ON s.id = r.schedule_id ORDER BY r.id;
