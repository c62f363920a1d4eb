-- insert_worker(identity: str, now: int, offers: str='[]', node: str='') -> int: add a process that runs the loops
INSERT INTO workers (identity, beat, started_at, offers, node) VALUES (:identity, 0, :now, :offers, :node) RETURNING id;

-- heartbeat(worker: int) -> int | None: record a heartbeat. None when another worker has declared this one dead
UPDATE workers SET beat = beat + 1 WHERE id = :worker AND stopped_at IS NULL RETURNING beat;
