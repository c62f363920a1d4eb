-- What the surfaces keep: tokens, answers to requests that may be repeated, and what a file defines.

CREATE TABLE tokens (
  id text PRIMARY KEY,
  hash text NOT NULL, -- SHA-256 of the whole token
  name text NOT NULL,
  role text NOT NULL,
  rights text,        -- which of its role's rights, as JSON; all of them when NULL
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  used_at bigint
);
CREATE TABLE requests (
  principal text NOT NULL,
  key text NOT NULL,
  digest text NOT NULL, -- of what was asked
  status integer,       -- NULL while it is being answered
  answer text,
  at bigint NOT NULL,
  PRIMARY KEY (principal, key)
);
CREATE INDEX requests_at ON requests (at);
CREATE TABLE file_entries (
  kind text NOT NULL, -- schedule, agent, quiet_hours …; `file` for the whole
  name text NOT NULL,
  path text NOT NULL,
  line integer NOT NULL,
  digest text NOT NULL,
  PRIMARY KEY (kind, name)
);
