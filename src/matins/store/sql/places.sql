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

-- waiting_places(scope: str) -> list[WaitingPlace]: where runs of a scope wait that have not started, by their settings
SELECT DISTINCT r.schedule_id, r.rev, r.step, r.place FROM runs r
WHERE r.state {live} AND r.state <= {ready} AND r.scope = :scope;

-- move_runs(waiting: WaitingPlace, after: int) -> None: move runs of these settings that have not started to another place
UPDATE runs SET place = :after
WHERE schedule_id = :schedule_id AND state {live} AND state <= {ready} AND rev = :rev AND step = :step AND place = :place;

-- needs_of_run(run_id: int) -> str | None: what a node must offer for a run, as a JSON list; None where any can do it
SELECT p.needs FROM runs r JOIN places p ON p.id = r.place WHERE r.id = :run_id;

-- set_place(run_id: int, place: int) -> None: move a run to another place
UPDATE runs SET place = :place WHERE id = :run_id;

-- note_turned_away(run_id: int, node: str, reason: str) -> None: note that a node lacks what a run needs
INSERT INTO turned_away (run_id, node, reason) VALUES (:run_id, :node, :reason) ON CONFLICT DO NOTHING;

-- turned_away: the nodes that lack what a run needs
SELECT node, reason FROM turned_away WHERE run_id = :run_id ORDER BY node;

-- report_place(place: int, now: int) -> bool: note that no engine can do the runs of a place. False if that is noted already
UPDATE places SET reported_at = :now WHERE id = :place AND reported_at IS NULL RETURNING id;

-- clear_report: an engine can do the runs of a place again
UPDATE places SET reported_at = NULL WHERE id = :id AND reported_at IS NOT NULL;

-- count_ready(place: int) -> int: the number of ready runs of a place
SELECT count(*) FROM runs WHERE state = {ready} AND place = :place;

-- move_ready(before: int, after: int) -> None: move ready runs to another place
UPDATE runs SET place = :after WHERE state = {ready} AND place = :before;
