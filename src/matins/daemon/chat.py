"""Chat in the daemon: started with its settings, and again when they change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from matins.errors import MatinsError
from matins.service.chat import ChatRecords
from matins.surfaces.chat.slack.chat import SUBSCRIPTION, SlackChat
from matins.surfaces.http.chat import PATH, ChatEndpoint
from matins.surfaces.http.parts import DaemonPart, Scheduler
from matins.surfaces.http.router import Route

log = logging.getLogger("matins")
_CHANGES = ("policy.set", "policy.deleted")


class ChatHost(DaemonPart):
    """Holds the chat of the present settings. A chat that cannot start is logged, and stops nothing else."""

    def __init__(self, matins: Scheduler, url: str | None) -> None:
        """`url` is the address of the page, for links."""
        self._matins = matins
        self._url = url
        self._records = ChatRecords(matins, matins.store, matins.clock)
        self._chat: SlackChat | None = None
        self._lock = threading.Lock()
        self._unsubscribe: Callable[[], None] = lambda: None

    def inbound_routes(self, pool: Executor) -> list[Route]:
        return [Route("POST", PATH, ChatEndpoint(self.chat, pool))]

    def start(self) -> None:
        self._restart()
        self._unsubscribe = self._matins.subscribe(self._changed, _CHANGES)

    def stop(self) -> None:
        self._unsubscribe()
        with self._lock:
            self._end()

    def chat(self) -> SlackChat | None:
        return self._chat

    def _changed(self, event: dict[str, Any]) -> None:
        if event["data"].get("kind") == "chat":
            # Not in the thread of the outbox, which the end of a subscription waits for.
            threading.Thread(target=self._restart, name="matins-chat-restart", daemon=True).start()

    def _restart(self) -> None:
        with self._lock:
            self._end()
            app = self._records.app()
            if app is None:
                # A later chat does not say what happened until then.
                self._matins.subscriptions.delete(SUBSCRIPTION)
                return
            try:
                chat = SlackChat(app, self._records, lambda: self._url)
                chat.start(self._matins.subscribe)
                self._chat = chat
            except MatinsError as error:
                log.error("Slack is not connected: %s", f"{error.message} {error.hint or ''}".strip())

    def _end(self) -> None:
        if self._chat is not None:
            self._chat.stop()
            self._chat = None
