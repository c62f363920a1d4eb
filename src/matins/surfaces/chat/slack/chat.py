"""Slack as a whole: what arrives is accepted at once and answered by workers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol
from zlib import crc32

from matins.errors import InvalidInput, MatinsError
from matins.model.chat import ChatApp
from matins.net.inbound import Delivery, verify_slack
from matins.service.chat import ChatRecords
from matins.surfaces.chat.dialogue import Dialogue
from matins.surfaces.chat.drafts import Clock
from matins.surfaces.chat.slack.announcements import TYPES, Announcements
from matins.surfaces.chat.slack.cards import Cards
from matins.surfaces.chat.slack.conversation import Conversation, draft_errors
from matins.surfaces.chat.slack.payloads import Heard, heard
from matins.surfaces.chat.slack.socket_mode import SocketMode
from matins.surfaces.chat.slack.web_api import WebApi

log = logging.getLogger("matins")
SUBSCRIPTION = "chat:slack"
_WORKERS = 4
_MAX_WAITING = 1_000


class Subscribe(Protocol):
    def __call__(
        self, callback: Callable[[dict[str, Any]], Any], types: tuple[str, ...], name: str
    ) -> Callable[[], None]: ...


class SlackChat:
    """The chat of one Slack app. Slack's silence delays nothing: its calls are made by workers and by the outbox."""

    def __init__(self, app: ChatApp, records: ChatRecords, url: Callable[[], str | None]) -> None:
        secrets = records.secrets(app)
        self._secret = secrets.signing_secret
        self._records = records
        self.api = WebApi(secrets.bot_token, app.url, records.clock)
        dialogue = Dialogue(records, url)
        cards = Cards(app, records, self.api, dialogue)
        self._conversation = Conversation(app, records, self.api, dialogue, cards)
        self.announcements = Announcements(app, records, self.api, cards)
        token = secrets.app_token
        self._socket = None if token is None else SocketMode(token, self.api.client, self.accept)
        self._workers = [ThreadPoolExecutor(1, f"matins-slack-{number}") for number in range(_WORKERS)]
        self._free = threading.BoundedSemaphore(_MAX_WAITING)
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self, subscribe: Subscribe) -> None:
        self._unsubscribe = subscribe(self.announcements, TYPES, SUBSCRIPTION)
        if self._socket is not None:
            self._socket.start()

    def stop(self) -> None:
        """Stop listening, and finish what was accepted."""
        self._unsubscribe()
        if self._socket is not None:
            self._socket.stop()
        for worker in self._workers:
            worker.shutdown()

    def is_signed(self, delivery: Delivery) -> bool:
        """Whether Slack sent a request over HTTP, within five minutes."""
        now_s = self._records.clock.now_ms() // 1000
        return self._secret is not None and verify_slack(self._secret, delivery, now_s)

    def accept(self, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take in what Slack sent, once, and return the body of the acknowledgement. The work follows."""
        found = heard(payload)
        if found is None:
            return None
        if wrong := draft_errors(found, self._clock()):
            return {"response_action": "errors", "errors": wrong}
        if not self._free.acquire(blocking=False):
            raise InvalidInput("Too many messages wait.", field="chat", hint="Slack sends it again.")
        if self._records.accept(found.key):
            self._worker(found).submit(self._work, found)
        else:
            self._free.release()
        return None

    def _clock(self) -> Clock:
        return Clock(self._records.clock.now_ms(), self._records.clock.local_zone())

    def _worker(self, found: Heard) -> ThreadPoolExecutor:
        """One worker for each channel, so that messages of a dialogue are answered in their order."""
        return self._workers[crc32(found.channel.encode(errors="replace")) % _WORKERS]

    def _work(self, found: Heard) -> None:
        try:
            self._conversation.handle(found)
        except MatinsError as error:
            log.error("Slack: a %s was not answered: %s", found.kind, error)
        except Exception:
            log.exception("Slack: a %s was not answered.", found.kind)
        finally:
            self._free.release()
