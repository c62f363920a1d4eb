-- The processes that run the loops.

-- workers() -> list[WorkerRow]: workers that have not stopped
SELECT id, identity, beat, offers, node FROM workers WHERE stopped_at IS NULL ORDER BY id;

-- set_offers(worker: int, offers: str) -> None: what a worker has for runs that need it
UPDATE workers SET offers = :offers WHERE id = :worker AND offers <> :offers;

-- offers() -> list[str]: what workers offer and have offered, also those that stopped; each list once
SELECT DISTINCT offers FROM workers;

-- stop_worker(worker: int, now: int) -> bool: mark a worker as stopped or dead
UPDATE workers SET stopped_at = :now WHERE id = :worker AND stopped_at IS NULL RETURNING id;

-- prune_workers: delete workers that stopped before an instant; the newest is kept, so that ids stay unique
DELETE FROM workers WHERE stopped_at < :before AND id < (SELECT max(id) FROM workers);
