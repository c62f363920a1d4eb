-- What runs said, for searches.

-- upsert_run_text(run_id: int, text: str) -> None: set what a run said, unless it was deleted meanwhile
INSERT INTO run_texts (run_id, text) SELECT r.id, :text FROM runs r WHERE r.id = :run_id
ON CONFLICT (run_id) DO UPDATE SET text = excluded.text;

-- run_text(run_id: int) -> str | None: what a run said
SELECT text FROM run_texts WHERE run_id = :run_id;

-- erase_run(run_id: int, evidence: str | None, given: str | None) -> None: delete the words of an ended run
UPDATE runs SET outcome = NULL, evidence = :evidence, given = :given WHERE id = :run_id AND state {ended};

-- erase_reports(run_id: int) -> None: delete what an agent reported
UPDATE attempts SET reported = NULL WHERE run_id = :run_id;

-- erase_checks(run_id: int) -> None: delete what checks of a run printed
UPDATE checks SET output = '', reason = NULL WHERE run_id = :run_id;

-- erase_answers(run_id: int) -> None: delete the texts of a run's messages. What still waits is not sent
UPDATE answers SET title = NULL, text = NULL, files = NULL, error = NULL, next_at = NULL, digest_at = NULL,
  state = CASE WHEN state IN ('queued', 'retrying') THEN 'discarded' ELSE state END,
  reason = CASE WHEN state IN ('queued', 'retrying') THEN 'erased' ELSE reason END
WHERE run_id = :run_id;

-- erase_messages(run_id: int) -> None: delete the messages of a run from its conversation
DELETE FROM messages WHERE run_id = :run_id;

-- erase_calls(run_id: int) -> None: delete the contents of the calls that a run stands for
UPDATE calls SET text = NULL, body = NULL WHERE id IN (SELECT call_id FROM call_runs WHERE run_id = :run_id);

-- erase_incidents(run_id: int, signature: str) -> None: delete what incidents say of a run
UPDATE incidents SET quote = NULL, error = NULL, signature = :signature WHERE run_id = :run_id;

-- erase_request(approval_id: int, request: str) -> None: delete the words of a request
UPDATE approvals SET request = :request WHERE id = :approval_id;

-- erase_votes(approval_id: int) -> None: delete the notes of votes
UPDATE votes SET note = NULL WHERE approval_id = :approval_id;

-- erase_responses(like: str) -> None: delete responses to idempotent requests with a run
DELETE FROM requests WHERE answer LIKE :like;

-- requests_of_run(run_id: int) -> list[tuple[int, str]]: the requests for approval of a run, with what they show
SELECT id, request FROM approvals WHERE run_id = :run_id ORDER BY id;

-- events_of_run(run_id: int) -> list[StoredEvent]: the events of a run
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE run_id = :run_id ORDER BY id;

-- erase_event(event_id: int, data: str) -> None: replace the data of an event, whose hash stays
UPDATE events SET data = :data WHERE id = :event_id;
