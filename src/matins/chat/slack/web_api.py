"""The calls of Slack's Web API that Matins makes.

Socket Mode: Slack's messages over a connection that Matins opens, so that no address is public.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, cast

from matins.chat.messages import ChatMessage
from matins.chat.service import ServiceError
from matins.chat.slack.rendering import escape, render
from matins.errors import InvalidInput, MatinsError

URL = "https://slack.com/api/"
TIMEOUT_S = 10
_USERS_KEPT_MS = 300_000


class SlackError(ServiceError):
    """Slack refused a call, or did not answer."""

    code = "slack"


class Self(NamedTuple):
    """Who the bot is."""

    team: str
    user: str


class _Clock(Protocol):
    def boot_ms(self) -> int: ...


class WebApi:
    """Calls with the bot's token. Nothing is unfurled, and no name in a text becomes a mention."""

    def __init__(self, token: str, url: str | None, clock: _Clock) -> None:
        self.client = _client(token, url)
        self._clock = clock
        self._self: Self | None = None
        self._users: dict[str, tuple[int, bool]] = {}
        self._lock = threading.Lock()

    def whoami(self) -> Self:
        """The workspace and the user of the bot, asked once."""
        if self._self is None:
            found = self._call("auth_test")
            self._self = Self(str(found["team_id"]), str(found["user_id"]))
        return self._self

    def is_member(self, user: str) -> bool:
        """Whether the user is a full member of the bot's workspace: no guest, no bot, nobody who left."""
        now = self._clock.boot_ms()
        with self._lock:
            known = self._users.get(user)
        if known is not None and known[0] > now:
            return known[1]
        found: dict[str, Any] = self._call("users_info", user=user).get("user") or {}
        refused = ("is_bot", "is_restricted", "is_ultra_restricted", "is_stranger", "deleted")
        member = found.get("team_id") == self.whoami().team and not any(found.get(name) for name in refused)
        with self._lock:
            self._users[user] = now + _USERS_KEPT_MS, member
        return member

    def post(self, channel: str, message: ChatMessage, thread: str | None = None) -> str:
        """Post a message, and return its timestamp, which is its id."""
        return self._post(channel, thread, **render(message))

    def post_note(self, channel: str, note: str, *, emoji: str = "") -> str:
        """Post one line. `emoji` is ours; the note is escaped."""
        return self._post(channel, None, text=f":{emoji}: {escape(note)}" if emoji else escape(note))

    def _post(self, channel: str, thread: str | None, **content: Any) -> str:
        given = {"thread_ts": thread} if thread else {}
        quiet = {"link_names": False, "unfurl_links": False, "unfurl_media": False}
        return str(self._call("chat_postMessage", channel=channel, **given, **quiet, **content)["ts"])

    def whisper(self, channel: str, user: str, message: ChatMessage, thread: str | None = None) -> None:
        """Post a message that only one user sees."""
        given = {"thread_ts": thread} if thread else {}
        self._call("chat_postEphemeral", channel=channel, user=user, link_names=False, **given, **render(message))

    def update(self, channel: str, ts: str, message: ChatMessage) -> None:
        self._call("chat_update", channel=channel, ts=ts, link_names=False, **render(message))

    def open_modal(self, trigger: str, view: dict[str, Any]) -> None:
        self._call("views_open", trigger_id=trigger, view=view)

    def join(self, channel: str, thread: str, ts: str) -> None:
        """Do nothing: a reply in Slack names its thread."""

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method by the name that the SDK has for it: reading methods take forms, writing ones JSON."""
        from slack_sdk.errors import SlackApiError, SlackClientError

        try:
            return cast("dict[str, Any]", getattr(self.client, method)(**arguments).data)
        except SlackApiError as error:
            response: Any = error.response
            raise SlackError(f"Slack refused the call: {response.get('error')}.") from None
        except (SlackClientError, OSError) as error:
            raise SlackError(f"Slack does not answer: {type(error).__name__}.") from None


def _client(token: str, url: str | None) -> Any:
    try:
        from slack_sdk import WebClient
        from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
    except ModuleNotFoundError as error:
        hint = 'pip install "matins[slack]"'
        raise InvalidInput(f"Slack needs the package {error.name}, which is not installed.", hint=hint) from error
    base = (url or URL).rstrip("/") + "/"
    return WebClient(
        token, base_url=base, timeout=TIMEOUT_S, retry_handlers=[RateLimitErrorRetryHandler()], logger=quiet_logger()
    )


def quiet_logger() -> logging.Logger:
    """A logger for the SDK. Its errors are raised too, and Matins logs them once."""
    logger = logging.getLogger("matins.slack")
    logger.setLevel(logging.CRITICAL)
    return logger


log = logging.getLogger("matins")
PING_S = 5.0
"""How often the connection is checked; one that is gone is opened again."""
_RETRY_S = 10.0
_TYPES = ("events_api", "slash_commands", "interactive")
Accept = Callable[[Mapping[str, Any]], dict[str, Any] | None]


class SocketMode:
    """A connection that is opened again when it ends. An envelope is acknowledged as soon as it is accepted."""

    def __init__(self, token: str, web_client: Any, accept: Accept) -> None:
        self._token = token
        self._web_client = web_client
        self._accept = accept
        self._client: Any = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._connect, name="matins-slack-socket", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        if self._client is not None:
            self._client.close()

    def _connect(self) -> None:
        """Open the first connection, however long Slack is away. The client opens the later ones."""
        from slack_sdk.socket_mode import SocketModeClient

        self._client = SocketModeClient(
            self._token, logger=quiet_logger(), web_client=self._web_client, ping_interval=PING_S, concurrency=2
        )
        self._client.socket_mode_request_listeners.append(self._heard)
        told = False
        while not self._ending.is_set():
            try:
                self._client.connect()
                log.info("Slack: connected.")
                return
            except Exception as error:
                if not told:
                    log.warning("Slack: no connection (%s). Matins tries again.", type(error).__name__)
                told = True
            self._ending.wait(_RETRY_S)

    def _heard(self, client: Any, request: Any) -> None:
        from slack_sdk.socket_mode.response import SocketModeResponse

        body = None
        if request.type in _TYPES:
            try:
                body = self._accept(request.payload)
            except MatinsError as error:  # not acknowledged: Slack sends it again
                log.error("Slack: an envelope was not accepted: %s", error)
                return
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id, payload=body))
