-- Nodes that take no new runs, and the runs of all nodes.

-- node_states() -> list[NodeState]: the nodes that are cordoned or draining
SELECT name, state, by, note, at, ends_at FROM nodes ORDER BY name;

-- node_state(name: str) -> NodeState | None: the state of a node; None where it is open
SELECT name, state, by, note, at, ends_at FROM nodes WHERE name = :name;

-- set_node_state(node: NodeState) -> None: cordon or drain a node
INSERT INTO nodes (name, state, by, note, at, ends_at) VALUES (:name, :state, :by, :note, :at, :ends_at)
ON CONFLICT (name) DO UPDATE SET state = excluded.state, by = excluded.by, note = excluded.note, at = excluded.at,
  ends_at = excluded.ends_at;

-- open_node(name: str) -> bool: let a node take runs again. False if it was open
DELETE FROM nodes WHERE name = :name RETURNING name;

-- is_live_node(name: str, since: int) -> int | None: an engine of a node that runs, or has ended after an instant
SELECT max(id) FROM workers WHERE node = :name AND (stopped_at IS NULL OR stopped_at > :since);

-- node_runs() -> list[NodeRuns]: how many runs each node has started that have not ended
SELECT w.node, count(*) AS runs FROM runs r JOIN workers w ON w.id = r.owner
WHERE r.state {live} AND r.state IN ({starting}, {running}) GROUP BY w.node;
