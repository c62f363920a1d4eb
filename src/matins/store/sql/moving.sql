-- A store that moves to another one.

-- marks() -> list[tuple[str, str]]: what a store says of its move
SELECT key, value FROM meta WHERE key IN ('moving', 'moved', 'copy');

-- all_meta: all values of the store
SELECT key, value FROM meta;

-- carried: what is carried, and how many runs have a process
SELECT (SELECT count(*) FROM schedules WHERE state <> 'removed'), (SELECT count(*) FROM runs), (SELECT count(*) FROM events),
  (SELECT count(*) FROM approvals WHERE state = 'pending'),
  (SELECT count(*) FROM runs WHERE state {live} AND state IN ({starting}, {running}) AND owner IS NOT NULL);

-- insert_mark: note a move
INSERT INTO meta (key, value) VALUES (:key, :value);

-- mark_moved: note that the store has moved
UPDATE meta SET key = 'moved' WHERE key = 'moving' AND value = :value RETURNING key;

-- delete_marks: note no more that the store moves
DELETE FROM meta WHERE key IN ('moving', 'moved') AND value = :value;

-- take_charge(mark: str) -> str | None: be the store that a copy stands for. None when it is no copy, or one of another move
DELETE FROM meta WHERE key = 'copy' AND value = :mark RETURNING key;

-- open_drained: open the nodes that were cordoned for a move
DELETE FROM nodes WHERE note = :note;
