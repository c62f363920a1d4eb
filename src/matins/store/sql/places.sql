-- Sets of needs of runs, by number.

-- places() -> list[PlaceRow]: all sets of needs
SELECT id, needs FROM places;

-- place: the number of a set of needs
SELECT id FROM places WHERE needs = :needs;

-- insert_place: add a set of needs
INSERT INTO places (needs) VALUES (:needs) ON CONFLICT (needs) DO NOTHING;

-- ready_places() -> list[ReadyPlace]: the places in which runs are ready, with the first time at which one may start; a walk
--   from key to key, not over the rows
WITH RECURSIVE p (place) AS (
  SELECT min(place) FROM runs WHERE state = {ready}
  UNION ALL SELECT (SELECT min(r.place) FROM runs r WHERE r.state = {ready} AND r.place > p.place) FROM p WHERE p.place IS NOT NULL)
SELECT p.place, (SELECT min(r.not_before) FROM runs r WHERE r.state = {ready} AND r.place = p.place) AS not_before
FROM p WHERE p.place IS NOT NULL;

-- ready_in(place: int, since: int, after: int, limit: int) -> list[int]: runs of a place that might have started since an
--   instant, by id
SELECT id FROM runs WHERE state = {ready} AND place = :place AND not_before <= :since AND id > :after ORDER BY id LIMIT :limit;

-- move_runs(scope: str, before: int, after: int) -> None: move the runs of a scope that have not started to another place
UPDATE runs SET place = :after WHERE state {live} AND state <= {ready} AND scope = :scope AND place = :before;

-- report_place(place: int, now: int) -> bool: note that no engine can do the runs of a place. False if that is noted already
UPDATE places SET reported_at = :now WHERE id = :place AND reported_at IS NULL RETURNING id;

-- clear_report: an engine can do the runs of a place again
UPDATE places SET reported_at = NULL WHERE id = :id AND reported_at IS NOT NULL;
