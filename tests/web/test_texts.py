"""Texts from outside in templates."""

from __future__ import annotations

from matins.web.templates import StaticFiles, environment

TEMPLATE = '<a title="{{ text }}">{{ text | shown }}</a><input value="{{ text | as_is }}">'


def test_hidden_characters_are_written_out_wherever_a_text_is_printed() -> None:
    """In attributes too, where no element can mark them; the value of a field stays what it was."""
    page = environment(StaticFiles()).from_string(TEMPLATE).render(text='é"<\u202e\x1b\U000e0041')
    assert page == (
        '<a title="é&#34;&lt;U+202EESCU+E0041">'
        'é&#34;&lt;<span class="hidden-character">U+202E</span>'
        '<span class="hidden-character">ESC</span>'
        '<span class="hidden-character">U+E0041</span></a>'
        '<input value="é&#34;&lt;\u202e\x1b\U000e0041">'
    )
