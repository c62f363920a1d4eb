"""Cards of approvals in Slack: posted once, and updated wherever the decision was made."""

from __future__ import annotations

from matins.api.results import Approval
from matins.api.schedules import Api
from matins.errors import NotFound
from matins.model.chat import ChatApp
from matins.service.chat import ChatRecords
from matins.surfaces.chat.approval_cards import subject_of
from matins.surfaces.chat.dialogue import Dialogue
from matins.surfaces.chat.slack.web_api import WebApi
from matins.surfaces.transports.in_process import InProcess


class Cards:
    def __init__(self, app: ChatApp, records: ChatRecords, api: WebApi, dialogue: Dialogue) -> None:
        self._app = app
        self._records = records
        self._api = api
        self._dialogue = dialogue

    def post(self, approval_id: str) -> None:
        """Post the card of an open request to the admin channel, once."""
        asked, subject = self._approval(approval_id), subject_of(approval_id)
        if self._app.admin is None or asked is None or asked.state != "pending" or self._records.posts(subject):
            return
        ts = self._api.post(self._app.admin, self._dialogue.card(asked, self._zone))
        self._records.add_post(subject, self._app.admin, ts, asked.digest)

    def update(self, approval_id: str) -> None:
        """Show the state of a request on each of its cards."""
        asked = self._approval(approval_id)
        posts = [] if asked is None else self._records.posts(subject_of(approval_id))
        via = next((post.via for post in posts if post.via), None)
        for post in posts:
            if asked is not None and post.digest is not None:
                self._api.update(post.channel, post.ts, self._dialogue.card(asked, self._zone, via))

    def answered(self, approval_id: str, channel: str, ts: str, person: str) -> None:
        """Remember that the request was answered on a card, and say so on all of them."""
        for post in self._records.posts(subject_of(approval_id)):
            if (post.channel, post.ts) == (channel, ts):
                self._records.set_post(post._replace(via=person))
        self.update(approval_id)

    def replace(self, approval_id: str, channel: str, ts: str) -> None:
        """Show the request that replaced an older one on the card of the older one."""
        old = self._approval(approval_id)
        newer = None if old is None else self._newer(old)
        if newer is None:
            return
        subject = subject_of(newer.id)
        if (channel, ts) not in [(post.channel, post.ts) for post in self._records.posts(subject)]:
            self._records.add_post(subject, channel, ts, newer.digest)
        for post in self._records.posts(subject_of(approval_id)):  # the card is no longer about the older one
            if (post.channel, post.ts) == (channel, ts) and newer.id != approval_id:
                self._records.set_post(post._replace(digest=None))
        self._api.update(channel, ts, self._dialogue.card(newer, self._zone))

    def _newer(self, old: Approval) -> Approval | None:
        """The open request about the same subject: itself, where its digest changed."""
        same = [
            asked
            for asked in self._of_owner().approvals.list(limit=1_000)
            if (asked.kind, asked.schedule_id, asked.run_id) == (old.kind, old.schedule_id, old.run_id)
        ]
        return same[-1] if same else None

    def _approval(self, approval_id: str) -> Approval | None:
        try:
            return self._of_owner().approvals.get(approval_id)
        except NotFound:  # its history was pruned
            return None

    def _of_owner(self) -> Api:
        return Api(InProcess(self._records.caller))

    @property
    def _zone(self) -> str:
        return self._records.clock.local_zone()
