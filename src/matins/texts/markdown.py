"""Markdown as blocks of styled text, for channels that each have markup of their own.

No text of others becomes markup: HTML is text, and links lead to http, https and mailto only. The parser is loaded with
the first answer.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

Style = Literal["bold", "italic", "strike", "code"]
Kind = Literal["text", "heading", "quote", "code", "table", "rule"]
BULLET = "•"
_STYLES: dict[str, Style] = {"strong": "bold", "em": "italic", "s": "strike"}
_CODE: frozenset[Style] = frozenset({"code"})
_MAX_PARSED = 200_000
"""Length of a text that is parsed; the rest is plain. The parser takes 10 ms for 10,000 characters."""
_MAX_BRACKETS, _MAX_CELLS = 300, 5_000
"""The parser takes quadratic time for brackets of one paragraph. It completes rows of a table: short lines become many
cells."""
_MAX_COLUMN = 80
"""Widest cell that is aligned; columns behind a wider one are not."""
_MAX_URL = 2_000
_LINK = re.compile(r"(?:https?://|mailto:)[^\s<>\"]{1,2000}", re.IGNORECASE)
_BARE = re.compile(r"https?://[^\s<>\"`]{1,2000}", re.IGNORECASE)


class Span(NamedTuple):
    text: str
    styles: frozenset[Style] = frozenset()
    url: str | None = None

    @property
    def with_url(self) -> str:
        """The text, and where it leads."""
        return self.text if self.url is None or self.url == self.text else f"{self.text} ({self.url})"


Row = tuple[tuple[Span, ...], ...]


class Block(NamedTuple):
    """A paragraph, an item of a list, a heading, a quotation, code, or a table."""

    kind: Kind
    spans: tuple[Span, ...] = ()
    depth: int = 0
    """How many lists it is in."""
    marker: str = ""
    """`•` or `3.`, for the first block of an item."""
    rows: tuple[Row, ...] = ()
    """Rows of a table; the first is its head."""

    @property
    def text(self) -> str:
        """Without styles; a table with its columns aligned."""
        return aligned(self.rows) if self.kind == "table" else "".join(span.text for span in self.spans)

    @property
    def indent(self) -> str:
        return "  " * max(0, self.depth - (1 if self.marker else 0))

    @property
    def lead(self) -> str:
        """What stands before the text: the indent, and the marker."""
        return f"{self.indent}{self.marker} " if self.marker else self.indent


# -- reading


def blocks(text: str) -> list[Block]:
    """The blocks of a text in Markdown."""
    head, rest = text[:_MAX_PARSED], text[_MAX_PARSED:]
    found = list(_Reader(_parser(tables=_has_small_tables(head)).parse(head)).blocks())
    return [*found, Block("text", (Span(rest),))] if rest else found


@cache
def _parser(*, tables: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 100}).enable(["table"] * tables + ["strikethrough"])
    made.core.ruler.at("inline", _parse_inline)
    return made


def _parse_inline(state: StateCore) -> None:
    """Parse the text of paragraphs. One with too many brackets is plain."""
    from markdown_it.token import Token

    for token in state.tokens:
        if token.type != "inline":
            continue
        if token.content.count("[") > _MAX_BRACKETS:
            token.children = [Token("text", "", 0, content=token.content)]
        else:
            token.children = []
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def _has_small_tables(text: str) -> bool:
    """Whether its tables have few cells that are not written. A table ends with an empty line."""
    cells = columns = lines = 0
    for line in (*text.split("\n"), ""):
        if line.strip():
            columns, lines = max(columns, line.count("|")), lines + 1
        else:
            cells, columns, lines = cells + columns * lines, 0, 0
    return cells - text.count("|") <= _MAX_CELLS


class _List:
    def __init__(self, token: Token) -> None:
        self.ordered = token.type == "ordered_list_open"
        self.number = int(token.attrs.get("start", 1))

    def next_marker(self) -> str:
        self.number += 1
        return f"{self.number - 1}." if self.ordered else BULLET


class _Reader:
    """Goes through the tokens, and remembers what it is inside of."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._lists: list[_List] = []
        self._marker = ""
        self._quotes = 0
        self._in_heading = False
        self._rows: list[list[tuple[Span, ...]]] = []
        """Rows of the table that is being read."""

    def blocks(self) -> Iterator[Block]:
        for token in self._tokens:
            self._enter(token)
            if (block := self._block_of(token)) is not None:
                yield block

    def _enter(self, token: Token) -> None:
        """Note where the following tokens are."""
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                self._lists.append(_List(token))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._marker = self._lists[-1].next_marker()
            case "blockquote_open" | "blockquote_close" | "heading_open" | "heading_close":
                self._quotes += token.nesting if token.type.startswith("blockquote") else 0
                self._in_heading = token.type == "heading_open"
            case "table_open":
                self._rows = []
            case "tr_open":
                self._rows.append([])
            case _:
                pass

    def _block_of(self, token: Token) -> Block | None:
        match token.type:
            case "fence" | "code_block":
                return self._block("code", (Span(token.content.rstrip("\n")),))
            case "hr":
                return self._block("rule", (Span("———"),))
            case "table_close":
                rows, self._rows = tuple(tuple(row) for row in self._rows), []
                return self._block("table")._replace(rows=rows)
            case "inline" if self._rows:
                self._rows[-1].append(tuple(_spans(token.children or [])))
            case "inline" if token.content:
                kind: Kind = "heading" if self._in_heading else "quote" if self._quotes else "text"
                return self._block(kind, tuple(_spans(token.children or [])))
            case "list_item_close" if self._marker:
                return self._block("text")  # an item without text
            case _:
                pass
        return None

    def _block(self, kind: Kind, spans: tuple[Span, ...] = ()) -> Block:
        marker, self._marker = self._marker, ""
        return Block(kind, spans, len(self._lists), marker)


def _spans(tokens: list[Token]) -> Iterator[Span]:
    """The spans of a line. The text of a link that looks like another address is replaced by where it leads."""
    styles: list[Style] = []
    link: str | None = None
    label: list[Span] = []
    for token in tokens:
        if token.type.endswith("_open") and token.type[:-5] in _STYLES:
            styles.append(_STYLES[token.type[:-5]])
        elif token.type.endswith("_close") and token.type[:-6] in _STYLES:
            styles.remove(_STYLES[token.type[:-6]])
        elif token.type == "link_open":
            link = safe_url(str(token.attrs.get("href", "")))
        elif token.type == "link_close":
            yield from _labelled(label, link)
            link, label = None, []
        else:
            span = _span(token, frozenset(styles))
            if link is not None:
                label.append(span)
            elif span.text:
                yield from _with_links(span)


def _span(token: Token, styles: frozenset[Style]) -> Span:
    match token.type:
        case "softbreak" | "hardbreak":
            return Span("\n", styles)
        case "code_inline":
            return Span(token.content, styles | _CODE)
        case "image":
            return Span(token.content or "image", styles, safe_url(str(token.attrs.get("src", ""))))
        case _:
            return Span(token.content, styles)


def _labelled(label: list[Span], url: str | None) -> Iterator[Span]:
    text = "".join(span.text for span in label).strip()
    if url is not None and (not text or "://" in text or text.lower().startswith("www.")):
        yield Span(url, url=url)
    else:
        yield from (span._replace(url=url) for span in label if span.text)


def _with_links(span: Span) -> Iterator[Span]:
    """A text with the addresses in it as links."""
    if "code" in span.styles or span.url is not None:
        yield span
        return
    at = 0
    for found in _BARE.finditer(span.text):
        url = found[0].rstrip(".,;:!?'*_~")
        url = url if "(" in url else url.rstrip(")]}")
        if found.start() > at:
            yield span._replace(text=span.text[at : found.start()])
        yield span._replace(text=url, url=url)
        at = found.start() + len(url)
    if at < len(span.text):
        yield span._replace(text=span.text[at:])


def safe_url(url: str) -> str | None:
    """The address, if it is one of the web or of e-mail."""
    return url if len(url) <= _MAX_URL and _LINK.fullmatch(url) else None


# -- writing


def plain(found: Iterable[Block]) -> str:
    """The blocks as plain text."""
    return joined_blocks(found, plain_block)


def plain_block(block: Block) -> str:
    if block.kind in ("code", "table", "rule"):
        return indented(block.text, block)
    text = "".join(span.with_url for span in block.spans)
    return indented(f"> {text}".replace("\n", "\n> ") if block.kind == "quote" else text, block)


def joined_blocks(found: Iterable[Block], write: Callable[[Block], str]) -> str:
    """The written blocks, with an empty line between them, except within a list."""
    parts: list[str] = []
    before: Block | None = None
    for block in found:
        if before is not None:
            parts.append("\n" if before.depth and block.depth else "\n\n")
        parts.append(write(block))
        before = block
    return "".join(parts)


def indented(text: str, block: Block) -> str:
    """The text behind the marker of its item."""
    lead = block.lead
    return lead + text.replace("\n", "\n" + " " * len(lead)) if lead else text


def aligned(rows: Sequence[Row]) -> str:
    """A table as text with aligned columns."""
    texts = [["".join(span.with_url for span in cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [min(_MAX_COLUMN, max(map(len, column))) for column in zip(*texts, strict=False)]
    return "\n".join("  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=False)).rstrip() for row in texts)


_CSS: dict[Kind, str] = {
    "text": "margin:0 0 12px",
    "heading": "margin:18px 0 8px;font-weight:bold",
    "quote": "margin:0 0 12px;padding-left:10px;border-left:3px solid #ccc;color:#555",
    "code": "margin:0 0 12px;padding:8px;background:#f4f4f4;font-family:monospace;white-space:pre-wrap",
    "rule": "margin:12px 0;border:0;border-top:1px solid #ccc",
    "table": "margin:0 0 12px;border-collapse:collapse",
}
_CELL = "padding:3px 8px;border:1px solid #ccc;text-align:left"
_TAGS: tuple[tuple[Style, str], ...] = (("code", "code"), ("italic", "em"), ("bold", "strong"), ("strike", "s"))


def to_html(found: Iterable[Block]) -> str:
    """The blocks as HTML with inline styles, without images and scripts."""
    return "\n".join(_html_block(block) for block in found)


def _html_block(block: Block) -> str:
    css = _CSS[block.kind] + (f";margin-left:{block.depth * 18}px" if block.depth else "")
    marker = f"{html.escape(block.marker)} " if block.marker else ""
    match block.kind:
        case "rule":
            return f'<hr style="{css}">'
        case "table":
            tags = ["th", *["td"] * len(block.rows)]
            cells = (
                "".join(_element(tag, _CELL, _html_spans(cell)) for cell in row)
                for tag, row in zip(tags, block.rows, strict=False)
            )
            return _element("table", css, "".join(f"<tr>{row}</tr>" for row in cells))
        case "code":
            return _element("pre", css, marker + html.escape(block.text))
        case "heading" | "quote" | "text":
            tag = {"heading": "h3", "quote": "blockquote"}.get(block.kind, "p")
            return _element(tag, css, marker + _html_spans(block.spans))


def _element(tag: str, css: str, content: str) -> str:
    return f'<{tag} style="{css}">{content}</{tag}>'


def _html_spans(spans: Iterable[Span]) -> str:
    parts: list[str] = []
    for span in spans:
        text = html.escape(span.text).replace("\n", "<br>")
        for style, tag in _TAGS:
            if style in span.styles:
                text = f"<{tag}>{text}</{tag}>"
        url = None if span.url is None else html.escape(span.url)
        parts.append(text if url is None else f'<a href="{url}" rel="noreferrer noopener">{text}</a>')
    return "".join(parts)


# -- messages of limited size

Size = Callable[[Block], int]
"""How much room a block takes. At least a unit for each character."""
_BETWEEN = 2
"""Room for what stands between two blocks."""


def packed(found: Iterable[Block], limit: int, size: Size, most: int) -> tuple[list[list[Block]], bool]:
    """Groups of blocks within the limit, at most so many, and whether all blocks are in them."""
    groups: list[list[Block]] = []
    room = 0
    for whole in found:
        for block in _pieces(whole, room, limit, size):
            needed = size(block) + _BETWEEN
            if not groups or needed > room:
                if len(groups) == most:
                    return groups, False
                groups.append([])
                room = limit + _BETWEEN
            groups[-1].append(block)
            room -= needed
    return groups, True


def _pieces(block: Block, room: int, limit: int, size: Size) -> Iterator[Block]:
    """A block that is too long for a message in pieces that keep their styles, the first one for the room that is left.
    A table becomes text first."""
    if block.kind == "table" and size(block) > limit:
        block = Block("code", (Span(block.text),), block.depth, block.marker)
    bound = room - _BETWEEN if room > limit // 4 else limit
    while size(block) > limit:
        text = block.text[:bound]
        most = max(1, bisect_right(range(1, len(text) + 1), bound, key=lambda at: size(_cut(block, at)[0])))
        at = max(text.rfind("\n", most // 2, most), text.rfind(" ", most // 2, most)) + 1 or most
        piece, block = _cut(block, at)
        yield piece
        bound = limit
    if block.spans or block.rows or block.marker:
        yield block


def _cut(block: Block, at: int) -> tuple[Block, Block]:
    """The block up to a character, and the rest."""
    head: list[Span] = []
    rest: list[Span] = []
    for span in block.spans:
        if at >= len(span.text):
            head.append(span)
        elif at <= 0:
            rest.append(span)
        else:
            head.append(span._replace(text=span.text[:at]))
            rest.append(span._replace(text=span.text[at:]))
        at -= len(span.text)
    return block._replace(spans=tuple(head)), block._replace(spans=tuple(rest), marker="")
