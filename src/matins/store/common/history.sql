-- last_written: the latest instant of the newest events; users may have written some since an engine last looked
SELECT max(at) FROM (SELECT at FROM events ORDER BY id DESC LIMIT 1000) newest;

-- all_events: for verification, chain by chain
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events ORDER BY writer, seq;

-- all_writers: for verification
SELECT id, pruned_seq, pruned_hash FROM writers ORDER BY id;

-- all_seals: for verification
SELECT id, at, heads, hash FROM seals ORDER BY id;
