-- The data of time zones from which the slots of cursors were computed.

-- zone_versions() -> list[ZoneVersion]: the data of time zones from which slots were computed, those of the last start first
SELECT name, digest, data, used_at, moved_at, moved FROM zone_versions ORDER BY name, used_at DESC, digest;

-- lock_zone(name: str) -> list[ZoneVersion]: the known data of a zone, those of the last start first, locked
SELECT name, digest, data, used_at, moved_at, moved FROM zone_versions WHERE name = :name ORDER BY used_at DESC, digest /* lock */;

-- note_zone(name: str, digest: str, data: bytes) -> None: note that slots are computed from these data, unless that is known
INSERT INTO zone_versions (name, digest, data, used_at) VALUES (:name, :digest, :data, 0) ON CONFLICT DO NOTHING;

-- use_zone(name: str, digest: str, data: bytes, now: int) -> None: note that an engine starts with these data
INSERT INTO zone_versions (name, digest, data, used_at) VALUES (:name, :digest, :data, :now)
ON CONFLICT (name, digest) DO UPDATE SET used_at = excluded.used_at;

-- note_moves(name: str, digest: str, count: int, now: int) -> None: note that the next slots of schedules moved to those of
--   these data
UPDATE zone_versions SET moved_at = :now, moved = :count WHERE name = :name AND digest = :digest;

-- last_move: the last event since an instant that moved the next slot of a schedule to other data of its zone
SELECT type, at, data FROM events
WHERE schedule_id = :id AND at >= :since AND type = 'schedule.replanned' AND data LIKE :like ORDER BY id DESC LIMIT 1;

-- forget_zone(name: str, digest: str, worker: int) -> None: delete the other data of a zone, unless a worker that started
--   before they were last used may still use them
DELETE FROM zone_versions AS z WHERE name = :name AND digest <> :digest AND NOT EXISTS (
  SELECT 1 FROM workers w WHERE w.stopped_at IS NULL AND w.id <> :worker AND (z.used_at = 0 OR w.started_at <= z.used_at));
