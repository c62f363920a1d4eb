-- The processes that run the loops.

-- workers() -> list[WorkerRow]: workers that have not stopped
SELECT w.id, w.identity, w.beat, w.offers, w.node, n.state, n.by, n.note, n.at
FROM workers w LEFT JOIN nodes n ON n.name = w.node WHERE w.stopped_at IS NULL ORDER BY w.id;

-- oldest_migration() -> int: the migration that an engine must know to work on the store
SELECT CAST(coalesce(max(value), '1') AS bigint) FROM meta WHERE key = 'oldest';

-- set_offers(worker: int, offers: str) -> None: what a worker has for runs that need it
UPDATE workers SET offers = :offers WHERE id = :worker AND offers <> :offers;

-- offers() -> list[str]: what workers offer and have offered, also those that stopped; each list once
SELECT DISTINCT offers FROM workers;

-- stop_worker(worker: int, now: int) -> bool: mark a worker as stopped or dead
UPDATE workers SET stopped_at = :now WHERE id = :worker AND stopped_at IS NULL RETURNING id;

-- prune_workers: delete workers that stopped before an instant; the newest is kept, so that ids stay unique
DELETE FROM workers WHERE stopped_at < :before AND id < (SELECT max(id) FROM workers);
