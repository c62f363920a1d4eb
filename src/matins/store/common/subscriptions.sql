-- event_horizon: the last event id up to which all events are visible
SELECT id FROM event_horizon;

-- event: one event
SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events WHERE id = :id;

-- subscriptions: all subscriptions
SELECT name, kind, target, types, cursor, state, note, created_at, created_by FROM subscriptions ORDER BY name;

-- insert_subscription: add a subscription that starts at an event
INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
VALUES (:name, :kind, :target, :types, :cursor, 'active', :created_at, :created_by)
ON CONFLICT DO NOTHING RETURNING name;

-- set_types: set the types of a subscription
UPDATE subscriptions SET types = :types WHERE name = :name;

-- set_subscription: pause or resume a subscription
UPDATE subscriptions SET state = :state, note = :note WHERE name = :name AND state <> :state RETURNING name;

-- delete_subscription: delete a subscription
DELETE FROM subscriptions WHERE name = :name RETURNING name;

-- delete_deliveries: delete the deliveries of a subscription
DELETE FROM deliveries WHERE subscription = :name;

-- lease_subscription: take the lease; a lease beyond the longest possible end is from before the clock was set back
UPDATE subscriptions SET lease_owner = :owner, lease_until = :until
WHERE name = :name AND state = 'active'
  AND (lease_owner IS NULL OR lease_owner = :owner OR lease_until <= :now OR lease_until > :beyond)
RETURNING cursor;

-- release_leases: release the leases of a process
UPDATE subscriptions SET lease_owner = NULL, lease_until = NULL WHERE lease_owner = :owner;

-- move_subscription: move the cursor of a subscription
UPDATE subscriptions SET cursor = :cursor WHERE name = :name;

-- insert_delivery: add a delivery; it waits while an earlier one of the schedule is pending
INSERT INTO deliveries (subscription, event_id, schedule_id, attempts, next_at, state)
VALUES (:name, :event_id, :schedule_id, 0, CASE WHEN EXISTS (
  SELECT 1 FROM deliveries WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying')
  THEN NULL ELSE :now END, 'retrying') ON CONFLICT DO NOTHING;

-- due_queues: schedules whose next event may be delivered now, the longest waiting first
SELECT schedule_id FROM deliveries WHERE subscription = :name AND state = 'retrying' AND next_at <= :now
GROUP BY schedule_id ORDER BY min(event_id) LIMIT :limit;

-- queue_events: the next events of a schedule, in order
SELECT d.attempts, e.id, e.writer, e.seq, e.at, e.type, e.schedule_id, e.run_id, e.data, e.hash
FROM deliveries d JOIN events e ON e.id = d.event_id
WHERE d.subscription = :name AND d.schedule_id = :schedule_id AND d.state = 'retrying' ORDER BY d.event_id LIMIT :limit;

-- next_delivery: the instant of the next delivery
SELECT min(next_at) FROM deliveries WHERE subscription = :name AND state = 'retrying' AND next_at > :now;

-- advance_deliveries: deliver now what is deferred beyond the longest delay, after the clock was set back
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND state = 'retrying' AND next_at > :latest;

-- delete_delivery: delete a delivery that succeeded
DELETE FROM deliveries WHERE subscription = :name AND event_id = :event_id;

-- defer_delivery: defer or discard a delivery that failed
UPDATE deliveries SET attempts = :attempts, next_at = :next_at, last_error = :error, state = :state
WHERE subscription = :name AND event_id = :event_id;

-- defer_queue: let the later deliveries of the schedule wait for it
UPDATE deliveries SET next_at = NULL
WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying' AND event_id <> :event_id;

-- unblock_queue: release the next delivery of a schedule
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND next_at IS NULL AND event_id = (
  SELECT min(event_id) FROM deliveries
  WHERE subscription = :name AND schedule_id = :schedule_id AND state = 'retrying');

-- unblock_queues: the same for all schedules, in case two processes worked on them at the same time
UPDATE deliveries SET next_at = :now WHERE subscription = :name AND state = 'retrying' AND next_at IS NULL AND event_id IN (
  SELECT min(event_id) FROM deliveries WHERE subscription = :name AND state = 'retrying' GROUP BY schedule_id);

-- deliveries: the deliveries of a subscription, the oldest first
SELECT subscription, event_id, schedule_id, attempts, next_at, last_error, state FROM deliveries
WHERE subscription = :name AND state = :state AND event_id > :after ORDER BY event_id LIMIT :limit;

-- given_up: the first delivery that each subscription has given up
SELECT subscription, event_id, schedule_id, attempts, next_at, last_error, state FROM deliveries d
WHERE state = 'discarded' AND event_id = (
  SELECT min(event_id) FROM deliveries WHERE subscription = d.subscription AND state = 'discarded');

-- redeliver: deliver an event again, with no attempts counted
INSERT INTO deliveries (subscription, event_id, schedule_id, attempts, next_at, state)
VALUES (:name, :event_id, :schedule_id, 0, :now, 'retrying')
ON CONFLICT (subscription, event_id) DO UPDATE SET state = 'retrying', attempts = 0, next_at = excluded.next_at;

-- delete_lost_deliveries: delete deliveries of deleted events
DELETE FROM deliveries WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = deliveries.event_id);
