"""The same words in a file and in a call mean the same, however the file is written."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from config_steps import NOW, judged
from file_words import PAGE
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from test_schema import JUDGED

from matins.config.examples import SCHEDULE
from matins.config.words import OWN_WORDS
from matins.engine.schedules import define

NUMBERS = {name: word for name, word in OWN_WORDS.items() if word.shape == "number"}
APART = ("agent", "preset", "paused", "type", "interval", "expression", "prompt", "when", "do", "approvals_needed")


def _value(name: str) -> st.SearchStrategy[Any]:
    word = OWN_WORDS[name]
    if name in NUMBERS:
        return st.integers(int(word.low or 0), min(int(word.high or 0), 10**6))
    if word.shape == "choice" and name != "approval":
        return st.sampled_from(word.choices)
    if word.shape == "duration":
        return st.builds(lambda n, unit: f"{n}{unit}", st.integers(1, 90), st.sampled_from("smhd"))
    return st.just(SCHEDULE[name])


WORDS = st.fixed_dictionaries(
    {"when": st.sampled_from(["5m", "0 2 * * *", "every weekday at 9am", "in 2 hours"]), "do": st.just("work")},
    optional={name: _value(name) for name in SCHEDULE if name not in APART and name != "strict"},
)


def in_block_style(value: Any) -> str:
    stream = io.StringIO()
    writer = YAML()
    writer.version = (1, 2)
    writer.dump(value, stream)
    return stream.getvalue().replace("%YAML 1.2\n---\n", "")


@settings(max_examples=40)
@given(WORDS, st.booleans())
def test_a_file_means_what_a_call_with_its_words_means(words: dict[str, Any], block: bool) -> None:
    """H12, C7"""
    whole = {"schedules": {"s": words}}
    meaning = judged(in_block_style(whole) if block else json.dumps(whole), JUDGED)
    assert meaning.problems == ()
    said = {word: value for word, value in words.items() if word != "when"}
    assert meaning.entries[0].meant.definition == define(words["when"], said, NOW)[0]


@settings(max_examples=40)
@given(WORDS, WORDS)
def test_digests_differ_where_and_only_where_words_do(one: dict[str, Any], other: dict[str, Any]) -> None:
    """C7: by digest of every field"""
    first, second = (
        judged(json.dumps({"schedules": {"s": words}}), JUDGED).entries[0].digest for words in (one, other)
    )
    assert (first == second) == (one == other)
    mixed = dict(reversed(one.items()))
    assert judged(in_block_style({"schedules": {"s": mixed}}), JUDGED).entries[0].digest == first


(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@given(st.integers(0, len(EXAMPLE)), st.integers(0, 30), st.text(max_size=4) | st.sampled_from([": ", "\n", "- ", "{"]))
def test_a_damaged_file_is_understood_or_refused(at: int, length: int, instead: str) -> None:
    """C7: whatever is cut out of it or typed into it, each problem has a place inside the text"""
    text = EXAMPLE[:at] + instead + EXAMPLE[at + length :]
    lines = text.count("\n") + 2
    for problem in judged(text, JUDGED).problems:
        assert 1 <= problem.place.line <= lines
        assert problem.what
