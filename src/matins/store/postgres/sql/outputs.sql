-- insert_output: a piece of the output of a run, unless it is there already
INSERT INTO outputs (run_id, epoch, stream, at, size, total, data)
VALUES (%(run_id)b, %(epoch)b, %(stream)b, %(at)b, %(size)b, %(total)b, %(data)b) ON CONFLICT DO NOTHING;

-- trim_output: delete the pieces between the beginning and the end that are kept
DELETE FROM outputs WHERE run_id = %(run_id)b AND epoch = %(epoch)b AND stream = %(stream)b AND at >= %(head)b AND at + size <= %(tail)b;

-- kept_output: up to where each stream of an attempt is kept
SELECT stream, max(at + size) FROM outputs WHERE run_id = %(run_id)b AND epoch = %(epoch)b GROUP BY stream;

-- output_total: the bytes of a stream that are known
SELECT max(total) FROM outputs WHERE run_id = %(run_id)b AND epoch = %(epoch)b AND stream = %(stream)b;

-- output_pieces: the pieces of a stream from an offset on
SELECT at, data FROM outputs
WHERE run_id = %(run_id)b AND epoch = %(epoch)b AND stream = %(stream)b AND at + size > %(offset)b ORDER BY at LIMIT %(limit)b;

-- follow_output: somebody reads the output of a run until then
INSERT INTO output_followers (run_id, until) VALUES (%(run_id)b, %(until)b)
ON CONFLICT (run_id) DO UPDATE SET until = excluded.until WHERE output_followers.until < excluded.until;

-- followed_runs: those of these runs whose output somebody reads
SELECT run_id FROM output_followers WHERE run_id = ANY(%(ids)b) AND until > %(now)b;

-- delete_followers: nobody follows these runs any more
DELETE FROM output_followers WHERE run_id = ANY(%(ids)b);

-- delete_outputs: delete the output of runs
DELETE FROM outputs WHERE run_id = ANY(%(ids)b);
