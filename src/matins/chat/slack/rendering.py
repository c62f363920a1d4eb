"""Messages as Slack shows them. Text of others is in elements that Slack does not interpret, or is escaped."""

from __future__ import annotations

import re
from typing import Any

from matins.chat.messages import Button, Buttons, ChatMessage, Code, Fields, Heading, Part, Text, pieces
from matins.surfaces.display import block, one_line

MAX_BLOCKS, MAX_MODAL_BLOCKS = 50, 100
MAX_TEXT = 2_900
_MAX_CARD = 9_000
"""Maximum length of all long texts of a card together."""
_MAX_HEADING = 150
_MAX_LABEL = 75
_ENTITY = re.compile(r"<([^<>]*)>")


def escape(text: str) -> str:
    """Text for a field in which Slack reads markup: no mention, link or command can come out of it."""
    return block(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain_text(text: str) -> str:
    """What a person wrote, from Slack's markup: `<https://x|label>` is the address, `<@U1>` is `@U1`."""
    found = _ENTITY.sub(lambda entity: _entity(entity[1]), text)
    return found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _entity(text: str) -> str:
    target = text.partition("|")[0]
    return target[1:].join(("@", "")) if target[:1] in ("@", "!") else target


def render(message: ChatMessage) -> dict[str, Any]:
    """The arguments of `chat.postMessage` and its kin."""
    return {"text": escape(message.brief), "blocks": blocks(message.parts)[:MAX_BLOCKS]}


def fits(card: ChatMessage) -> bool:
    """Whether a card can be read at a glance."""
    lengths = [len(part.text) for part in card.parts if isinstance(part, Code)]
    return max(lengths, default=0) <= MAX_TEXT and sum(lengths) <= _MAX_CARD


def blocks(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    return [found for part in parts for found in _blocks(part)]


def _blocks(part: Part) -> list[dict[str, Any]]:
    match part:
        case Heading(text):
            return [{"type": "header", "text": label(text, _MAX_HEADING)}]
        case Text(text):
            return [_section([_element(piece)]) for piece in pieces(block(text), MAX_TEXT)]
        case Code(text):
            return [_rich("rich_text_preformatted", [_element(piece)]) for piece in pieces(block(text), MAX_TEXT)]
        case Fields(pairs):
            return [
                _section([_element(f"{one_line(name)}: ", bold=True), _element(block(value)[:MAX_TEXT])])
                for name, value in pairs
            ]
        case Buttons(buttons):
            return [{"type": "actions", "elements": [_button(button) for button in buttons]}] if buttons else []


def label(text: str, most: int = _MAX_LABEL) -> dict[str, Any]:
    """Text that Slack shows as it is, without markup and emoji."""
    line = one_line(text) or "–"
    return {"type": "plain_text", "text": line if len(line) <= most else line[: most - 1] + "…", "emoji": False}


def _element(text: str, *, bold: bool = False) -> dict[str, Any]:
    element: dict[str, Any] = {"type": "text", "text": text or "–"}
    return {**element, "style": {"bold": True}} if bold else element


def _section(elements: list[dict[str, Any]]) -> dict[str, Any]:
    return _rich("rich_text_section", elements)


def _rich(kind: str, elements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "rich_text", "elements": [{"type": kind, "elements": elements}]}


def _button(button: Button) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "button", "action_id": button.action, "text": label(button.label)}
    found |= {"value": f"{button.of}:{button.digest}"} if button.of else {}
    found |= {"style": button.style} if button.style else {}
    return {**found, "url": button.url} if button.url else found


def modal(callback: str, title: str, submit: str, body: list[dict[str, Any]], metadata: str) -> dict[str, Any]:
    return {
        "type": "modal",
        "callback_id": callback,
        "title": label(title, 24),
        "submit": label(submit, 24),
        "close": label("Cancel", 24),
        "private_metadata": metadata,
        "blocks": body[:MAX_MODAL_BLOCKS],
    }


def text_input(
    name: str, title: str, *, value: str = "", lines: bool = False, optional: bool = False
) -> dict[str, Any]:
    element: dict[str, Any] = {"type": "plain_text_input", "action_id": name, "multiline": lines}
    element |= {"initial_value": value} if value else {}
    return {"type": "input", "block_id": name, "label": label(title), "element": element, "optional": optional}
