-- Output of runs whose files other machines have.

-- insert_output(run_id: int, epoch: int, stream: str, at: int, size: int, total: int, data: bytes, url: str | None) -> None: add a
--   piece, unless it is there already
INSERT INTO outputs (run_id, epoch, stream, at, size, total, data, url)
VALUES (:run_id, :epoch, :stream, :at, :size, :total, :data, :url) ON CONFLICT DO NOTHING;

-- trim_output(run_id: int, epoch: int, stream: str, head: int, tail: int) -> None: delete the pieces between the beginning and the
--   end that are kept
DELETE FROM outputs WHERE run_id = :run_id AND epoch = :epoch AND stream = :stream AND at >= :head AND at + size <= :tail;

-- kept_output(run_id: int, epoch: int) -> list[tuple[str, int]]: up to where each stream of an attempt is kept
SELECT stream, max(at + size) FROM outputs WHERE run_id = :run_id AND epoch = :epoch GROUP BY stream;

-- output_total(run_id: int, epoch: int, stream: str) -> int: the bytes of a stream that are known
SELECT coalesce(max(total), 0) FROM outputs WHERE run_id = :run_id AND epoch = :epoch AND stream = :stream;

-- output_pieces(run_id: int, epoch: int, stream: str, offset: int, limit: int) -> list[tuple[int, int, bytes, str | None]]: the
--   pieces of a stream from an offset on: where they begin, their size, and what is in them, or where it is
SELECT at, size, data, url FROM outputs
WHERE run_id = :run_id AND epoch = :epoch AND stream = :stream AND at + size > :offset ORDER BY at LIMIT :limit;

-- follow_output(run_id: int, until: int) -> None: note that somebody reads the output of a run until then
INSERT INTO output_followers (run_id, until) VALUES (:run_id, :until)
ON CONFLICT (run_id) DO UPDATE SET until = excluded.until WHERE output_followers.until < excluded.until;

-- followed_runs(now: int) -> list[int]: the runs whose output somebody reads
SELECT run_id FROM output_followers WHERE until > :now;

-- delete_followers(now: int) -> None: delete the notes that are over
DELETE FROM output_followers WHERE until <= :now;
