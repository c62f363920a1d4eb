"""Messages as Discord shows them, in its Markdown. Text of others is escaped: it is no markup, and mentions nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from matins.chat.messages import (
    Button,
    Buttons,
    ChatMessage,
    Code,
    Fields,
    Heading,
    Part,
    Text,
    leads_elsewhere,
    pieces,
)
from matins.delivery.destinations.discord import MAX_LENGTH, NO_PREVIEWS, QUIET, escape
from matins.delivery.destinations.layout import utf16
from matins.surfaces.display import block, one_line

_PIECE = 900
"""Characters, each of which is at most two when it is escaped."""
_MAX_LABEL, _MAX_DATA = 80, 100
_ROW, _BUTTON = 1, 2
_STYLES: Mapping[str, int] = {"primary": 1, "": 2, "danger": 4}
_LINK = 5
_LINE_START = re.compile(r"^([ \t]*)([#>+-]|[0-9]+(?=[.)]))", re.MULTILINE)


def render(message: ChatMessage) -> list[dict[str, Any]]:
    """The messages: one, or several that follow each other. The last one has the buttons."""
    texts: list[str] = []
    for piece in (piece for part in message.parts for piece in _pieces(part)):
        if texts and utf16(texts[-1]) + 1 + utf16(piece) <= MAX_LENGTH:
            texts[-1] += f"\n{piece}"
        else:
            texts.append(piece)
    found: list[dict[str, Any]] = [{"content": text, **QUIET, "flags": NO_PREVIEWS} for text in texts or ["–"]]
    found[-1]["components"] = components(message)
    return found


def components(message: ChatMessage) -> list[dict[str, Any]]:
    """The buttons below a message. A message that is changed, and has none, loses those that it had."""
    found = [button for part in message.parts if isinstance(part, Buttons) for button in part.buttons]
    buttons = [_button(button) for button in found if not button.url or leads_elsewhere(button.url)]
    return [{"type": _ROW, "components": buttons}] if buttons else []


def fits(card: ChatMessage) -> bool:
    return len(render(card)) == 1


def _pieces(part: Part) -> list[str]:
    match part:
        case Heading(text):
            return [f"**{literal(one_line(text)[:_PIECE])}**"]
        case Text(text):
            return [literal(piece) for piece in pieces(block(text), _PIECE)]
        case Code(text):
            return [_code(piece) for piece in pieces(block(text), _PIECE)]
        case Fields(pairs):
            return [
                f"**{literal(one_line(name))}:** {literal(piece)}"
                for name, value in pairs
                for piece in pieces(block(value), _PIECE)
            ]
        case Buttons():
            return []


def literal(text: str) -> str:
    """Text as it is: no mark in it is one, and no line begins a heading, a quote or an item."""
    return _LINE_START.sub(_escaped_start, escape(text))


def _escaped_start(found: re.Match[str]) -> str:
    mark = found[2]
    return f"{found[1]}{mark}\\" if mark.isdigit() else f"{found[1]}\\{mark}"


def _code(text: str) -> str:
    """A block of code. Nothing in it is markup but its end, which a character without width takes apart."""
    apart = text.replace("``", "`\u200b`")
    return f"```\n{apart}\n```"


def _button(button: Button) -> dict[str, Any]:
    label = one_line(button.label)[:_MAX_LABEL]
    if button.url:
        return {"type": _BUTTON, "style": _LINK, "label": label, "url": button.url}
    data = f"{button.action}:{button.of}:{button.digest}"
    assert len(data) <= _MAX_DATA, data
    return {"type": _BUTTON, "style": _STYLES[button.style], "label": label, "custom_id": data}
