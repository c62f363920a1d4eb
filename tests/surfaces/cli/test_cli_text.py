"""What goes to a terminal: harmless, and in the room that there is."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.surfaces.cli.tables import Cell, Column, cells, fields, fitted, plain, table, wrapped
from matins.surfaces.cli.times import duration_text, local, relative_time, two_units, when
from matins.surfaces.display import block, one_line, without_codes

NOW = datetime(2026, 3, 27, 8, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(), max_size=60)


def unsafe(text: str) -> list[str]:
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"]


@given(ANY_TEXT)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert unsafe(one_line(text)) == []
    assert "\n" not in one_line(text)
    assert unsafe(block(text)) == []
    assert unsafe(without_codes(text)) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31mred", "\\x9b31mred"),
        ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half \ud800 pair", "half \\ud800 pair"),
        ("日本 ✓ é", "日本 ✓ é"),
    ],
)
def test_what_hides_is_written_out(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_a_block_keeps_its_lines() -> None:
    assert block("one\r\n\ttwo\x07\n") == "one\n    two\\x07\n"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m plain", "red plain"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;cm0gLXJm\x07safe", "safe"),
        ("\x1bPq\x1b\\x", "x"),
        ("10%\r100%", "10%\n100%"),
        ("\x1bc\x1b(Bx", "x"),
    ],
)
def test_colours_and_moves_are_taken_out(printed: str, shown: str) -> None:
    assert without_codes(printed) == shown


@given(ANY_TEXT, st.integers(0, 30))
def test_cut_to_its_room(text: str, width: int) -> None:
    cut = fitted(one_line(text), width)
    assert cells(cut) <= width
    assert len(cut) <= width * 4 + 1


def test_wide_characters_count_twice() -> None:
    assert cells("日本") == 4
    assert cells("é") == 1
    assert fitted("日本語の名前", 7) == "日本語…"
    assert cells(fitted("日本語の名前", 6)) <= 6


def test_a_heap_of_marks_is_cut() -> None:
    assert len(fitted("a" + "\u0301" * 10_000, 10)) <= 41


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=5), st.integers(30, 100))
def test_a_table_keeps_to_its_width(rows: list[tuple[str, str]], width: int) -> None:
    lines = table([Column("A", "a", 5), Column("B", "b", 5)], rows, width)
    assert len(lines) == len(rows) + 1
    assert all(cells(line) <= width and unsafe(line) == [] for line in lines)


def test_the_widest_gives_way_and_names_stay_whole() -> None:
    rows = [("a-name-that-is-long", "every weekday at 09:00 and 17:30", "in 3h")]
    assert table([Column("NAME", "name"), Column("WHEN", "when", 8), Column("NEXT", "next", 5)], rows, 44) == [
        "NAME                 WHEN              NEXT",
        "a-name-that-is-long  every weekday a…  in 3h",
    ]


def test_what_is_the_answer_goes_on_below() -> None:
    lines = table(
        [Column("GATE", "gate"), Column("SAYS", "says", 10, wraps=True)], [("hook", "one two three four")], 20
    )
    assert lines == ["GATE  SAYS", "hook  one two three", "      four"]


def test_colour_is_never_alone() -> None:
    coloured = table([Column("S", "s")], [(Cell("✗ failed", "red"),)], 80, colour=True)[1]
    assert coloured == "\x1b[31m✗ failed\x1b[0m"
    assert table([Column("S", "s")], [(Cell("✗ failed", "red"),)], 80)[1] == "✗ failed"


def test_numbers_stand_on_the_right() -> None:
    assert table([Column("N", "n", right=True)], [("5",), ("1000",)], None) == ["   N", "   5", "1000"]


def test_fields() -> None:
    assert fields([("name", "x"), ("none", None), ("note", "one two three four five six")], 26) == [
        "name  x",
        "note  one two three four",
        "      five six",
    ]
    assert fields([("a\x1b[2J", "x")], 80) == ["a\\x1b[2J  x"]


def test_a_word_that_is_too_long_is_broken() -> None:
    assert wrapped("aaaa bbbbbbbbbb c", 5) == ["aaaa", "bbbbb", "bbbbb", "c"]
    assert wrapped("日本語", 4) == ["日本", "語"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "none"), (True, "yes"), (["a", 1], "a, 1"), ({"k": ["v"]}, "k: v"), (3, "3"), ("a\nb", "a b")],
)
def test_any_value_in_a_line(value: object, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-03-27T08:00:00Z", "now"),
        ("2026-03-27T08:00:45Z", "in 45s"),
        ("2026-03-27T07:58:00Z", "2m ago"),
        ("2026-03-27T11:59:00Z", "in 3h"),
        ("2026-03-29T07:00:00Z", "in 47h"),
        ("2026-03-30T09:00:00Z", "in 3d"),
        ("2025-03-27T08:00:00Z", "365d ago"),
    ],
)
def test_how_far_relative_time(at: str, text: str) -> None:
    assert relative_time(at, NOW) == text


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-03-27T09:00:00Z", "10:00"),
        ("2026-03-27T09:00:05Z", "10:00:05"),
        ("2026-03-27T23:30:00Z", "Sat 00:30"),
        ("2026-03-30T07:00:00Z", "Mon 09:00"),
        ("2026-05-12T07:00:00Z", "12 May 09:00"),
        ("2027-05-12T07:00:00Z", "2027-05-12"),
    ],
)
def test_on_the_readers_own_clock(in_berlin: None, at: str, text: str) -> None:
    """S6: with its summer time"""
    assert local(at, NOW) == text
    assert when(at, NOW) == f"{relative_time(at, NOW)} ({text})"


def test_durations() -> None:
    assert [duration_text(ms) for ms in (0, 999, 1500, 12_345, 3_700_000)] == ["0ms", "999ms", "1.5s", "12s", "1h 1m"]
    assert [two_units(s) for s in (0, 45, 90_061)] == ["now", "45s", "1d 1h"]
    assert when(None, NOW) == "–"
