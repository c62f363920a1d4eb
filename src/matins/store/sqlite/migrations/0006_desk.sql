-- What the surfaces keep: tokens, answers to requests that may be repeated, and what a file defines.

CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  hash TEXT NOT NULL, -- SHA-256 of the whole token
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  rights TEXT,        -- which of its role's rights, as JSON; all of them when NULL
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  used_at INTEGER
) STRICT;
CREATE TABLE requests (
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  digest TEXT NOT NULL, -- of what was asked
  status INTEGER,       -- NULL while it is being answered
  answer TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT;
CREATE INDEX requests_at ON requests (at);
CREATE TABLE file_entries (
  kind TEXT NOT NULL, -- schedule, agent, quiet_hours …; `file` for the whole
  name TEXT NOT NULL,
  path TEXT NOT NULL,
  line INTEGER NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT;
