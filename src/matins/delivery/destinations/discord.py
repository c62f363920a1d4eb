"""Discord: an incoming webhook, or a channel with the token of a bot."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import orjson

from matins.delivery.destinations import Address, Answer, DestinationKind, Part, Receipt, post, reply_of, text_of
from matins.delivery.destinations.layout import Upload, form_data, messages, size_by, uploads_of
from matins.delivery.destinations.markdown_text import written, written_block
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination
from matins.texts.markdown import Block

_API = "https://discord.com/api/v10"
MAX_LENGTH = 2_000
_MAX_DESCRIPTION = 4_000
_COLOURS = {"bad": 0xC0392B, "good": 0x27AE60, "info": 0x2980B9}
NO_PREVIEWS = 4
_MARKUP = re.compile(r"[\\*_~`|<>\[\]@]")
QUIET: dict[str, Any] = {"allowed_mentions": {"parse": []}}


def parts(address: Address, answer: Answer) -> list[Part]:
    found = messages(address, answer, MAX_LENGTH, size_by(_block), uploads=True)
    posts = [Part({"content": written(part, escape), "flags": NO_PREVIEWS}) for part in found.parts]
    return [*posts, *(Part(file) for file in uploads_of(address, answer, whole=found.whole))]


def _block(block: Block) -> str:
    return written_block(block, escape)


def escape(text: str) -> str:
    """The text with a backslash before every mark of Discord's Markdown."""
    return _MARKUP.sub(r"\\\g<0>", text)


def send_answer(address: Address, part: Part, key: str) -> Receipt:
    """Post a message, or a file. A bot gives it a nonce: for some minutes Discord knows a repetition by it."""
    is_file = isinstance(part.body, Upload)
    body: dict[str, Any] = {**QUIET, **({"content": part.body.note} if is_file else part.body)}
    if address.token is not None:
        body |= {"nonce": hashlib.sha256(key.encode()).hexdigest()[:24], "enforce_nonce": True}
        if part.first is not None:
            body["message_reference"] = {"message_id": part.first, "fail_if_not_exists": False}
    uploads = {"files[0]": part.body} if is_file else {}
    data, headers = form_data({"payload_json": orjson.dumps(body).decode()}, uploads)
    return _posted(address, data, headers)


def _posted(address: Address, body: bytes, headers: dict[str, str]) -> Receipt:
    if address.token is None:  # with "wait" the answer has the id of the message
        url = f"{address.url}{'&' if '?' in address.url else '?'}wait=true"
    else:
        url = f"{(address.url or _API).rstrip('/')}/channels/{address.to[0]}/messages"
        headers = {**headers, "authorization": f"Bot {address.token}"}
    return Receipt(str(reply_of(post(url, body, headers)).get("id", "")) or None)


def send(address: Address, message: NoticeText) -> None:
    """Post an embed. Nobody is mentioned, whatever the text says."""
    quoted = message._replace(output=message.output.replace("```", "` ` `"))
    embed = {
        "title": message.title[:250],
        "description": text_of(quoted, code=("```\n", "\n```"))[:_MAX_DESCRIPTION],
        "color": _COLOURS[message.level],
        **({"url": message.link} if message.link else {}),
    }
    _posted(address, orjson.dumps({"embeds": [embed], **QUIET}), {"content-type": "application/json"})


def check(destination: Destination) -> None:
    if destination.token is not None and len(destination.to) != 1:
        hint = Example({"to": ["81384788765712384"]})
        raise InvalidInput('Discord with a token needs one channel in "to".', field="to", hint=hint)
    if destination.token is None and destination.url is None:
        hint = Example({"url": "env:DISCORD_WEBHOOK"})
        raise InvalidInput('Discord needs "url", or "token" and a channel in "to".', field="url", hint=hint)


DISCORD = DestinationKind(
    "discord", "Discord, by an incoming webhook (url), or by a bot (token) in a channel (to).",
    send, check=check, parts=parts, answer=send_answer,
)  # fmt: skip
