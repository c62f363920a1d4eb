-- Drafts, posted messages, and the places of threads.

-- draft(place: str, person: str) -> DraftRow | None: the draft of a person at a place
SELECT place, person, draft, expires_at FROM chat_drafts WHERE place = :place AND person = :person;

-- draft_place(before: str, person: str, now: int) -> str | None: the place of a person's newest draft, of those that begin so
SELECT place FROM chat_drafts WHERE person = :person AND substr(place, 1, length(:before)) = :before AND expires_at > :now
ORDER BY expires_at DESC LIMIT 1;

-- upsert_draft(draft: DraftRow) -> None: set a draft
INSERT INTO chat_drafts (place, person, draft, expires_at) VALUES (:place, :person, :draft, :expires_at)
ON CONFLICT (place, person) DO UPDATE SET draft = excluded.draft, expires_at = excluded.expires_at;

-- delete_draft(place: str, person: str) -> bool: delete a draft
DELETE FROM chat_drafts WHERE place = :place AND person = :person RETURNING place;

-- delete_drafts(before: int) -> None: delete the drafts that expired before an instant
DELETE FROM chat_drafts WHERE expires_at < :before;

-- insert_post(post: ChatPost) -> None: remember a posted message
INSERT INTO chat_posts (service, subject, channel, ts, digest, via, at)
VALUES (:service, :subject, :channel, :ts, :digest, :via, :at) ON CONFLICT (service, subject, channel, ts) DO NOTHING;

-- posts(service: str, subject: str) -> list[ChatPost]: the messages about a subject
SELECT service, subject, channel, ts, digest, via, at FROM chat_posts WHERE service = :service AND subject = :subject
ORDER BY channel, ts;

-- subject_at(service: str, channel: str, ts: str, pattern: str) -> str | None: what a posted message is about
SELECT subject FROM chat_posts WHERE service = :service AND channel = :channel AND ts = :ts AND subject LIKE :pattern LIMIT 1;

-- set_post(post: ChatPost) -> None: set the digest and the person of a post
UPDATE chat_posts SET digest = :digest, via = :via
WHERE service = :service AND subject = :subject AND channel = :channel AND ts = :ts;

-- delete_posts(before: int) -> None: delete old posts
DELETE FROM chat_posts WHERE at < :before;

-- set_place(thread_id: int, place: str) -> None: set the place of a thread
INSERT INTO chat_threads (thread_id, place) VALUES (:thread_id, :place)
ON CONFLICT (thread_id) DO UPDATE SET place = excluded.place;

-- thread_at(place: str) -> int | None: the newest thread at a place
SELECT thread_id FROM chat_threads WHERE place = :place ORDER BY thread_id DESC LIMIT 1;
