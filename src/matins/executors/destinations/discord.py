"""Discord: an incoming webhook."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.notices import Message
from matins.executors.destinations.protocol import Address, DestinationKind, post, text_of

_MAX_LENGTH = 4_000
_COLOURS = {"bad": 0xC0392B, "good": 0x27AE60, "info": 0x2980B9}


def send_to_discord(address: Address, message: Message) -> None:
    """Post an embed. Nobody is mentioned, whatever the text says."""
    plain = message._replace(output=message.output.replace("```", "` ` `"))
    embed = {
        "title": message.title[:250],
        "description": text_of(plain, code=("```\n", "\n```"))[:_MAX_LENGTH],
        "color": _COLOURS[message.level],
        **({"url": message.link} if message.link else {}),
    }
    body: dict[str, Any] = {"embeds": [embed], "allowed_mentions": {"parse": []}}
    post(address.url, orjson.dumps(body), {"content-type": "application/json"})


DISCORD = DestinationKind("discord", "Discord, by an incoming webhook (url).", send_to_discord, needs=("url",))
