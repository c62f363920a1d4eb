"""Methods made from the headers of the `.sql` files by `make pages`. Do not edit."""

from __future__ import annotations

from matins.chat.rows import ChatPost, DraftRow
from matins.store.queries import SliceStatements


class ChatRows(SliceStatements):
    """Drafts, posted messages, and the places of threads."""

    def draft(self, place: str, person: str) -> DraftRow | None:
        """The draft of a person at a place."""
        return self._row(DraftRow, "draft", place=place, person=person)

    def draft_place(self, before: str, person: str, now: int) -> str | None:
        """The place of a person's newest draft, of those that begin so."""
        return self._value("draft_place", before=before, person=person, now=now)

    def upsert_draft(self, draft: DraftRow) -> None:
        """Set a draft."""
        self._all(
            "upsert_draft", place=draft.place, person=draft.person, draft=draft.draft, expires_at=draft.expires_at
        )

    def delete_draft(self, place: str, person: str) -> bool:
        """Delete a draft."""
        return bool(self._all("delete_draft", place=place, person=person))

    def delete_drafts(self, before: int) -> None:
        """Delete the drafts that expired before an instant."""
        self._all("delete_drafts", before=before)

    def insert_post(self, post: ChatPost) -> None:
        """Remember a posted message."""
        self._all(
            "insert_post",
            service=post.service,
            subject=post.subject,
            channel=post.channel,
            ts=post.ts,
            digest=post.digest,
            via=post.via,
            at=post.at,
        )

    def posts(self, service: str, subject: str) -> list[ChatPost]:
        """The messages about a subject."""
        return self._rows(ChatPost, "posts", service=service, subject=subject)

    def subject_at(self, service: str, channel: str, ts: str, pattern: str) -> str | None:
        """What a posted message is about."""
        return self._value("subject_at", service=service, channel=channel, ts=ts, pattern=pattern)

    def set_post(self, post: ChatPost) -> None:
        """Set the digest and the person of a post."""
        self._all(
            "set_post",
            service=post.service,
            subject=post.subject,
            channel=post.channel,
            ts=post.ts,
            digest=post.digest,
            via=post.via,
        )

    def delete_posts(self, before: int) -> None:
        """Delete old posts."""
        self._all("delete_posts", before=before)

    def set_place(self, thread_id: int, place: str) -> None:
        """Set the place of a thread."""
        self._all("set_place", thread_id=thread_id, place=place)

    def thread_at(self, place: str) -> int | None:
        """The newest thread at a place."""
        return self._value("thread_at", place=place)
