-- last_written: the latest instant of the newest events, which other processes may have written
SELECT max(at) FROM (SELECT at FROM events ORDER BY id DESC LIMIT 1000) newest;

-- all_events: events by chain, for verification
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events ORDER BY writer, seq;

-- all_writers: writers, for verification
SELECT id, pruned_seq, pruned_hash FROM writers ORDER BY id;

-- all_seals: seals, for verification
SELECT id, at, heads, hash FROM seals ORDER BY id;
