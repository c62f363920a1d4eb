-- insert_worker(identity: str, now: int, offers: str='[]', node: str='') -> int: add a process that runs the loops
INSERT INTO workers (identity, beat, started_at, offers, node)
VALUES (%(identity)b, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, %(now)b, %(offers)b, %(node)b) RETURNING id;

-- heartbeat(worker: int) -> int | None: record a heartbeat. None when another worker has declared this one dead
UPDATE workers SET beat = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE id = %(worker)b AND stopped_at IS NULL RETURNING beat;

-- engines: workers with a heartbeat within a lease, before or after now: the clock of the server may have changed
SELECT w.id, w.identity, w.beat, w.offers, w.node, n.state, n.by, n.note, n.at
FROM workers w LEFT JOIN nodes n ON n.name = w.node
WHERE stopped_at IS NULL AND abs((extract(epoch FROM statement_timestamp()) * 1000)::bigint - beat) <= %(lease)b;
