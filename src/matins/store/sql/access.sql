-- Tokens, sessions of browsers, codes that link people to users of chat, and responses to requests with an idempotency key.

-- insert_token: add a token
INSERT INTO tokens (id, hash, name, role, rights, created_at, created_by, expires_at, person)
VALUES (:id, :hash, :name, :role, :rights, :created_at, :created_by, :expires_at, :person);

-- token: one token
SELECT id, hash, name, role, rights, created_at, created_by, expires_at, person, revoked_at, used_at FROM tokens WHERE id = :id;

-- tokens: all tokens, the oldest first
SELECT id, hash, name, role, rights, created_at, created_by, expires_at, person, revoked_at, used_at FROM tokens
ORDER BY created_at, id;

-- revoke_token(token_id: str, now: int) -> bool: revoke a token once
UPDATE tokens SET revoked_at = :now WHERE id = :token_id AND revoked_at IS NULL RETURNING id;

-- touch_token(token_id: str, now: int) -> None: set when a token was last used
UPDATE tokens SET used_at = :now WHERE id = :token_id;

-- insert_session: add a link that opens a browser session
INSERT INTO sessions (id, hash, role, name, rights, token, person, created_at, expires_at, method, browser)
VALUES (:id, :hash, :role, :name, :rights, :token, :person, :created_at, :expires_at, :method, :browser);

-- browser_session: a browser session, or the link that opens it, by the hash of its secret
SELECT id, hash, role, name, rights, token, person, created_at, expires_at, method, browser, opened_at, used_at, ended_at
FROM sessions WHERE hash = :hash;

-- sessions: all browser sessions, the oldest first
SELECT id, hash, role, name, rights, token, person, created_at, expires_at, method, browser, opened_at, used_at, ended_at
FROM sessions ORDER BY created_at, id;

-- open_session(session_id: str, code_hash: str, secret_hash: str, now: int, until: int) -> bool: make a link a session.
--   False when it was opened or ended
UPDATE sessions SET hash = :secret_hash, opened_at = :now, expires_at = :until
WHERE id = :session_id AND hash = :code_hash AND opened_at IS NULL AND ended_at IS NULL RETURNING id;

-- touch_session(session_id: str, now: int, until: int) -> None: set when a session was last used, and when it ends
UPDATE sessions SET used_at = :now, expires_at = :until WHERE id = :session_id AND ended_at IS NULL;

-- end_sessions(session_id: str | None, token: str | None, person: str | None, now: int) -> list[str]: end the session, those
--   that came from the token, or those of the person. Returns the ids that ended
UPDATE sessions SET ended_at = :now
WHERE ended_at IS NULL AND expires_at > :now
  AND (id = CAST(:session_id AS text) OR token = CAST(:token AS text) OR person = CAST(:person AS text)) RETURNING id;

-- credential(kind: str, subject: str) -> Credential | None: one credential
SELECT kind, subject, person, hash, at FROM credentials WHERE kind = :kind AND subject = :subject;

-- credentials() -> list[Credential]: all credentials
SELECT kind, subject, person, hash, at FROM credentials ORDER BY kind, subject;

-- set_credential(credential: Credential) -> None: set a credential
INSERT INTO credentials (kind, subject, person, hash, at) VALUES (:kind, :subject, :person, :hash, :at)
ON CONFLICT (kind, subject) DO UPDATE SET person = excluded.person, hash = excluded.hash, at = excluded.at;

-- delete_credentials(person: str) -> None: delete what a person signs in with
DELETE FROM credentials WHERE person = :person AND kind IN ('password', 'provider');

-- delete_credential(kind: str, subject: str) -> None: delete one credential
DELETE FROM credentials WHERE kind = :kind AND subject = :subject;

-- insert_try(whose: str, now: int) -> None: count a try to sign in
INSERT INTO sign_in_tries (whose, at) VALUES (:whose, :now);

-- tries(whose: str, after: int) -> int: the number of tries after an instant
SELECT count(*) AS n FROM sign_in_tries WHERE whose = :whose AND at > :after;

-- delete_tries(whose: str | None, before: int) -> None: delete the tries of one, and those before an instant
DELETE FROM sign_in_tries WHERE whose = CAST(:whose AS text) OR at < :before;

-- delete_sessions(before: int) -> None: delete sessions that expired before an instant
DELETE FROM sessions WHERE expires_at < :before;

-- idempotent_request(principal: str, key: str) -> IdempotentRequest | None: a request with a key, and its response
SELECT digest, status, answer AS response, at FROM requests WHERE principal = :principal AND key = :key;

-- begin_request(principal: str, key: str, digest: str, now: int) -> bool: add a request that is being processed. False when
--   the request is being processed, or has a response
INSERT INTO requests (principal, key, digest, at) VALUES (:principal, :key, :digest, :now)
ON CONFLICT DO NOTHING RETURNING key;

-- store_response(principal: str, key: str, status: int, answer: str) -> None: set the response of a request
UPDATE requests SET status = :status, answer = :answer WHERE principal = :principal AND key = :key;

-- delete_request(principal: str, key: str) -> None: delete a request without a response, so that it can be repeated
DELETE FROM requests WHERE principal = :principal AND key = :key;

-- delete_requests(before: int) -> None: delete old requests
DELETE FROM requests WHERE at < :before;

-- chat_bots() -> list[ChatBot]: the bots of chat services
SELECT service, name, problem FROM chat_bots ORDER BY service;

-- set_chat_bot(bot: ChatBot) -> None: set what is known of a bot
INSERT INTO chat_bots (service, name, problem) VALUES (:service, :name, :problem)
ON CONFLICT (service) DO UPDATE SET name = excluded.name, problem = excluded.problem;

-- delete_chat_bot(service: str) -> None: forget a bot
DELETE FROM chat_bots WHERE service = :service;

-- insert_chat_link(link: ChatLink) -> None: add a code that links a person to a user of chat
INSERT INTO chat_links (hash, service, person, expires_at) VALUES (:hash, :service, :person, :expires_at);

-- take_chat_link(service: str, code_hash: str, now: int) -> str | None: use a code, once; the name of its person
DELETE FROM chat_links WHERE service = :service AND hash = :code_hash AND expires_at > :now RETURNING person;

-- delete_chat_links(service: str, person: str, now: int) -> None: delete the codes of a person, and those that expired
DELETE FROM chat_links WHERE (service = :service AND person = :person) OR expires_at <= :now;

-- rename_tokens(agent: str, name: str) -> list[str]: give the tokens of an agent another name. Returns their ids
UPDATE tokens SET name = :name WHERE role = 'agent' AND name = :agent RETURNING id;

-- rename_sessions(agent: str, name: str) -> None: give the browser sessions of an agent another name
UPDATE sessions SET name = :name WHERE role = 'agent' AND name = :agent;
