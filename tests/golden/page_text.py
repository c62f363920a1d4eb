"""A page as lines of text, so that templates can be written otherwise without a difference: what a person reads, where
links lead, what forms send, and what a screen reader says. Classes, spaces, scripts and the geometry of drawings are
left out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from html.parser import HTMLParser

_WIDTH = 160
_BLOCKS = frozenset({
    "h1", "h2", "h3", "h4", "p", "li", "tr", "div", "section", "article", "header", "main", "nav", "form", "label",
    "button", "dt", "pre", "details", "summary", "dialog", "table", "ul", "ol", "dl", "fieldset", "legend", "select",
    "textarea", "title", "caption", "figure", "figcaption",
})  # fmt: skip
_SHOWN = frozenset({"h1", "h2", "h3", "h4", "a", "button", "input", "select", "option", "textarea", "form"})
_SILENT = frozenset({"script", "style", "template", "symbol"})
_KEPT = ("href", "action", "method", "type", "name", "value", "placeholder", "datetime", "role", "title", "alt",
         "checked", "selected", "disabled", "required", "hidden", "open")  # fmt: skip


class _Reader(HTMLParser):
    def __init__(self, masked: Callable[[str], str]) -> None:
        super().__init__(convert_charrefs=True)
        self._masked = masked
        self.lines: list[str] = []
        self._words: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        if self._silent:
            return
        if tag in _BLOCKS:
            self.flush()
        if tag in ("td", "th", "dd"):
            self._words.append("|")
        if tag == "use":
            self._words.append(f"({dict(attrs).get('href', '')})".replace("#icon-", ""))
            return
        kept = [(name, value) for name, value in attrs if name in _KEPT or (name.startswith("aria-") and _says(name))]
        if tag in _SHOWN or (kept and kept != [("aria-hidden", "true")]):
            said = " ".join(
                [tag, *(name if not value else f"{name}={' '.join(value.split())}" for name, value in kept)]
            )
            self._words.append(f"<{said}>")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in _BLOCKS and not self._silent:
            self.flush()

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._words += data.split()

    def flush(self) -> None:
        if self._words:
            text = self._masked(" ".join(self._words))
            self.lines += textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
        self._words = []


def _says(name: str) -> bool:
    """Whether the attribute is something to hear, rather than the name of another element."""
    return name in ("aria-label", "aria-current", "aria-live", "aria-hidden", "aria-sort", "aria-selected")


def page_text(page: str, masked: Callable[[str], str], *, whole: bool = True) -> str:
    """`masked` replaces what differs from machine to machine. Not `whole`: without what surrounds every page."""
    reader = _Reader(masked)
    reader.feed(page if whole or "<main" not in page else "<main" + page.partition("<main")[2].partition("</main>")[0])
    reader.close()
    reader.flush()
    return "\n".join(reader.lines) + "\n"
