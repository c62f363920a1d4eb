-- event_horizon: up to which all events are there to see
SELECT id FROM event_horizon;

-- event: one event
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id = :id;

-- subscriptions: who wants to hear of events
SELECT name, kind, target, types, cursor, state, note, created_at, created_by FROM subscriptions ORDER BY name;

-- insert_subscription: somebody who wants to, from an event on
INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
VALUES (:name, :kind, :target, :types, :cursor, 'active', :created_at, :created_by)
ON CONFLICT DO NOTHING RETURNING name;

-- set_types: what it wants to hear of
UPDATE subscriptions SET types = :types WHERE name = :name;

-- set_subscription: active or paused
UPDATE subscriptions SET state = :state, note = :note WHERE name = :name AND state <> :state RETURNING name;

-- delete_subscription: it is no more
DELETE FROM subscriptions WHERE name = :name RETURNING name;

-- delete_deliveries: nor is what it has not got
DELETE FROM deliveries WHERE subscription = :name;

-- lease_subscription: nobody else delivers it for a while; an end beyond what anyone takes is that of a clock that went back
UPDATE subscriptions SET lease_owner = :owner, lease_until = :until
WHERE name = :name AND state = 'active'
  AND (lease_owner IS NULL OR lease_owner = :owner OR lease_until <= :now OR lease_until > :beyond)
RETURNING cursor;

-- release_leases: others may
UPDATE subscriptions SET lease_owner = NULL, lease_until = NULL WHERE lease_owner = :owner;

-- move_subscription: how far it has been sorted
UPDATE subscriptions SET cursor = :cursor WHERE name = :name;

-- insert_delivery: an event that is to be delivered; it waits while there is one before it
INSERT INTO deliveries (subscription, event_id, schedule_id, attempts, next_at, state)
VALUES (:name, :event_id, :schedule_id, 0, CASE WHEN EXISTS (
  SELECT 1 FROM deliveries WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying')
  THEN NULL ELSE :now END, 'retrying') ON CONFLICT DO NOTHING;

-- due_queues: schedules whose next event may be delivered now, the one that has waited longest first
SELECT schedule_id FROM deliveries WHERE subscription = :name AND state = 'retrying' AND next_at <= :now
GROUP BY schedule_id ORDER BY min(event_id) LIMIT :limit;

-- queue_events: the next events of a schedule, in their order
SELECT d.attempts, e.id, e.writer, e.seq, e.at, e.type, e.schedule_id, e.run_id, e.data, e.hash
FROM deliveries d JOIN events e ON e.id = d.event_id
WHERE d.subscription = :name AND d.schedule_id = :schedule_id AND d.state = 'retrying' ORDER BY d.event_id LIMIT :limit;

-- next_delivery: when the next one is tried again
SELECT min(next_at) FROM deliveries WHERE subscription = :name AND state = 'retrying' AND next_at > :now;

-- advance_deliveries: those that would be tried later than anybody puts them off, since the clock went back
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND state = 'retrying' AND next_at > :latest;

-- delete_delivery: it has arrived
DELETE FROM deliveries WHERE subscription = :name AND event_id = :event_id;

-- defer_delivery: it has not
UPDATE deliveries SET attempts = :attempts, next_at = :next_at, last_error = :error, state = :state
WHERE subscription = :name AND event_id = :event_id;

-- defer_queue: and what comes after it waits
UPDATE deliveries SET next_at = NULL
WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying' AND event_id <> :event_id;

-- unblock_queue: what was before the next one is gone
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND next_at IS NULL AND event_id = (
  SELECT min(event_id) FROM deliveries
  WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying');

-- unblock_queues: the same for all, should two processes have worked on them at once
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND state = 'retrying' AND next_at IS NULL AND event_id IN (
  SELECT min(event_id) FROM deliveries WHERE subscription = :name AND state = 'retrying' GROUP BY schedule_id);

-- deliveries: what a subscription has not got, the oldest first
SELECT subscription, event_id, schedule_id, attempts, next_at, last_error, state FROM deliveries
WHERE subscription = :name AND state = :state AND event_id > :after ORDER BY event_id LIMIT :limit;

-- redeliver: once more from the beginning, and with it what waits before it
INSERT INTO deliveries (subscription, event_id, schedule_id, attempts, next_at, state)
VALUES (:name, :event_id, :schedule_id, 0, :now, 'retrying')
ON CONFLICT (subscription, event_id) DO UPDATE SET state = 'retrying', attempts = 0, next_at = excluded.next_at;

-- delete_lost_deliveries: of events that are forgotten
DELETE FROM deliveries WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = deliveries.event_id);
