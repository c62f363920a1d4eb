"""aiosmtpd, a real SMTP server, on a port of its own."""

from __future__ import annotations

import asyncio
import email
import email.policy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiosmtpd.controller import Controller


class Mails:
    """What the server took. `cut_off`: it takes a message, and its confirmation is lost. `unknown`: recipients that it
    refuses. `released` is cleared to let confirmations wait."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.answer = "250 OK"
        self.cut_off = False
        self.unknown = set[str]()
        self.farewell = "221 Bye"
        self.arrived = threading.Semaphore(0)
        self.released = threading.Event()
        self.released.set()

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, to: str, options: Any) -> str:  # noqa: N802
        if to in self.unknown:
            return f"550 {to} is unknown"
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        return self.farewell

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - the name of aiosmtpd
        self.taken.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content, policy=email.policy.default)))
        self.arrived.release()
        await asyncio.to_thread(self.released.wait, 60)
        if self.cut_off:
            server.transport.abort()
        return self.answer


class _Server(Controller):
    """It chooses its port itself."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        super()._trigger_server()


@contextmanager
def open_mails() -> Iterator[tuple[Mails, int]]:
    handler = Mails()
    controller = _Server(handler, hostname="127.0.0.1", port=0)
    controller.start()
    try:
        yield handler, controller.port
    finally:
        controller.stop()
