"""Slack: an incoming webhook, or a channel with the token of a bot."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import orjson

from matins.delivery.destinations import (
    Address,
    Answer,
    DestinationKind,
    NotDelivered,
    Part,
    Receipt,
    exchange,
    post,
    reply_of,
)
from matins.delivery.destinations.layout import Upload, messages, names_of_files, uploads_of, utf16
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination
from matins.texts.markdown import BULLET, Block, Span, Style, packed

_API = "https://slack.com/api"
MAX_ELEMENT = 2_900
MAX_LENGTH = 3 * MAX_ELEMENT
"""Maximum length of a message: Slack refuses blocks of more than about 11,000 characters together."""
MAX_BLOCKS = 50
_JSON = {"content-type": "application/json; charset=utf-8"}
_GONE = ("channel_not_found", "is_archived", "account_inactive", "token_revoked")
_STYLES: tuple[Style, ...] = ("bold", "italic", "strike", "code")


# -- answers


def parts(address: Address, answer: Answer) -> list[Part]:
    """Messages for the channel; a bot sends files too."""
    by_bot = address.destination.token is not None
    notes = () if by_bot else names_of_files(answer)
    found = messages(address, answer, MAX_LENGTH, _size, *notes, uploads=by_bot)
    posts = [Part(message(answer.title, part)) for part in found.parts]
    return [*posts, *(Part(file) for file in uploads_of(address, answer, whole=found.whole))] if by_bot else posts


def message(title: str, found: list[Block]) -> dict[str, Any]:
    """Blocks as a message. What others wrote is in elements of text, where nothing is markup."""
    groups, _ = packed(found, MAX_ELEMENT, _size, MAX_BLOCKS)
    rich = [{"type": "rich_text", "elements": list(_elements(group))} for group in groups]
    return {"text": escape(title), "blocks": rich, "unfurl_links": False, "unfurl_media": False}


def _elements(found: Iterable[Block]) -> Iterable[dict[str, Any]]:
    for (kind, style, indent), group in groupby(found, _element_key):
        items = list(group)
        if kind == "list":
            offset = {} if style == "bullet" else {"offset": int(items[0].marker.rstrip(".")) - 1}
            sections = [{"type": "rich_text_section", "elements": _spans(item)} for item in items]
            yield {"type": "rich_text_list", "style": style, "indent": indent, "elements": sections, **offset}
        else:
            yield from ({"type": f"rich_text_{kind}", "elements": _spans(item)} for item in items)


def _element_key(block: Block) -> tuple[str, str, int]:
    if block.marker and block.kind == "text" and block.spans:
        return "list", "bullet" if block.marker == BULLET else "ordered", min(8, block.depth - 1)
    return {"code": "preformatted", "table": "preformatted", "quote": "quote"}.get(block.kind, "section"), "", 0


def _spans(block: Block) -> list[dict[str, Any]]:
    if block.kind in ("code", "table"):
        return [{"type": "text", "text": block.text or " "}]
    bold = block.kind == "heading"
    found = [_span(span, bold=bold) for span in block.spans]
    if _element_key(block)[0] == "section":  # sections follow each other without an empty line
        lead = [{"type": "text", "text": block.lead}] if block.lead else []
        return [*lead, *found, {"type": "text", "text": "\n"}]
    return found


def _span(span: Span, *, bold: bool) -> dict[str, Any]:
    styles: dict[str, bool] = {style: True for style in _STYLES if style in span.styles}
    styles |= {"bold": True} if bold else {}
    found: dict[str, Any] = {"type": "text", "text": span.text}
    if span.url is not None:
        found = {"type": "link", "url": span.url, "text": span.text}
    return {**found, "style": styles} if styles else found


def _size(block: Block) -> int:
    return utf16(block.lead) + utf16(block.text) + sum(len(span.url or "") for span in block.spans) + 1


def send_answer(address: Address, part: Part, key: str) -> Receipt:
    """Post a message, or upload a file; later parts of a bot go into the thread of the first one."""
    if address.token is None:
        post(address.url, orjson.dumps(part.body), _JSON)
        return Receipt(None)
    thread = {} if part.first is None else {"thread_ts": part.first}
    if isinstance(part.body, Upload):
        return _upload(address, part.body, thread)
    body = {"channel": address.to[0], "link_names": False, **thread, **part.body}
    return Receipt(str(_call(address, "chat.postMessage", body).get("ts", "")) or None)


def _upload(address: Address, upload: Upload, thread: dict[str, str]) -> Receipt:
    """Announce, send and publish a file: nothing is seen before the last call."""
    data = upload.read()
    place = _call(address, "files.getUploadURLExternal", {"filename": upload.name, "length": len(data)}, form=True)
    sent = exchange(str(place["upload_url"]), data, {"content-type": upload.media_type}, allowed=_base(address))
    if sent.status != 200:
        raise NotDelivered(f"Slack answered {sent.status} to the file {upload.name}")
    body = {"files": [{"id": place["file_id"], "title": upload.name}], "channel_id": address.to[0], **thread}
    _call(
        address, "files.completeUploadExternal", {**body, **({"initial_comment": upload.note} if upload.note else {})}
    )
    return Receipt(str(place["file_id"]))


def _base(address: Address) -> str:
    return (address.url or _API).rstrip("/")


def _call(address: Address, method: str, body: dict[str, Any], *, form: bool = False) -> dict[str, Any]:
    """Call a method of the Web API. Raises NotDelivered unless the answer is ok."""
    kind = {"content-type": "application/x-www-form-urlencoded"} if form else _JSON
    data = urlencode(body).encode() if form else orjson.dumps(body)
    found = reply_of(post(f"{_base(address)}/{method}", data, {**kind, "authorization": f"Bearer {address.token}"}))
    if not found.get("ok"):
        error = str(found.get("error"))
        raise NotDelivered(f"Slack answered {error}", gone=error in _GONE)
    return found


# -- notices


def send(address: Address, message: NoticeText) -> None:
    if address.token is None:
        post(address.url, orjson.dumps(document(message)), _JSON)
    else:
        _call(address, "chat.postMessage", {"channel": address.to[0], "link_names": False, **document(message)})


def document(message: NoticeText) -> dict[str, Any]:
    """The notice as blocks. What others wrote is escaped, so that it mentions nobody."""
    title, text = escape(message.title), escape(message.text)
    blocks: list[dict[str, Any]] = [_section(f"*{title}*\n{text}")]
    if message.output:
        blocks.append(_section(f"```{escape(message.output).replace('```', '` ` `')}```"))
    foot = "  ".join([f"`{escape(command)}`" for command in message.commands])
    link = f"<{escape(message.link)}|Open>  " if message.link else ""
    if foot or link:
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": f"{link}{foot}"}]})
    return {"text": title, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _section(text: str) -> dict[str, Any]:
    shown = text if len(text) <= MAX_ELEMENT else f"{text[:MAX_ELEMENT]}…"
    return {"type": "section", "text": {"type": "mrkdwn", "text": shown}}


def check(destination: Destination) -> None:
    if destination.token is not None and len(destination.to) != 1:
        hint = Example({"to": ["C0OPS"]})
        raise InvalidInput('Slack with a token needs one channel in "to".', field="to", hint=hint)
    if destination.token is None and destination.url is None:
        hint = Example({"url": "env:SLACK_WEBHOOK"})
        raise InvalidInput('Slack needs "url", or "token" and a channel in "to".', field="url", hint=hint)


SLACK = DestinationKind(
    "slack", "Slack, by an incoming webhook (url), or by a bot (token) in a channel (to).",
    send, check=check, parts=parts, answer=send_answer,
)  # fmt: skip
