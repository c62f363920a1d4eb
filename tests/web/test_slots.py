"""The bar of past slots, as it is drawn."""

from __future__ import annotations

from matins.web.drawings import SlotBar, mark
from matins.web.templates import Look


def test_texts_from_outside_stay_texts() -> None:
    """Quotes and tags are escaped, and characters that hide or reorder others are written out."""
    bar = SlotBar([mark(0, Look("failed", "Failed"), '"><b>x</b>\u202e')], "")
    assert 'data-tip="&#34;&gt;&lt;b&gt;x&lt;/b&gt;U+202E"' in bar.svg


def test_marks_that_look_alike_are_one_path() -> None:
    looks = [Look("succeeded", "Succeeded"), Look("succeeded", "Succeeded"), Look("missed", "Missed")]
    bar = SlotBar([mark(number, look, "") for number, look in enumerate(looks)], "")
    assert bar.svg.count("<path") == 2
    assert '<path class="is-succeeded" d="M3 3v16M9 3v16"/>' in bar.svg
    assert bar.svg.count("<rect") == 3
