"""The calls of Discord's REST API that Matins makes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import orjson

from matins.chat.service import ServiceError
from matins.engine.calls import mapping_of
from matins.net.outbound import HttpClient, Unreachable

URL = "https://discord.com/api/v10"
_TIMEOUT_S = 10
_MAX_WAIT_S, _MAX_WAITS = 5.0, 3
"""How long, and how often, a call waits that came too early."""
_THREADS = (10, 11, 12)
"""Types of channels that are threads."""
_MAX_KNOWN = 10_000
UNKNOWN_TOKEN = "Discord does not know the token (401)."


class DiscordError(ServiceError):
    """Discord refused a call, or did not answer."""

    code = "discord"

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Bot(NamedTuple):
    id: str
    name: str


class DiscordApi:
    """Calls with the token of a bot. What it posts mentions nobody, whatever the text says."""

    def __init__(self, token: str, url: str | None) -> None:
        self.base = (url or URL).rstrip("/")
        self._headers = {"authorization": f"Bot {token}", "content-type": "application/json"}
        self._http = HttpClient([urlsplit(self.base).netloc], timeout_s=_TIMEOUT_S)
        self._bot: Bot | None = None
        self._parents: dict[str, str | None] = {}
        self._ending = threading.Event()

    def stop(self) -> None:
        """Let no call wait any longer."""
        self._ending.set()

    def me(self) -> Bot:
        """Who the bot is, asked once."""
        if self._bot is None:
            found = mapping_of(self.call("GET", "/users/@me"))
            self._bot = Bot(str(found.get("id")), str(found.get("username")))
        return self._bot

    def application(self) -> str:
        """The id of the bot's application, which is not always that of its user."""
        return str(mapping_of(self.call("GET", "/applications/@me")).get("id"))

    def parent(self, channel: str) -> str | None:
        """The channel that a thread belongs to; None for a channel that is no thread. That never changes."""
        if channel not in self._parents:
            found = mapping_of(self.call("GET", f"/channels/{channel}"))
            parent = found.get("parent_id") if found.get("type") in _THREADS else None
            if len(self._parents) >= _MAX_KNOWN:
                self._parents.clear()
            self._parents[channel] = None if parent is None else str(parent)
        return self._parents[channel]

    def is_thread(self, message: str) -> bool:
        """Whether people have opened a thread on a message: it has the id of the message."""
        try:
            return self.parent(message) is not None
        except DiscordError as error:
            if error.status not in (403, 404):
                raise
            return False

    def post(self, channel: str, content: Mapping[str, Any], reply_to: str | None = None) -> str:
        """Post a message, and return its id. A message that was deleted meanwhile is no longer replied to."""
        given = {} if reply_to is None else {"message_reference": {"message_id": reply_to, "fail_if_not_exists": False}}
        return _id_of(self.call("POST", f"/channels/{channel}/messages", {**content, **given}))

    def edit(self, channel: str, message: str, content: Mapping[str, Any]) -> None:
        self.call("PATCH", f"/channels/{channel}/messages/{message}", content)

    def acknowledge(self, interaction: str, token: str, kind: int, *, flags: int = 0) -> str:
        """Tell Discord, which waits three seconds, that a click or a command was heard. The id of the message that will
        be its answer; empty for one of a click."""
        path = f"/interactions/{interaction}/{token}/callback?with_response=true"
        made = mapping_of(self.call("POST", path, {"type": kind, "data": {"flags": flags}}))
        return str(mapping_of(made.get("interaction")).get("response_message_id") or "")

    def answer(self, application: str, token: str, content: Mapping[str, Any]) -> str:
        """Fill the answer to a command, and return its id."""
        return _id_of(self.call("PATCH", f"/webhooks/{application}/{token}/messages/@original", content))

    def add_answer(self, application: str, token: str, content: Mapping[str, Any]) -> None:
        """Say something that only the user of a click or command sees."""
        self.call("POST", f"/webhooks/{application}/{token}", {**content, "flags": PRIVATE})

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The document that Discord answers. Raises DiscordError."""
        data, waited = b"" if body is None else orjson.dumps(body), 0
        while True:
            try:
                reply = self._http.send(method, f"{self.base}{path}", body=data, headers=self._headers)
            except Unreachable as error:
                raise DiscordError(error.message) from None
            found = _document(reply.body)
            if 200 <= reply.status < 300:
                return found
            wait: object = mapping_of(found).get("retry_after")
            short = isinstance(wait, int | float) and 0 <= wait <= _MAX_WAIT_S and waited < _MAX_WAITS
            if reply.status != 429 or not short or self._ending.wait(cast("float", wait)):
                break
            waited += 1
        if reply.status == 401:
            raise DiscordError(UNKNOWN_TOKEN, 401)
        reason = str(mapping_of(found).get("message", ""))[:200].rstrip(".")
        raise DiscordError(f"Discord answered {reply.status}{f': {reason}' if reason else ''}.", reply.status)


PRIVATE = 64
"""The flag of an answer that only one user sees."""


def _document(body: bytes) -> Any:
    try:
        return orjson.loads(body or b"{}")
    except orjson.JSONDecodeError:  # a proxy on the way
        return {}


def _id_of(message: Any) -> str:
    return str(mapping_of(message).get("id"))
