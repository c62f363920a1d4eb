"""Markdown as blocks: what is read, what never becomes markup, and messages of limited size."""

from __future__ import annotations

import subprocess
import sys
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matins.texts.markdown import Block, Span, blocks, packed, plain, safe_url, to_html

FRAGMENTS = (
    "# T <b>\n\n", "a *b* **c** `d<e>` [x](https://x.org/?a=1&b=2) <!channel> @everyone\n\n",
    "- one\n  1. two\n  2. three `x`\n- four\n\n", "| a | b |\n|--|--|\n| <i> | 😀 |\n\n",
    '```sh\necho "<&>" ``` \n```\n\n', "> q\n> r\n\n", "[js](javascript:alert(1)) ~~s~~ ![i](http://i/x.png)\n\n",
    "w" * 5000 + "\n\n", "```\n" + "line <x>\n" * 900 + "```\n\n", "😀" * 3000 + "\n\n", "* * *\n\n",
    "unclosed **bold and `code\n\n", "see https://x.org/a_b_c, or <https://y.org>\n\n", "***a*b**c `` ` `` _d_\n\n",
    "<script>alert(1)</script>\n\n", "1) one\n2) two\n\n", "- \n- [ ] task\n\n", "  \n", "\\*no\\* &lt;b&gt; &amp;\n\n",
)  # fmt: skip
ANSWERS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=60), max_size=12).map("".join)
"""Answers as agents write them, and texts that nobody would write."""


def words(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


def test_the_blocks_of_an_answer():
    found = blocks(
        "## Open\n\nThree wait for **you**: [#12](https://x.org/12)\n\n- first\n  1. nested `code`\n- last\n\n> said\n"
    )
    assert [(block.kind, block.text, block.depth, block.marker) for block in found] == [
        ("heading", "Open", 0, ""), ("text", "Three wait for you: #12", 0, ""), ("text", "first", 1, "•"),
        ("text", "nested code", 2, "1."), ("text", "last", 1, "•"), ("quote", "said", 0, ""),
    ]  # fmt: skip
    assert found[1].spans[1] == Span("you", frozenset({"bold"}))
    assert found[1].spans[3] == Span("#12", url="https://x.org/12")
    assert plain(found).splitlines()[2:6] == [
        "Three wait for you: #12 (https://x.org/12)", "", "• first", "  1. nested code"
    ]  # fmt: skip


def test_a_table_keeps_its_cells_and_is_text_where_there_are_no_tables():
    [table] = blocks("| day | runs |\n| --- | ---: |\n| Monday | **12** |\n")
    assert table.text == "day     runs\nMonday  12"
    assert "<th" in to_html([table])
    assert "<strong>12</strong>" in to_html([table])


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "JavaScript:x", "data:text/html,x", "file:///etc", "ssh://a", "//a"]
)
def test_links_lead_to_the_web_and_to_mail_only(url):
    assert safe_url(url) is None
    found = blocks(f"[here]({url}) <{url}> ![pic]({url})")
    assert all(span.url is None for block in found for span in block.spans)
    assert f'href="{url}' not in to_html(found)


def test_a_link_cannot_show_another_address_than_its_own():
    [block] = blocks("[https://bank.example](https://evil.example/x) [www.bank.example](https://evil.example/y)")
    assert [span.text for span in block.spans if span.url] == ["https://evil.example/x", "https://evil.example/y"]


def test_addresses_in_the_text_are_links():
    [block] = blocks("See https://x.org/a_b_c. And (https://y.org/p), `https://z.org`, https://w.org/A_(b)")
    urls = [span.url for span in block.spans if span.url]
    assert urls == ["https://x.org/a_b_c", "https://y.org/p", "https://w.org/A_(b)"]


def test_a_very_long_text_is_not_parsed_to_its_end():
    found = blocks("a **b**\n\n" * 30_000)
    assert found[-1].text.endswith("a **b**\n\n")
    assert len(found) < 30_000


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"style", "href", "rel"}
        assert all(value.startswith(("http", "mailto:")) for name, value in attrs if name == "href")
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@settings(max_examples=40, deadline=None)
@given(ANSWERS)
def test_html_is_balanced_and_has_all_of_the_text(text):
    """B21: nothing of the answer becomes markup, and nothing is lost."""
    found = blocks(text)
    tags = Tags()
    tags.feed(to_html(found))
    tags.close()
    assert not tags.open
    assert tags.seen <= {
        "p",
        "h3",
        "blockquote",
        "pre",
        "hr",
        "br",
        "table",
        "tr",
        "td",
        "th",
        "a",
        "em",
        "strong",
        "s",
        "code",
    }
    assert words(tags.text) == words("".join(shown(block) for block in found))


def shown(block: Block) -> str:
    cells = "".join(span.text for row in block.rows for cell in row for span in cell)
    return block.marker + (cells if block.rows else block.text)


@settings(max_examples=40, deadline=None)
@given(ANSWERS, st.integers(60, 3_000))
def test_pieces_fit_and_nothing_is_lost(text, limit):
    def size(block: Block) -> int:
        return len(block.lead) + len(block.text)

    found = blocks(text)
    groups, whole = packed(found, limit, size, 10_000)
    assert whole
    assert all(sum(size(block) + 2 for block in group) <= limit + 2 for group in groups)
    assert words("".join(block.text for group in groups for block in group)) == words("".join(b.text for b in found))


def test_pieces_keep_their_styles_and_end_between_words():
    groups, whole = packed(blocks(f"**{'word ' * 100}end**"), 200, lambda block: len(block.text), 2)
    assert (len(groups), whole) == (2, False)
    [[first], _] = groups
    assert first.spans[0].styles == {"bold"}
    assert first.text.endswith("word ")


@pytest.mark.parametrize(
    "text",
    ["[" * 60_000, "![" * 30_000, "[a][b]" * 10_000, ("|a" * 250 + "\n" + "|-" * 250 + "\n" + "|\n" * 250 + "\n") * 40],
    ids=["brackets", "images", "references", "tables"],
)
def test_no_text_keeps_the_parser_busy(text):
    """B7: what costs a parser quadratic time is plain text."""
    before = time.thread_time()
    found = blocks(text)
    assert time.thread_time() - before < 5  # more than a minute without the bound
    assert "".join(words(plain(found))) == words(text)


def test_a_wide_cell_does_not_widen_all_rows():
    """B7: a table of 30,000 characters would become a text of 40 million."""
    text = f"| {'a' * 15_000} | b |\n| - | - |\n" + "| a | b |\n" * 2_000
    [table] = blocks(text)
    assert len(table.text) < 250_000
    assert table.text.endswith(f"a{' ' * 79}  b")


def test_paragraphs_and_tables_beside_are_read():
    """The bound is for each paragraph, and counts only cells that are not written."""
    rows = "| a | b | c |\n| - | - | - |\n" + "| 1 | 2 | 3 |\n" * 2_000
    found = blocks(f"{'[x](https://x.org) ' * 300}\n\n{rows}\n{'[' * 400}")
    assert [block.kind for block in found] == ["text", "table", "text"]
    assert found[0].spans[0].url == "https://x.org"
    assert len(found[1].rows) == 2_001


def test_the_parser_is_not_loaded_with_the_module():
    code = "import sys, matins.texts.markdown, matins.delivery.destinations.email; print('markdown_it' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
