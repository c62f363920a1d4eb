"""What people cannot see is written out on every surface. Row B7."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable

import orjson
import pytest

from matins.chat.messages import ChatMessage, Code, Fields, Heading, Text
from matins.chat.slack.rendering import render
from matins.chat.telegram.rendering import render as render_html
from matins.daemon.log_format import _printable  # pyright: ignore[reportPrivateUsage]
from matins.delivery.texts import clean_text
from matins.engine.validation import check_name
from matins.errors import InvalidInput
from matins.mcp.principal_calls import quoted
from matins.mcp.tool import readable
from matins.model import words as hidden
from matins.surfaces.cli.context import json_text
from matins.surfaces.cli.tables import plain
from matins.surfaces.display import block, one_line, without_codes
from matins.web.templates import StaticFiles, environment

PAGE = environment(StaticFiles())
TEMPLATE = PAGE.from_string('<p title="{{ text }}">{{ text }}</p><pre>{{ text|shown }}</pre>')


def _chat(text: str) -> str:
    parts = (Heading(text), Text(text), Code(text), Fields(((text, text),)))
    return orjson.dumps(render(ChatMessage(parts)), option=orjson.OPT_PASSTHROUGH_DATETIME).decode()


def _telegram(text: str) -> str:
    parts = (Heading(text), Text(text), Code(text), Fields(((text, text),)))
    return "\n".join(render_html(ChatMessage(parts)))


SURFACES: dict[str, Callable[[str], str]] = {
    "a line of the terminal": one_line,
    "a value in the terminal": lambda text: plain({text: [text]}),
    "lines in the terminal": block,
    "output in the terminal": without_codes,
    "JSON in the terminal": lambda text: json_text({text: text}),
    "the page": lambda text: TEMPLATE.render(text=text),
    "chat": _chat,
    "chat in Telegram": _telegram,
    "a tool's answer over MCP": lambda text: orjson.dumps(readable({text: [text]})).decode(),
    "a run's words over MCP": lambda text: str(quoted("output", text, 1_000)),
    "notices": clean_text,
    "the log": _printable,
}
RANGES = [
    *((f"U+{first:04X}", first, last) for first, last in hidden.DEFAULT_IGNORABLE),
    *((f"U+{ord(character):04X}", ord(character), ord(character)) for character in sorted(hidden.BLANK)),
    ("C0", 0, 0x1F), ("C1", 0x7F, 0x9F), ("line ends", 0x2028, 0x2029), ("notes between lines", 0xFFF9, 0xFFFB),
]  # fmt: skip
LINES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"
"""Line ends and tabs, which become blanks or stay, by surface."""


@pytest.mark.parametrize(("first", "last"), [bounds for _, *bounds in RANGES], ids=[name for name, *_ in RANGES])
@pytest.mark.parametrize("surface", SURFACES)
def test_a_hidden_character_is_written_out(surface: str, first: int, last: int) -> None:
    for number in {*range(first, min(last, first + 40) + 1), last}:
        character = chr(number)
        if character in LINES:
            continue
        shown = SURFACES[surface](f"rm a{character}b")
        assert character not in shown
        assert "rm ab" not in shown, "it does not vanish either"


@pytest.mark.parametrize("surface", SURFACES)
def test_other_characters_are_shown_as_they_are(surface: str) -> None:
    for text in ("für Ada", "日本語", "e\u0301", "✓ 🔥 ✔\ufe0f ⏸\ufe0f", "🇩🇪"):
        assert text in SURFACES[surface](text)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    "text", ["✔\ufe0f\ufe0f", "a\ufe0f", "\ufe0fa", "1\ufe0f", "+\ufe0f", "\u2800\ufe0f", "✔\ufe0e", "✔ \ufe0f"]
)
def test_a_selector_passes_once_after_a_symbol_only(surface: str, text: str) -> None:
    shown = SURFACES[surface](f"x{text}y")
    assert shown.count("\ufe0f") <= shown.count("✔\ufe0f")
    assert "✔\ufe0f\ufe0f" not in shown
    assert "\ufe0e" not in shown


def test_the_list_holds_what_the_categories_do_not() -> None:
    """All that Unicode calls ignorable by default, of each category, and nothing that has ink."""
    found = {chr(number) for number in range(sys.maxunicode + 1) if hidden.is_hidden(chr(number))}
    by_category = {
        c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in hidden.HIDDEN_CATEGORIES
    }
    assert by_category <= found
    others = {unicodedata.category(character) for character in found - by_category}
    assert others == {"Lo", "Mn", "So", "Cn"}, "fillers, selectors, blanks, and numbers kept for more of them"
    assert len(hidden.DEFAULT_IGNORABLE) == 17
    assert sum(last - first + 1 for first, last in hidden.DEFAULT_IGNORABLE) == 4_174


@pytest.mark.parametrize("character", ["\u3164", "\u2800", "\ufe00", "\u115f", "\U000e0101", "\u034f"])
def test_no_name_has_a_hidden_character(character: str) -> None:
    with pytest.raises(InvalidInput, match="printable"):
        check_name("name", f"nightly{character}")
    assert check_name("name", "nightly ✔\ufe0f") == "nightly ✔\ufe0f"
