-- The outbox: who wants to hear of events, and what is still to be delivered.

CREATE TABLE subscriptions (
  name text PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('webhook', 'hook', 'function')),
  target text NOT NULL,
  types text NOT NULL,
  cursor bigint NOT NULL, -- events up to this one are delivered, of no interest, or among the deliveries
  state text NOT NULL CHECK (state IN ('active', 'paused')),
  note text,
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  lease_owner text, -- the process that delivers it
  lease_until bigint
);

CREATE TABLE deliveries (
  subscription text NOT NULL,
  event_id bigint NOT NULL,
  schedule_id bigint NOT NULL, -- 0 for events that belong to none
  attempts bigint NOT NULL,
  next_at bigint, -- NULL while another event of its schedule is before it
  last_error text,
  state text NOT NULL CHECK (state IN ('waiting', 'given_up')),
  PRIMARY KEY (subscription, event_id)
);
CREATE INDEX deliveries_lane ON deliveries (subscription, schedule_id, event_id) WHERE state = 'waiting';
CREATE INDEX deliveries_due ON deliveries (subscription, next_at) WHERE state = 'waiting';

-- Up to which all events are there to see: below the oldest transaction that is still under way.
CREATE VIEW event_horizon AS
SELECT ((pg_snapshot_xmin(pg_current_snapshot())::text::bigint + value::bigint) << 22) - 1 AS id
FROM meta WHERE key = 'xact_base';

-- Hooks that learn how runs end are delivered by a subscription of their own, from the moment that the first is set.
CREATE FUNCTION open_hooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO subscriptions (name, kind, target, types, cursor, state, created_at, created_by)
  SELECT 'hooks', 'hook', '{}', '[]', id, 'active', 0, 'matins' FROM event_horizon ON CONFLICT DO NOTHING;
  IF FOUND THEN
    UPDATE policy_rev SET rev = rev + 1;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER hook_in_words AFTER INSERT ON revisions FOR EACH ROW
WHEN (NEW.definition LIKE '%"after":%') EXECUTE FUNCTION open_hooks();
CREATE TRIGGER hook_for_all AFTER INSERT ON policies FOR EACH ROW
WHEN (NEW.kind = 'hook' AND NEW.name = 'after:run') EXECUTE FUNCTION open_hooks();
