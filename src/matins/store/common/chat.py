"""Drafts, posted messages and the places of threads, in SQL that both stores share."""

from __future__ import annotations

from matins.model.chat import ChatPost, DraftRow
from matins.store.common.statements import Statements


class ChatQueries(Statements):
    def draft(self, place: str, person: str) -> DraftRow | None:
        return self._row(DraftRow, "draft", place=place, person=person)

    def upsert_draft(self, draft: DraftRow) -> None:
        self._all("upsert_draft", **draft._asdict())

    def delete_draft(self, place: str, person: str) -> bool:
        return bool(self._all("delete_draft", place=place, person=person))

    def delete_drafts(self, before: int) -> None:
        self._all("delete_drafts", before=before)

    def insert_post(self, post: ChatPost) -> None:
        self._all("insert_post", **post._asdict())

    def posts(self, subject: str) -> list[ChatPost]:
        return self._rows(ChatPost, "posts", subject=subject)

    def set_post(self, post: ChatPost) -> None:
        values = {name: value for name, value in post._asdict().items() if name != "at"}
        self._all("set_post", **values)

    def delete_posts(self, before: int) -> None:
        self._all("delete_posts", before=before)

    def set_place(self, thread_id: int, place: str) -> None:
        self._all("set_place", thread_id=thread_id, place=place)

    def place_of(self, thread_id: int) -> str | None:
        return self._value("place_of", thread_id=thread_id)

    def thread_at(self, place: str) -> int | None:
        return self._value("thread_at", place=place)

    def last_run_in(self, thread_id: int) -> int | None:
        return self._value("last_run_in", thread_id=thread_id)
