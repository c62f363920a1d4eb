-- The units of limited scopes.

-- shrink_limit: delete free surplus units
DELETE FROM permits WHERE scope = :scope AND n > :size AND run_id IS NULL;

-- keep_surplus_permits: give surplus units in use a number below 0; they are deleted when they are released
UPDATE permits SET n = -n WHERE scope = :scope AND n > :size;

-- restore_permits: restore surplus units when the limit is raised
UPDATE permits SET n = -n WHERE scope = :scope AND n < 0 AND n >= -:size;

-- limits() -> list[ScopeRow]: limited scopes, their size and the units in use
SELECT scope, count(*) FILTER (WHERE n > 0) AS size, count(run_id) AS in_use FROM permits GROUP BY scope;

-- held_permits() -> list[tuple[str, int]]: (scope, run id) of the permits that held runs keep
SELECT p.scope, p.run_id FROM permits p JOIN runs r ON r.id = p.run_id WHERE r.state = {held};

-- lock_checkout(host: str, folder: str, run_id: int) -> int: lock a checkout, and return the last run that was let into it
INSERT INTO checkouts (host, folder, run_id) VALUES (:host, :folder, :run_id)
ON CONFLICT (host, folder) DO UPDATE SET host = excluded.host RETURNING run_id;

-- set_checkout(host: str, folder: str, run_id: int) -> None: set the run that was let into a checkout
UPDATE checkouts SET run_id = :run_id WHERE host = :host AND folder = :folder;

-- is_running(run_id: int) -> bool: whether a run is starting or running
SELECT 1 FROM runs WHERE id = :run_id AND state BETWEEN {starting} AND {running};

-- rename_scope(scope: str, name: str) -> list[int]: give a scope another name. Returns the number of each of its units
UPDATE permits SET scope = :name WHERE scope = :scope RETURNING n;

-- move_scope(scope: str, name: str) -> list[int]: give live runs another scope. Returns the state of each
UPDATE runs SET scope = :name WHERE scope = :scope AND state {live} RETURNING state;
