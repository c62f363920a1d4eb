-- session_settings: settings of every connection; each join starts with a few ids, so stale statistics must not choose the
--   plan
SET statement_timeout = 4500; SET lock_timeout = 4000; SET idle_in_transaction_session_timeout = 4500;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';

-- search_path: the tables of this connection
SELECT set_config('search_path', %(path)b, false);

-- patience: longer timeouts, and one migrating process at a time
SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 60000;
SELECT pg_advisory_xact_lock(hashtext('matins'), hashtext(current_schema()));

-- tables: the tables of the schema
SELECT current_schema(), array_agg(t.table_name::text) FROM information_schema.tables t WHERE t.table_schema = current_schema();

-- applied: the applied migrations
SELECT number, checksum FROM migrations ORDER BY number;

-- insert_migration: record a migration
INSERT INTO migrations VALUES (%(number)b, %(name)b, %(checksum)b, %(now)b);

-- rebase: transaction ids start again in a copy on another server, but event ids must not
UPDATE meta SET value = (last + 1 - xact)::text
FROM (SELECT coalesce((SELECT max(id) >> 22 FROM events), 0) AS last, pg_current_xact_id()::text::bigint AS xact) x
WHERE key = 'xact_base' AND value::bigint + xact <= last;

-- database_time_us: the server's clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- enter: use the tables of Matins in a transaction of a caller; what it used before
SELECT current_setting('search_path'), set_config('search_path', %(path)b, true);

-- leave: use the tables of the caller again
SELECT set_config('search_path', %(path)b, true);

-- schema: the schema of the store, and nothing of the caller's before it
SELECT quote_ident(current_schema()) || ', pg_temp';
