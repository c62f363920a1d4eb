-- What runs said, for searches.

-- upsert_run_text(run_id: int, text: str) -> None: set what a run said, unless it was deleted meanwhile
INSERT INTO run_texts (run_id, text) SELECT r.id, :text FROM runs r WHERE r.id = :run_id
ON CONFLICT (run_id) DO UPDATE SET text = excluded.text;

-- run_text(run_id: int) -> str | None: what a run said
SELECT text FROM run_texts WHERE run_id = :run_id;
