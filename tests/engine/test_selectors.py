"""Selectors: text and value, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.selectors import STATES, format_selector, parse_selector, selector_text, selects
from matins.errors import InvalidInput
from matins.model.selector import ALL, Selectable, Selector, Term, Value

OPS = Selectable("report-1", "ops", "active", {"team": "ops", "tier": "1"}, "4f2a", "ops/report-1 quota")
words = st.text(st.sampled_from('ab*/,"\\ =!é.'), min_size=1, max_size=5).filter(lambda text: bool(text.strip()))
values = st.builds(Value, words, st.just(True)) | st.builds(Value, st.sampled_from(["a*", "*", "b/*"]), st.just(False))
terms = st.builds(
    Term,
    st.sampled_from(["name", "agent", "text", "pause", "label.team", "label.a b", 'label."x=!'])
    | words.map(lambda word: f"label.{word}"),
    st.lists(values, min_size=1, max_size=3).map(tuple),
    st.booleans(),
) | st.builds(Term, st.just("state"), st.sampled_from(STATES).map(lambda one: (Value(one),)), st.booleans())


@given(st.lists(terms, max_size=4))
def test_what_is_written_is_read(many: list[Term]) -> None:
    """Whatever names have in them"""
    selector = Selector(tuple(many))
    assert parse_selector(format_selector(selector)) == selector


@pytest.mark.parametrize(
    ("text", "selected"),
    [("", True), ("all", True), ("agent=ops label.team=ops state=active report-*", True), ("report", False),
     ("*report*", True), ("ops/report-1", True), ("ops/*", True), ("ops*", False), ('"report-*"', False),
     ("label.team", True), ("label.size", False), ("label.size!=s", True), ("label.team!=ops", False),
     ("label.team=dev,ops", True), ("a,report-1", True), ("state!=active,paused", False), ("pause=4f2a", True),
     ("text=QUOTA", True), ('text="1 quo"', True), ("name=all", False), ("agent=ops agent=dev", False)],
)  # fmt: skip
def test_what_it_selects(text: str, selected: bool) -> None:
    assert selects(parse_selector(text), OPS) is selected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [("team=ops", '"team" is nothing that a selector knows.', "For a label: label.team=ops"),
     ("agnet=x", '"agnet" is nothing that a selector knows.', 'Did you mean "agent"?'),
     ("state=asleep", '"asleep" is not a state of schedules.', "Known: pending, active"),
     ("agent=", '"select" ends before a value.', "For example"), ("a,,b", '"select" lacks a value', "For example"),
     ('"a', '"select" lacks a value', "For example"), ('"a"b', '"select" needs a space', "For example"),
     ("x\0", "contains a character", "For example"), (",".join(["a"] * 501), "more than 500 values", "pattern"),
     ("a" * 20_001, "longer than 20,000 characters", "pattern")],
)  # fmt: skip
def test_what_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_selector(text)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert caught.value.field == "select"


def test_what_commands_ask_for() -> None:
    """Labels after a word that says label have no prefix"""
    assert selector_text() is None
    assert selector_text(["a", "b-*"], agent="ops", labels=["team=ops", "tier"], state="paused", text="50 %") == (
        'a,b-* agent=ops state=paused text="50 %" label.team=ops label.tier'
    )
    for wrong in ("=ops", "team="):
        with pytest.raises(InvalidInput, match="is not a label"):
            selector_text(labels=[wrong])
    assert parse_selector(" all ") == ALL
