"""The same settings in a file and in a call mean the same, however the file is written."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from config_steps import EXAMPLES_KNOWN, NOW, interpreted
from file_settings_page import PAGE
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from matins.engine.schedules import SETTINGS, parse_schedule
from matins.model.settings import Choice, Duration, Int

ALONE = ("strict", "prompt", "job", "approvals_required", "steps", "command", "stdin")
"""What does not go with any of the others."""


def _value(name: str) -> st.SearchStrategy[Any]:
    kind = SETTINGS[name].kind
    if isinstance(kind, Int):
        return st.integers(kind.low, min(kind.high, 10**6))
    if isinstance(kind, Choice) and name != "approval":
        return st.sampled_from(kind.values)
    if isinstance(kind, Duration):
        return st.builds(lambda n, unit: f"{n}{unit}", st.integers(1, 90), st.sampled_from("smhd"))
    return st.just(SETTINGS[name].setting.example)


GIVEN = st.fixed_dictionaries(
    {"when": st.sampled_from(["5m", "0 2 * * *", "every weekday at 9am", "in 2 hours"]), "job": st.just("work")},
    optional={name: _value(name) for name in SETTINGS if name not in ALONE},
)


def in_block_style(value: Any) -> str:
    stream = io.StringIO()
    writer = YAML()
    writer.version = (1, 2)
    writer.dump(value, stream)
    return stream.getvalue().replace("%YAML 1.2\n---\n", "")


@settings(max_examples=40)
@drawn(GIVEN, st.booleans())
def test_a_file_means_what_a_call_with_its_settings_means(given: dict[str, Any], block: bool) -> None:
    """H12, C7"""
    whole = {"schedules": {"s": given}}
    found = interpreted(in_block_style(whole) if block else json.dumps(whole), EXAMPLES_KNOWN)
    assert found.problems == ()
    rest = {name: value for name, value in given.items() if name != "when"}
    assert found.entries[0].meant.definition == parse_schedule(given["when"], rest, NOW)[0]


@settings(max_examples=40)
@drawn(GIVEN, GIVEN)
def test_digests_differ_where_and_only_where_settings_do(one: dict[str, Any], other: dict[str, Any]) -> None:
    """C7: by digest of every field"""
    first, second = (
        interpreted(json.dumps({"schedules": {"s": given}}), EXAMPLES_KNOWN).entries[0].digest for given in (one, other)
    )
    assert (first == second) == (one == other)
    mixed = dict(reversed(one.items()))
    assert interpreted(in_block_style({"schedules": {"s": mixed}}), EXAMPLES_KNOWN).entries[0].digest == first


(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@drawn(st.integers(0, len(EXAMPLE)), st.integers(0, 30), st.text(max_size=4) | st.sampled_from([": ", "\n", "- ", "{"]))
def test_a_damaged_file_is_understood_or_refused(at: int, length: int, instead: str) -> None:
    """C7: whatever is cut out of it or typed into it, each problem has a place inside the text"""
    text = EXAMPLE[:at] + instead + EXAMPLE[at + length :]
    lines = text.count("\n") + 2
    for problem in interpreted(text, EXAMPLES_KNOWN).problems:
        assert 1 <= problem.position.line <= lines
        assert problem.what
