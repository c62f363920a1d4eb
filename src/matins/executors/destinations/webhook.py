"""Any HTTP server: the message as JSON, signed if there is a secret."""

from __future__ import annotations

import orjson

from matins.engine.notices import Message
from matins.executors.destinations.protocol import Address, DestinationKind, post, text_of
from matins.net.signing import sign


def send_to_webhook(address: Address, message: Message) -> None:
    """Post `title`, `text`, `level` and the incident. The field `text` alone suits most chat servers."""
    document = {
        "title": message.title,
        "text": f"{message.title}\n{text_of(message)}",
        "level": message.level,
        "output": message.output,
        "commands": list(message.commands),
        "link": message.link,
        **message.facts,
    }
    body = orjson.dumps(document)
    headers = {"content-type": "application/json"}
    if (secret := address.token) is not None:
        id_ = f"incident-{message.facts.get('incident', 'test')}-{message.facts.get('action')}-{address.now}"
        headers |= sign(secret, id_, address.now // 1000, body)
    post(address.url, body, headers)


WEBHOOK = DestinationKind(
    "webhook", "Any server that takes JSON (url), such as Mattermost or Teams; signed with token if given.", send_to_webhook,
    needs=("url",),
)  # fmt: skip
