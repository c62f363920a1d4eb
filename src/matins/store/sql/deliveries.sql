-- Events on their way to subscribers.

-- delete_deliveries: delete the deliveries of a subscription
DELETE FROM deliveries WHERE subscription = :name;

-- insert_delivery: add a delivery; it waits while an earlier one of the schedule is pending
INSERT INTO deliveries (subscription, event_id, schedule_id, attempts, next_at, state)
VALUES (:name, :event_id, :schedule_id, 0, CASE WHEN EXISTS (
  SELECT 1 FROM deliveries WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying')
  THEN NULL ELSE :now END, 'retrying') ON CONFLICT DO NOTHING;

-- due_queues(name: str, now: int, limit: int) -> list[int]: schedules whose next event may be delivered now, the longest
--   waiting first
SELECT schedule_id FROM deliveries WHERE subscription = :name AND state = 'retrying' AND next_at <= :now
GROUP BY schedule_id ORDER BY min(event_id) LIMIT :limit;

-- queue_events: the next events of a schedule, in order
SELECT d.attempts, e.id, e.writer, e.seq, e.at, e.type, e.schedule_id, e.run_id, e.data, e.hash
FROM deliveries d JOIN events e ON e.id = d.event_id
WHERE d.subscription = :name AND d.schedule_id = :schedule_id AND d.state = 'retrying' ORDER BY d.event_id LIMIT :limit;

-- next_delivery(name: str, now: int) -> int | None: the instant of the next delivery
SELECT min(next_at) FROM deliveries WHERE subscription = :name AND state = 'retrying' AND next_at > :now;

-- advance_deliveries: deliver now what is deferred beyond the longest delay, after the clock was set back
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND state = 'retrying' AND next_at > :latest;

-- delete_delivery(name: str, event_id: int) -> None: delete a delivery that succeeded
DELETE FROM deliveries WHERE subscription = :name AND event_id = :event_id;

-- defer_delivery: defer or discard a delivery that failed
UPDATE deliveries SET attempts = :attempts, next_at = :next_at, last_error = :error, state = :state
WHERE subscription = :name AND event_id = :event_id;

-- defer_queue: let the later deliveries of the schedule wait for it
UPDATE deliveries SET next_at = NULL
WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying' AND event_id <> :event_id;

-- unblock_queue(name: str, schedule_id: int, now: int) -> None: release the next event of a schedule after the one before it
--   is done
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND next_at IS NULL AND event_id = (
  SELECT min(event_id) FROM deliveries
  WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying');

-- unblock_queues: the same for all schedules, in case two processes worked on them at the same time
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND state = 'retrying' AND next_at IS NULL AND event_id IN (
  SELECT min(event_id) FROM deliveries WHERE subscription = :name AND state = 'retrying' GROUP BY schedule_id);

-- deliveries(name: str, state: DeliveryState, after: int, limit: int) -> list[Delivery]: the deliveries of a subscription,
--   the oldest first
SELECT subscription, event_id, schedule_id, attempts, next_at, last_error, state FROM deliveries
WHERE subscription = :name AND state = :state AND event_id > :after ORDER BY event_id LIMIT :limit;

-- given_up() -> list[Delivery]: the first delivery that each subscription has given up
SELECT subscription, event_id, schedule_id, attempts, next_at, last_error, state FROM deliveries d
WHERE state = 'discarded' AND event_id = (
  SELECT min(event_id) FROM deliveries WHERE subscription = d.subscription AND state = 'discarded');

-- redeliver: deliver an event again, with no attempts counted
INSERT INTO deliveries (subscription, event_id, schedule_id, attempts, next_at, state)
VALUES (:name, :event_id, :schedule_id, 0, :now, 'retrying')
ON CONFLICT (subscription, event_id) DO UPDATE SET state = 'retrying', attempts = 0, next_at = excluded.next_at;

-- delete_lost_deliveries() -> None: delete deliveries of deleted events
DELETE FROM deliveries WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = deliveries.event_id);
