"""Blocks written as Markdown again, in which no text of others is markup: for Discord, and for Apprise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from matins.texts.markdown import BULLET, Block, Span, Style, indented, joined_blocks

_MAX_URL = 1_000
"""A longer address would fill half of a message: the text of its link stays."""
_MARKS: tuple[tuple[Style, str], ...] = (("italic", "*"), ("bold", "**"), ("strike", "~~"))
_LINE_START = re.compile(r"^([ \t]{0,100})([#+-]|[0-9]{1,9}(?=[.)]))", re.MULTILINE)
_BACKTICKS = re.compile(r"`+")
Escape = Callable[[str], str]


def written(found: Iterable[Block], escape: Escape) -> str:
    return joined_blocks(found, lambda block: written_block(block, escape))


def written_block(block: Block, escape: Escape) -> str:
    block = block._replace(marker="-") if block.marker == BULLET else block
    if block.kind in ("code", "table"):
        code = block.text.replace("```", "` ` `")
        return indented(f"```\n{code}\n```", block)
    text = _spans(block, escape)
    return indented(f"> {text}".replace("\n", "\n> ") if block.kind == "quote" else text, block)


def _spans(block: Block, escape: Escape) -> str:
    """The spans with their marks. Of two that touch, the second has none: `**a***b*` would be read in another way."""
    parts: list[str] = []
    for span in block.spans:
        if block.kind == "heading":
            span = span._replace(styles=span.styles | {"bold"})
        touches = bool(parts) and not parts[-1][-1:].isspace() and not span.text[:1].isspace()
        parts.append(_span(span, escape, marked=not (touches and parts[-1][-1:] in "*~`_")))
    return "".join(parts)


def _span(span: Span, escape: Escape, *, marked: bool) -> str:
    if "code" in span.styles and span.url is None and marked:
        return _code(span.text)
    text = _LINE_START.sub(_escape_start, escape(span.text))  # a text cannot begin a heading or an item, either
    if span.url is not None and len(span.url) <= _MAX_URL:
        return f"<{span.url}>" if span.url == span.text else f"[{text}](<{span.url}>)"
    inner = text.strip()
    if not (marked and inner) or inner.endswith("\\"):
        return text
    begin, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    for style, mark in _MARKS:
        if style in span.styles:
            inner = f"{mark}{inner}{mark}"
    return f"{begin}{inner}{end}"


def _code(text: str) -> str:
    """The text between more backticks than it contains."""
    fence = "`" * (1 + max((len(found) for found in _BACKTICKS.findall(text)), default=0))
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _escape_start(found: re.Match[str]) -> str:
    mark = found[2]
    return f"{found[1]}{mark}\\" if mark.isdigit() else f"{found[1]}\\{mark}"
