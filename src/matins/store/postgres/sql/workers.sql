-- insert_worker(identity: str, now: int, offers: str='[]', node: str='') -> int: add a process that runs the loops
INSERT INTO workers (identity, beat, started_at, offers, node)
VALUES (%(identity)b, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, %(now)b, %(offers)b, %(node)b) RETURNING id;

-- heartbeat(worker: int) -> int | None: record a heartbeat. None when another worker has declared this one dead
UPDATE workers SET beat = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE id = %(worker)b AND stopped_at IS NULL RETURNING beat;

-- engines: workers with a heartbeat within a lease, before or after now: the clock of the server may have changed
SELECT id, identity, beat, offers, node FROM workers
WHERE stopped_at IS NULL AND abs((extract(epoch FROM statement_timestamp()) * 1000)::bigint - beat) <= %(lease)b;
