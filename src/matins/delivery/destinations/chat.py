"""Slack and Discord by webhook.

Slack: an incoming webhook, or a channel with the token of a bot.
"""

from __future__ import annotations

from typing import Any

import orjson

from matins.delivery.destinations import Address, DestinationKind, NotDelivered, post, text_of
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination

_MAX_LENGTH = 4_000
_COLOURS = {"bad": 0xC0392B, "good": 0x27AE60, "info": 0x2980B9}


def send_to_discord(address: Address, message: NoticeText) -> None:
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


_API = "https://slack.com/api"
_MAX_SECTION = 2_900


def send_to_slack(address: Address, message: NoticeText) -> None:
    token = address.token
    if token is None:
        post(address.url, orjson.dumps(document(message)), {"content-type": "application/json"})
        return
    url = f"{address.url or _API}/chat.postMessage"
    body = {"channel": address.to[0], "link_names": False, **document(message)}
    headers = {"content-type": "application/json; charset=utf-8", "authorization": f"Bearer {token}"}
    answer: Any = orjson.loads(post(url, orjson.dumps(body), headers).body)
    if not answer.get("ok"):
        error = str(answer.get("error"))
        gone = error in ("channel_not_found", "is_archived", "account_inactive", "token_revoked")
        raise NotDelivered(f"Slack answered {error}", gone=gone)


def document(message: NoticeText) -> dict[str, Any]:
    """The message as blocks. What others wrote is escaped, so that it mentions nobody."""
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
    shown = text if len(text) <= _MAX_SECTION else f"{text[:_MAX_SECTION]}…"
    return {"type": "section", "text": {"type": "mrkdwn", "text": shown}}


def check(destination: Destination) -> None:
    if destination.token is not None and len(destination.to) != 1:
        hint = Example({"to": ["C0OPS"]})
        raise InvalidInput('Slack with a token needs one channel in "to".', field="to", hint=hint)
    if destination.token is None and destination.url is None:
        hint = Example({"url": "env:SLACK_WEBHOOK"})
        raise InvalidInput('Slack needs "url", or "token" and a channel in "to".', field="url", hint=hint)


SLACK = DestinationKind(
    "slack", "Slack, by an incoming webhook (url), or by a bot (token) in a channel (to).", send_to_slack, check=check
)
