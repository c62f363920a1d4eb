-- Answers of runs for destinations.

-- answer_columns: the fields of an answer
run_id, number, destination, schedule_id, state, reason, digest, created_at, next_at, title, text, files, attempts, parts,
  parts_sent, sending, again, lost, copy, digest_at, receipt, error, sent_at

-- insert_answer(answer: AnswerRow) -> bool: add an answer; False when the run has it already
INSERT INTO answers ({{answer_columns}})
VALUES (:run_id, :number, :destination, :schedule_id, :state, :reason, :digest, :created_at, :next_at, :title, :text, :files,
  :attempts, :parts, :parts_sent, :sending, :again, :lost, :copy, :digest_at, :receipt, :error, :sent_at)
ON CONFLICT DO NOTHING RETURNING run_id;

-- answers_of(run_id: int) -> list[AnswerRow]: the answers of a run
SELECT {{answer_columns}} FROM answers WHERE run_id = :run_id ORDER BY number, destination;

-- last_answer(schedule_id: int, destination: str, run_id: int) -> tuple[int, str] | None: the run and the digest of the last
--   answer of another run that went to a destination
SELECT run_id, digest FROM answers WHERE schedule_id = :schedule_id AND destination = :destination AND number = 0
  AND run_id <> :run_id AND state NOT IN ('withheld', 'discarded') ORDER BY run_id DESC LIMIT 1;

-- due_answers(destination: str, now: int, limit: int) -> list[AnswerRow]: the next answer of each schedule that may be sent
--   now, the longest waiting first
SELECT {{answer_columns}} FROM answers a
WHERE destination = :destination AND next_at <= :now AND digest_at IS NULL AND NOT EXISTS (
  SELECT 1 FROM answers b WHERE b.schedule_id = a.schedule_id AND b.destination = a.destination AND b.next_at IS NOT NULL
    AND b.digest_at IS NULL AND (b.run_id < a.run_id OR (b.run_id = a.run_id AND b.number < a.number)))
ORDER BY next_at, run_id, number LIMIT :limit;

-- digest_answers(destination: str, now: int, limit: int) -> list[AnswerRow]: the answers of a digest that is due
SELECT {{answer_columns}} FROM answers WHERE destination = :destination AND next_at <= :now AND digest_at = (
  SELECT min(digest_at) FROM answers WHERE destination = :destination AND next_at IS NOT NULL)
ORDER BY run_id, number LIMIT :limit;

-- next_digest_of(destination: str) -> int | None: when the digest of a destination is due
SELECT min(digest_at) FROM answers WHERE destination = :destination AND next_at IS NOT NULL;

-- next_answer(destination: str, now: int) -> int | None: when an answer is due for a destination
SELECT min(next_at) FROM answers WHERE destination = :destination AND next_at > :now;

-- answers_sent_since(destination: str, since: int) -> int: the number of answers that a destination got since an instant
SELECT count(*) FROM answers WHERE destination = :destination AND sent_at > :since;

-- advance_answers(destination: str, now: int, latest: int) -> None: send now what is deferred beyond the longest delay, after
--   the clock was set back; what waits for the end of quiet hours is deferred again
UPDATE answers SET next_at = :now, digest_at = NULL WHERE destination = :destination AND next_at > :latest;

-- waiting_destinations() -> list[str]: the destinations for which answers wait
SELECT DISTINCT destination FROM answers WHERE next_at IS NOT NULL;

-- set_answer(answer: AnswerRow) -> bool: what became of an answer that waits; False when it no longer does
UPDATE answers SET state = :state, reason = :reason, next_at = :next_at, attempts = :attempts, parts = :parts,
  parts_sent = :parts_sent, sending = :sending, again = :again, lost = :lost, digest_at = :digest_at, receipt = :receipt,
  error = :error, sent_at = :sent_at
WHERE run_id = :run_id AND number = :number AND destination = :destination AND copy = :copy AND next_at IS NOT NULL
RETURNING run_id;

-- renew_answer(answer: AnswerRow) -> None: send an answer again
UPDATE answers SET state = 'queued', reason = NULL, next_at = :next_at, attempts = 0, parts = NULL, parts_sent = 0,
  sending = NULL, again = 0, lost = 0, copy = copy + 1, digest_at = NULL, receipt = NULL, error = NULL, sent_at = NULL
WHERE run_id = :run_id AND number = :number AND destination = :destination;

-- discard_answers(destination: str, reason: str) -> list[int]: discard what waits for a destination, and return the runs
UPDATE answers SET state = 'discarded', reason = :reason, next_at = NULL
WHERE destination = :destination AND next_at IS NOT NULL RETURNING run_id;

-- thread_place(thread_id: int) -> str | None: where a thread is in chat
SELECT place FROM chat_threads WHERE thread_id = :thread_id;
