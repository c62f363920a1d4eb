-- A schema as the source or the target of a move.

-- moving_settings: a move takes its time, and reads whole tables
SET statement_timeout = 0; SET lock_timeout = 20000; SET idle_in_transaction_session_timeout = 0;
SET enable_seqscan = on; SET enable_hashjoin = on; SET enable_mergejoin = on; SET maintenance_work_mem = '256MB';

-- hold_move: keep other commands that move this store away, while the session lasts
SELECT pg_try_advisory_lock(hashtext('matins promote'), hashtext(current_schema()));

-- access: the version, the schema, whether its user may make tables there, and the encoding of the database
SELECT current_setting('server_version_num')::int, current_schema(),
  current_schema() IS NOT NULL AND has_schema_privilege(current_schema(), 'CREATE'), current_setting('server_encoding'), current_user;

-- is_unused: whether a store was only looked at since it was made
SELECT NOT EXISTS (SELECT FROM events) AND NOT EXISTS (SELECT FROM workers) AND NOT EXISTS (SELECT FROM schedules);

-- numbers: what continues in the target
SELECT (SELECT last_value + is_called::int FROM run_ids), (SELECT last_value + is_called::int FROM schedule_ids),
  coalesce((SELECT min(e.id) - 1 FROM events e JOIN writers w ON w.id = e.writer
    WHERE e.id >= (SELECT value::bigint FROM meta WHERE key = 'sealed') AND e.seq > w.sealed_seq), (SELECT max(id) FROM events), 0);

-- own_columns: the columns of the tables
SELECT c.table_name::text, c.column_name::text, c.data_type::text FROM information_schema.columns c
JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'
ORDER BY c.table_name, c.ordinal_position;

-- own_keys: the columns of primary keys
SELECT t.relname::text, a.attname::text FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
CROSS JOIN unnest(i.indkey::int[]) WITH ORDINALITY k (number, nth) JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number
WHERE i.indisprimary AND t.relnamespace = current_schema()::regnamespace ORDER BY 1, k.nth;

-- referenced: tables to which others refer
SELECT DISTINCT t.relname::text FROM pg_constraint c JOIN pg_class t ON t.oid = c.confrelid
WHERE c.contype = 'f' AND t.relnamespace = current_schema()::regnamespace;

-- deferred: indexes that belong to no key, made again when the rows are there
SELECT x.relname::text, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
WHERE x.relnamespace = current_schema()::regnamespace AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid);

-- renew_sealed: up to where chains are sealed
UPDATE writers w SET sealed_seq = coalesce(e.seq, w.pruned_seq)
FROM writers o LEFT JOIN (SELECT writer, max(seq) AS seq FROM events WHERE id <= %(sealed)b GROUP BY writer) e ON e.writer = o.id
WHERE o.id = w.id;

-- continue_ids: the ids that follow
SELECT setval('run_ids', %(next_run)b, false), setval('schedule_ids', %(next_schedule)b, false);

-- continue_identities: numbers of rows go on after the last
DO $$
DECLARE it record; last bigint;
BEGIN
  FOR it IN SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND is_identity = 'YES'
  LOOP
    EXECUTE format('SELECT max(%I) FROM %I', it.column_name, it.table_name) INTO last;
    PERFORM setval(pg_get_serial_sequence(quote_ident(it.table_name), it.column_name), coalesce(last, 0) + 1, false);
  END LOOP;
END $$;

-- fence: from now on the server refuses what changes a table, but for the marks
CREATE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE mark text;
BEGIN
  SELECT key || ' ' || value INTO mark FROM meta WHERE key IN ('moving', 'moved', 'copy');
  RAISE EXCEPTION USING ERRCODE = 'MT001', MESSAGE = mark;
END $$;
DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT table_name FROM information_schema.tables
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND table_name <> 'meta' ORDER BY table_name
  LOOP
    EXECUTE format('CREATE TRIGGER aaa_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %I '
      'FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()', name);
  END LOOP;
END $$;

-- unfence: changes are accepted again
DROP FUNCTION IF EXISTS refuse_moved() CASCADE;

-- stop_absent: workers without a heartbeat for longer than a lease are taken for dead, and notice it
UPDATE workers SET stopped_at = beat WHERE stopped_at IS NULL;

-- remember_given_up: a statement of this move that arrives later makes no copy
CREATE TABLE IF NOT EXISTS moves_given_up (token text PRIMARY KEY);

-- has_given_up: whether moves were given up here
SELECT to_regclass('moves_given_up') IS NOT NULL;

-- was_given_up: whether this move was given up
SELECT count(*) FROM moves_given_up WHERE token = %(token)b;

-- insert_given_up: this move was given up
INSERT INTO moves_given_up VALUES (%(token)b) ON CONFLICT DO NOTHING;
