"""What Matins says in Slack by itself: answers of runs, cards, and notes to the admin channel."""

from __future__ import annotations

import re
from typing import Any

from matins.engine.events import PIPELINE_EVENTS, PREFIX
from matins.model.chat import ChatApp
from matins.service.chat import Answer, ChatRecords
from matins.surfaces.chat.dialogue import Place
from matins.surfaces.chat.messages import Message, Text
from matins.surfaces.chat.slack.cards import Cards
from matins.surfaces.chat.slack.web_api import WebApi
from matins.surfaces.display import without_codes

_DECIDED = (
    "approval.voted", "approval.approved", "approval.denied", "approval.expired", "approval.used", "approval.voided",
)  # fmt: skip
TYPES = (*sorted(PIPELINE_EVENTS), "run.skipped", "approval.requested", "approval.edited", *_DECIDED, "file.applied")
MAX_ANSWER = 3_000
"""Longer answers are files."""
_SHOWN = 500
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{5,}")
"""The ids of channels, direct messages and private channels."""
_RELOADED = "arrows_counterclockwise"


class Announcements:
    """Called with every event of its types, at least once. What was said is not said again."""

    def __init__(self, app: ChatApp, records: ChatRecords, api: WebApi, cards: Cards) -> None:
        self._app = app
        self._records = records
        self._api = api
        self._cards = cards

    def __call__(self, event: dict[str, Any]) -> None:
        kind, data = str(event["type"]).removeprefix(PREFIX), event["data"]
        if kind == "file.applied":
            self._note(event["id"], str(data.get("note", "")), emoji=_RELOADED)
        elif kind in ("approval.requested", "approval.edited"):
            self._cards.post(data["approval"])
            if "instead_of" in data:
                self._cards.update(data["instead_of"])
        elif kind in _DECIDED:
            self._cards.update(data["approval"])
        else:
            self._end(int(event["runid"]), kind, data)

    def _end(self, run_id: int, kind: str, data: dict[str, Any]) -> None:
        if kind == "run.skipped" and data.get("reason") != "target_gone":
            return
        answer = self._records.answer(run_id)
        if answer is None:
            return
        place = self._place(answer)
        if kind == "run.skipped":
            self._skipped(answer)
        elif place is not None:
            self._answer(answer, place)

    def _place(self, answer: Answer) -> Place | None:
        """Where the answer belongs: the place of its thread, or its channel; None when it is not in this workspace."""
        team = self._api.whoami().team
        if answer.place is not None:
            place = Place.of(answer.place)
            return place if place is not None and place.team == team else None
        if answer.channel is None or not _CHANNEL.fullmatch(answer.channel):
            return None
        return Place(team, answer.channel, "")

    def _answer(self, answer: Answer, place: Place) -> None:
        """Post the answer. The first one of a thread begins the thread in Slack."""
        subject, thread = f"run:{answer.run_id}", place.thread
        body = without_codes(answer.text or "").strip()
        if answer.state != "succeeded":
            body = f"✗ {answer.schedule}: {answer.reason}"
        posts = self._records.posts(subject)
        if not posts and body:
            shown = body if len(body) <= MAX_ANSWER else f"{body[:_SHOWN]}…\n(The whole answer is the file below.)"
            ts = self._api.post(place.channel, Message((Text(shown),)), thread or None)
            self._records.add_post(subject, place.channel, ts)
            thread = thread or ts
        elif posts:
            thread = thread or posts[0].ts
        if answer.thread_id is not None and thread:
            self._records.set_place(answer.thread_id, place._replace(thread=thread).id)
        if len(body) > MAX_ANSWER and thread:
            self._attach(answer, place.channel, thread, body)

    def _attach(self, answer: Answer, channel: str, thread: str, body: str) -> None:
        subject = f"file:{answer.run_id}"
        if not self._records.posts(subject):
            self._api.upload(channel, thread, f"run-{answer.run_id}.txt", body)
            self._records.add_post(subject, channel, thread)

    def _skipped(self, answer: Answer) -> None:
        """One line about a run whose target is gone, in its channel, or in the admin channel."""
        channel = answer.channel if answer.channel and _CHANNEL.fullmatch(answer.channel) else None
        self._note(f"run:{answer.run_id}", answer.reason, channel=channel)

    def _note(self, subject: str, note: str, *, channel: str | None = None, emoji: str = "") -> None:
        where = channel or self._app.admin
        if where is None or not note or self._records.posts(subject):
            return
        self._records.add_post(subject, where, self._api.post_note(where, note, emoji=emoji))
