-- ended_texts(after: int, upto: int, types: Iterable[str], limit: int) -> list[tuple[int, int]]: the events of these types in
--   which whole runs ended that have something to say, and their runs
SELECT e.id, e.run_id FROM events e JOIN runs r ON r.id = e.run_id
WHERE e.id > %(after)b AND e.id <= %(upto)b AND e.type = ANY(%(types)b) AND r.step = 0
  AND (r.outcome IS NOT NULL OR r.evidence IS NOT NULL OR r.reason IS NOT NULL) ORDER BY e.id LIMIT %(limit)b;

-- delete_run_texts(ids: Iterable[int]) -> None: delete what runs said
DELETE FROM run_texts WHERE run_id = ANY(%(ids)b);

-- listed_runs_saying: a page of runs of a filter that said something, the newest first; in the order of the key, a word that
--   no run has would be looked for in all of them
SELECT {{run_columns}} FROM run_texts w JOIN runs r ON r.id = w.run_id JOIN schedules s ON s.id = r.schedule_id
WHERE w.words @@ to_tsquery('simple', :words) AND {{listed_run}} AND {{may_read}}
  AND NOT EXISTS (SELECT FROM unnest(CAST(:phrases AS text[])) p WHERE strpos(lower(w.text), p) = 0)
ORDER BY w.run_id + 0 DESC LIMIT :limit;
