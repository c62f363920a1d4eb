-- The outbox: who wants to hear of events, and what is still to be delivered.

CREATE TABLE subscriptions (
  name TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('webhook', 'hook', 'function')),
  target TEXT NOT NULL,
  types TEXT NOT NULL,
  cursor INTEGER NOT NULL, -- events up to this one are delivered, of no interest, or among the deliveries
  state TEXT NOT NULL CHECK (state IN ('active', 'paused')),
  note TEXT,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  lease_owner TEXT, -- the process that delivers it
  lease_until INTEGER
) STRICT;

CREATE TABLE deliveries (
  subscription TEXT NOT NULL,
  event_id INTEGER NOT NULL,
  schedule_id INTEGER NOT NULL, -- 0 for events that belong to none
  attempts INTEGER NOT NULL,
  next_at INTEGER, -- NULL while another event of its schedule is before it
  last_error TEXT,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'given_up')),
  PRIMARY KEY (subscription, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_lane ON deliveries (subscription, schedule_id, event_id) WHERE state = 'waiting';
CREATE INDEX deliveries_due ON deliveries (subscription, next_at) WHERE state = 'waiting';

-- Up to which all events are there to see.
CREATE VIEW event_horizon AS SELECT coalesce(max(id), 0) AS id FROM events;

-- Hooks that learn how runs end are delivered by a subscription of their own, from the moment that the first is set.
CREATE TRIGGER hook_in_words AFTER INSERT ON revisions
WHEN NEW.definition LIKE '%"after":%' AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE name = 'hooks')
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'hooks', 'hook', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon;
  UPDATE policy_rev SET rev = rev + 1;
END;
CREATE TRIGGER hook_for_all AFTER INSERT ON policies
WHEN NEW.kind = 'hook' AND NEW.name = 'after:run' AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE name = 'hooks')
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'hooks', 'hook', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon;
  UPDATE policy_rev SET rev = rev + 1;
END;
