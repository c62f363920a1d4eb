"""Telegram, by the token of a bot and the id of a chat."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

import orjson

from matins.delivery.destinations import (
    Address,
    Answer,
    DestinationKind,
    NotDelivered,
    Part,
    Receipt,
    exchange,
    reply_of,
    text_of,
)
from matins.delivery.destinations.layout import Upload, form_data, messages, size_by, uploads_of
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination
from matins.texts.markdown import Block, Span, Style, indented, joined_blocks

API = "https://api.telegram.org"
MAX_LENGTH = 4_096
_TAGS: tuple[tuple[Style, str], ...] = (("italic", "i"), ("bold", "b"), ("strike", "s"))
_BOLD: frozenset[Style] = frozenset({"bold"})
_MENTION = re.compile(r"(?<![\w@])@(?=\w)")
_GONE = ("chat not found", "bot was blocked", "bot was kicked", "user is deactivated", "group chat was upgraded")


def parts(address: Address, answer: Answer) -> list[Part]:
    found = messages(address, answer, MAX_LENGTH, size_by(_visible), uploads=True)
    return [
        *(Part(markup(part)) for part in found.parts),
        *(Part(file) for file in uploads_of(address, answer, whole=found.whole)),
    ]


def send_answer(address: Address, part: Part, key: str) -> Receipt:
    """Send a message, or a file. Later parts reply to the first one, unless it was deleted."""
    fields: dict[str, Any] = {"chat_id": address.to[0]}
    if part.first is not None:
        fields["reply_parameters"] = {"message_id": int(part.first), "allow_sending_without_reply": True}
    if isinstance(part.body, Upload):
        fields |= {"caption": part.body.note} if part.body.note else {}
        texts = {
            name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in fields.items()
        }
        body, headers = form_data(texts, {"document": part.body})
        return _call(address, "sendDocument", body, headers)
    return _say(address, part.body, fields)


def send(address: Address, message: NoticeText) -> None:
    code = f"<pre>{_escaped(message.output)}</pre>" if message.output else ""
    rest = escape(text_of(message._replace(output="")))[: MAX_LENGTH // 2]
    _say(
        address,
        "\n\n".join(part for part in (f"<b>{escape(message.title)}</b>", rest, code) if part),
        {"chat_id": address.to[0]},
    )


def _say(address: Address, text: str, fields: dict[str, Any]) -> Receipt:
    body = {**fields, "text": text, "parse_mode": "HTML", "link_preview_options": {"is_disabled": True}}
    return _call(address, "sendMessage", orjson.dumps(body), {"content-type": "application/json"})


def _call(address: Address, method: str, body: bytes, headers: dict[str, str]) -> Receipt:
    url = f"{(address.url or API).rstrip('/')}/bot{address.token}/{method}"
    reply = reply_of(exchange(url, body, headers))
    if reply.get("ok"):
        return Receipt(str(reply["result"]["message_id"]))
    reason = str(reply.get("description"))
    parameters: dict[str, Any] = reply.get("parameters") or {}
    wait_ms = 1000 * int(parameters.get("retry_after", 0))
    gone = any(text in reason for text in _GONE)
    retry = reply.get("error_code") != 400  # a message that it cannot read stays so
    raise NotDelivered(f"Telegram answered: {reason}", gone=gone, retry=retry, after_ms=wait_ms)


# -- Telegram's HTML


def markup(found: Iterable[Block]) -> str:
    """Blocks in Telegram's HTML. Code contains no other marks: Telegram refuses that."""
    return joined_blocks(found, _block)


def _block(block: Block) -> str:
    if block.kind in ("code", "table"):
        return f"{_escaped(block.lead)}<pre>{_escaped(block.text)}</pre>"
    styled = [span._replace(styles=span.styles | _BOLD) if block.kind == "heading" else span for span in block.spans]
    text = indented("".join(_span(span) for span in styled), block)
    return f"<blockquote>{text}</blockquote>" if block.kind == "quote" else text


def _span(span: Span) -> str:
    if "code" in span.styles and span.url is None:
        return f"<code>{_escaped(span.text)}</code>"
    text = escape(span.text)
    for style, tag in _TAGS:
        if style in span.styles:
            text = f"<{tag}>{text}</{tag}>"
    return text if span.url is None else f'<a href="{html.escape(span.url)}">{text}</a>'


def _visible(block: Block) -> str:
    """What Telegram counts: the text without its marks, at most."""
    text = f"{block.lead}{block.text}" if block.kind in ("code", "table") else indented(block.text, block)
    return text.replace("@", f"@{_JOINER}")


_JOINER = "\u2060"


def escape(text: str) -> str:
    """Text as it is. A word joiner after @ keeps Telegram from making a mention of it."""
    return _MENTION.sub(f"@{_JOINER}", _escaped(text))


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def check(destination: Destination) -> None:
    if destination.token is None or len(destination.to) != 1:
        hint = Example({"token": "env:TELEGRAM_TOKEN", "to": ["81230"]})
        raise InvalidInput('Telegram needs "token" (of a bot), and one chat in "to".', field="to", hint=hint)


TELEGRAM = DestinationKind(
    "telegram", "Telegram, by a bot (token) in a chat (to).", send, check=check, parts=parts, answer=send_answer
)
