"""Messages as Telegram shows them, in its HTML. Text of others is escaped: it is no markup, and mentions nobody."""

from __future__ import annotations

from typing import Any, NamedTuple

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
from matins.delivery.destinations.telegram import escape
from matins.surfaces.display import block, one_line

MAX_LENGTH = 4_096
"""Maximum length of a message without its marks, in the units of UTF-16."""
MAX_DATA = 64
"""Bytes of a button's data."""
DIGITS = 8
"""Digits of the digest in a button. Matins keeps the whole digest of the card."""
_PIECE = 1_900
"""Characters, each of which is at most two units."""


class _Piece(NamedTuple):
    text: str
    size: int


def render(message: ChatMessage) -> list[str]:
    """The texts of the messages: one, or several that follow each other."""
    found: list[str] = []
    size = MAX_LENGTH
    for piece in (piece for part in message.parts for piece in _pieces(part)):
        if size + 1 + piece.size > MAX_LENGTH:
            found.append(piece.text)
            size = piece.size
        else:
            found[-1] += f"\n{piece.text}"
            size += 1 + piece.size
    return found or ["–"]


def keyboard(message: ChatMessage) -> dict[str, Any] | None:
    """The buttons below a message; None when it has none."""
    buttons = [button for part in message.parts if isinstance(part, Buttons) for button in part.buttons]
    rows = [made for made in map(_button, buttons) if made is not None]
    return {"inline_keyboard": [rows]} if rows else None


def fits(card: ChatMessage) -> bool:
    return len(render(card)) == 1


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _pieces(part: Part) -> list[_Piece]:
    match part:
        case Heading(text):
            return [_piece(one_line(text)[:_PIECE], "b")]
        case Text(text):
            return [_piece(piece) for piece in pieces(block(text), _PIECE)]
        case Code(text):
            return [_piece(piece, "pre") for piece in pieces(block(text), _PIECE)]
        case Fields(pairs):
            return [_field(one_line(name), piece) for name, value in pairs for piece in pieces(block(value), _PIECE)]
        case Buttons():
            return []


def _piece(text: str, tag: str = "") -> _Piece:
    shown = escape(text)
    return _Piece(f"<{tag}>{shown}</{tag}>" if tag else shown, utf16(text) + text.count("@"))


def _field(name: str, value: str) -> _Piece:
    first, rest = _piece(f"{name}:", "b"), _piece(value)
    return _Piece(f"{first.text} {rest.text}", first.size + 1 + rest.size)


def _button(button: Button) -> dict[str, Any] | None:
    label = one_line(button.label)
    if button.url:
        return {"text": label, "url": button.url} if leads_elsewhere(button.url) else None
    data = f"{button.action}:{button.of}:{button.digest[:DIGITS]}"
    assert len(data.encode()) <= MAX_DATA, data
    return {"text": label, "callback_data": data}
