-- Subscriptions to events.

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

-- lease_subscription: take the lease; a lease beyond the longest possible end is from before the clock was set back
UPDATE subscriptions SET lease_owner = :owner, lease_until = :until
WHERE name = :name AND state = 'active'
  AND (lease_owner IS NULL OR lease_owner = :owner OR lease_until <= :now OR lease_until > :beyond)
RETURNING cursor;

-- release_leases(owner: str) -> None: release the leases of a process
UPDATE subscriptions SET lease_owner = NULL, lease_until = NULL WHERE lease_owner = :owner;

-- move_subscription(name: str, cursor: int) -> None: move the cursor of a subscription
UPDATE subscriptions SET cursor = :cursor WHERE name = :name;
