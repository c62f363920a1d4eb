"""ntfy: a message to a topic, on ntfy.sh or a server of your own."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.notices import Message
from matins.errors import Example, InvalidInput
from matins.executors.destinations.protocol import Address, DestinationKind, post, text_of
from matins.model.destination import Destination

_SERVER = "https://ntfy.sh"
_MAX_BYTES = 3_900
"""ntfy turns longer messages into attachments."""
_PRIORITIES = {"bad": 4, "good": 3, "info": 3}
_TAGS = {"bad": "x", "good": "white_check_mark", "info": "information_source"}


def send_to_ntfy(address: Address, message: Message) -> None:
    """Publish as JSON: titles in headers would have to be ASCII."""
    text = text_of(message).encode()[:_MAX_BYTES].decode("utf-8", "ignore")
    body: dict[str, Any] = {
        "topic": address.to[0],
        "title": message.title,
        "message": text,
        "priority": _PRIORITIES[message.level],
        "tags": [_TAGS[message.level]],
    }
    if message.link:
        body["click"] = message.link
    headers = {"content-type": "application/json"}
    if token := address.token:
        headers["authorization"] = f"Bearer {token}"
    post(address.url or _SERVER, orjson.dumps(body), headers)


def check_ntfy(destination: Destination) -> None:
    if len(destination.to) != 1:
        hint = Example({"to": ["env:NTFY_TOPIC"]})
        raise InvalidInput('ntfy needs one topic in "to".', value=list(destination.to), field="to", hint=hint)


NTFY = DestinationKind(
    "ntfy",
    "ntfy, a topic (to) on ntfy.sh or a server of your own (url); token if it needs one.",
    send_to_ntfy,
    check=check_ntfy,
)
