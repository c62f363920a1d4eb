"""Chat in the daemon: each service is started with its settings, and again when they change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from matins.chat.discord.chat import DiscordChat
from matins.chat.service import ChatService, subscription_of
from matins.chat.settings import Service
from matins.chat.slack.chat import SlackChat, SlackEndpoint
from matins.chat.telegram.chat import TelegramChat
from matins.chat.use_cases import ChatRecords
from matins.errors import MatinsError
from matins.surfaces.http.parts import DaemonPart, Scheduler
from matins.surfaces.http.router import Route

log = logging.getLogger("matins")
SERVICES: Mapping[Service, type[ChatService]] = {"slack": SlackChat, "telegram": TelegramChat, "discord": DiscordChat}
_CHANGES = ("policy.set", "policy.deleted")


class ChatHost(DaemonPart):
    """Holds the chats of the present settings. A chat that cannot start is logged, and stops nothing else."""

    def __init__(self, matins: Scheduler, url: str | None) -> None:
        """`url` is the address of the page, for links."""
        self._matins = matins
        self._url = url
        self._chats: dict[Service, ChatService] = {}
        self._lock = threading.Lock()
        self._unsubscribe: Callable[[], None] = lambda: None

    def inbound_routes(self, pool: Executor) -> list[Route]:
        return [Route("POST", "/chat/slack", SlackEndpoint(self.slack, pool))]

    def start(self) -> None:
        for service in SERVICES:
            self._restart(service)
        self._unsubscribe = self._matins.subscribe(self._changed, _CHANGES)

    def stop(self) -> None:
        self._unsubscribe()
        with self._lock:
            for service in SERVICES:
                self._end(service)

    def chat(self, service: Service) -> ChatService | None:
        return self._chats.get(service)

    def slack(self) -> SlackChat | None:
        chat = self.chat("slack")
        return chat if isinstance(chat, SlackChat) else None

    def _changed(self, event: dict[str, Any]) -> None:
        if event["data"].get("kind") == "chat" and (service := event["data"]["name"]) in SERVICES:
            # Not in the thread of the outbox, which the end of a subscription waits for.
            threading.Thread(target=self._restart, args=(service,), name="matins-chat-restart", daemon=True).start()

    def _restart(self, service: Service) -> None:
        with self._lock:
            self._end(service)
            records = ChatRecords(self._matins, self._matins.store, self._matins.clock, service)
            app = records.app()
            if app is None:
                # A later chat does not say what happened until then.
                self._matins.subscriptions.delete(subscription_of(service))
                records.delete_bot()
                return
            kind = SERVICES[service]
            try:
                chat = kind(app, records, lambda: self._url)
                chat.start(self._matins)
                self._chats[service] = chat
            except MatinsError as error:
                why = f"{error.message} {error.hint or ''}".strip()
                log.error("%s is not connected: %s", kind.manner.title, why)
                records.set_bot(None, f"It is not connected: {why}")

    def _end(self, service: Service) -> None:
        chat = self._chats.pop(service, None)
        if chat is not None:
            chat.stop()
