"""Socket Mode: Slack's messages over a connection that Matins opens, so that no address is public."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from matins.errors import MatinsError
from matins.surfaces.chat.slack.web_api import quiet_logger

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
