-- A SQLite file as the source or the target of a move.

-- numbers: what continues in the target
SELECT (SELECT value FROM meta WHERE key = 'next_run_id'), (SELECT coalesce(max(id), 0) + 1 FROM schedules),
  (SELECT coalesce(max(upto), 0) FROM seals);

-- own_tables: the tables, without those of an index of texts
SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name;

-- deferred: indexes and triggers, made again when the rows are there
SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL;

-- renew_upto: the last event that each seal covers
UPDATE seals SET upto = coalesce((SELECT max(value ->> 3) FROM json_each(heads)), 0);

-- renew_last_upto: up to where all events are sealed
UPDATE seals SET upto = :sealed WHERE id = (SELECT max(id) FROM seals);

-- rebuild_words: make the index of texts
INSERT INTO run_words (run_words) VALUES ('rebuild');

-- set_next_run: the run id that follows
UPDATE meta SET value = :next_run WHERE key = 'next_run_id';
