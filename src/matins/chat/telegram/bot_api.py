"""The calls of Telegram's Bot API that Matins makes, and the loop that asks for what was said."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import orjson

from matins.chat.service import ServiceError
from matins.engine.calls import mapping_of
from matins.net.outbound import EndableDeadline, HttpClient, Unreachable

log = logging.getLogger("matins")
URL = "https://api.telegram.org"
POLL_S = 50
"""How long Telegram may wait for something to be said."""
_TIMEOUT_S = 15
_MAX_BYTES = 16 << 20
_HEARD = ("message", "callback_query")
_MAX_UPDATES = 50
_MAX_ATTEMPTS = 5
"""How often a message is answered again when Telegram does not take the answer."""
_LATER_S = 2.0
_LONGEST_S = 30.0
TAKEN = "Another program reads the messages of this bot (409)."
WEBHOOK = "Telegram sends the messages of this bot to a webhook (409)."


class TelegramError(ServiceError):
    """Telegram refused a call, or did not answer. `after_s`: how long it wants to be left alone."""

    code = "telegram"

    def __init__(self, message: str, status: int = 0, *, retryable: bool = False, after_s: float = 0) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.after_s = after_s


class Bot(NamedTuple):
    id: str
    name: str
    """Without @."""


class BotApi:
    """Calls with the token of a bot, which is part of every address: no error shows more than the host."""

    def __init__(self, token: str, url: str | None) -> None:
        base = (url or URL).rstrip("/")
        self._base = f"{base}/bot{token}/"
        self._http = HttpClient([urlsplit(base).netloc], timeout_s=_TIMEOUT_S)
        self.bot: Bot | None = None
        """Who the bot is; None until it was asked."""

    def me(self) -> Bot:
        """Who the bot is, asked once."""
        if self.bot is None:
            found = mapping_of(self.call("getMe"))
            self.bot = Bot(str(found.get("id")), str(found.get("username")))
        return self.bot

    def call(self, method: str, deadline: EndableDeadline | None = None, /, **arguments: Any) -> Any:
        """The result of a method. Raises TelegramError."""
        body, headers = orjson.dumps(arguments), {"content-type": "application/json"}
        try:
            with self._http.open(
                "POST", self._base + method, deadline or EndableDeadline(_TIMEOUT_S), body=body, headers=headers,
                max_bytes=_MAX_BYTES,
            ) as reply:  # fmt: skip
                status, answer = reply.status, reply.read(_MAX_BYTES)
        except Unreachable as error:  # what may have arrived is not sent again
            raise TelegramError(error.message, retryable=not error.sent) from None
        try:
            document = mapping_of(orjson.loads(answer))
        except orjson.JSONDecodeError:
            raise TelegramError(f"Telegram answered {status}.", status, retryable=status >= 500) from None
        if document.get("ok") is True:
            return document.get("result")
        after = mapping_of(document.get("parameters")).get("retry_after")
        raise TelegramError(
            f"Telegram answered {status}: {str(document.get('description'))[:200]}.",
            status,
            retryable=status == 429 or status >= 500,
            after_s=float(after) if isinstance(after, int | float) else 0,
        )


Hear = Callable[[Mapping[str, Any]], "Future[ServiceError | None] | None"]


class Poller:
    """Asks for updates while this process `holds` the bot. Telegram keeps an update until a later one is asked for,
    which happens when it was answered: a kill loses nothing, and what was answered is known by its key."""

    def __init__(
        self, api: BotApi, hear: Hear, tell: Callable[[str | None], None], connected: Callable[[], None]
    ) -> None:
        """`tell` is called with a problem, and with None when it has ended; `connected` once, before the first poll."""
        self._api = api
        self._hear = hear
        self._tell = tell
        self._connected = connected
        self._offset = 0
        self._failed: dict[int, int] = {}
        """Attempts of updates that were not answered."""
        self._ending = threading.Event()
        self._waiting: EndableDeadline | None = None
        self._thread: threading.Thread | None = None

    def start(self, holds: Callable[[], bool]) -> None:
        self._thread = threading.Thread(target=self._run, args=(holds,), name="matins-telegram", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._waiting is not None:
            self._waiting.end()
        if self._thread is not None:
            self._thread.join()

    def _run(self, holds: Callable[[], bool]) -> None:
        later, problem, known = 0.0, "", False
        while not self._ending.wait(later):
            if not holds():
                later, known = _LATER_S, False
                continue
            try:
                if not known:
                    self._connected()
                    self._tell(problem or None)
                    known = True
                self._turn()
                later = 0.0
                if problem:
                    log.info("Telegram: all is well again.")
                    self._tell(None)
                problem = ""
            except TelegramError as error:
                if self._ending.is_set():
                    return
                later = max(error.after_s, min(_LONGEST_S, max(_LATER_S, later * 2)))
                found = _problem(error)
                if found != problem:
                    log.error("Telegram: %s Matins tries again.", found)
                    self._tell(found)
                problem = found
            except Exception:
                log.exception("Telegram: the messages could not be read. Matins tries again.")
                later = _LONGEST_S

    def _turn(self) -> None:
        """Ask for updates, and have them answered. Raises the error after which one of them is to be answered again."""
        self._waiting = waiting = EndableDeadline(POLL_S + _TIMEOUT_S)
        if self._ending.is_set():
            return
        found = self._api.call(
            "getUpdates", waiting, offset=self._offset, timeout=POLL_S, limit=_MAX_UPDATES, allowed_updates=_HEARD
        )
        updates = [mapping_of(update) for update in cast("list[Any]", found)] if isinstance(found, list) else []
        work = [(int(update["update_id"]), self._hear(update)) for update in updates]
        for number, future in work:
            error = None if future is None else future.result()
            if error is not None and not self._given_up(number, error):
                raise error
            self._offset = number + 1

    def _given_up(self, number: int, error: ServiceError) -> bool:
        self._failed[number] = self._failed.get(number, 0) + 1
        if self._failed[number] < _MAX_ATTEMPTS:
            return False
        del self._failed[number]
        log.error("Telegram: an update was not answered: %s", error)
        return True


def _problem(error: TelegramError) -> str:
    if error.status == 409:
        return WEBHOOK if "webhook" in error.message else TAKEN
    if error.status in (401, 404):
        return f"Telegram does not know the token ({error.status})."
    return error.message
