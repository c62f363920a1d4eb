-- ended_texts(after: int, upto: int, types: Iterable[str], limit: int) -> list[tuple[int, int]]: the events of these types in
--   which whole runs ended that have something to say, and their runs
SELECT e.id, e.run_id FROM events e JOIN runs r ON r.id = e.run_id
WHERE e.id > :after AND e.id <= :upto AND e.type IN (SELECT value FROM json_each(:types)) AND r.step = 0
  AND (r.outcome IS NOT NULL OR r.evidence IS NOT NULL OR r.reason IS NOT NULL) ORDER BY e.id LIMIT :limit;

-- delete_run_texts(ids: Iterable[int]) -> None: delete what runs said
DELETE FROM run_texts WHERE run_id IN (SELECT value FROM json_each(:ids));

-- listed_runs_saying: a page of runs of a filter that said something, the newest first, in the order of the index
SELECT {{run_columns}} FROM run_words w CROSS JOIN runs r ON r.id = w.rowid CROSS JOIN schedules s ON s.id = r.schedule_id
WHERE w.run_words MATCH :words AND w.rowid >= :low AND w.rowid < :before AND {{listed_run}} AND {{may_read}}
  AND NOT EXISTS (SELECT 1 FROM json_each(:phrases) p WHERE instr(lower((SELECT text FROM run_texts WHERE run_id = r.id)), p.value) = 0)
ORDER BY w.rowid DESC LIMIT :limit;

-- purge_words: merge the index into one piece, without the words of deleted texts
INSERT INTO run_words (run_words) VALUES ('optimize');
