"""What is written into the text: what was asked, and no other byte. Row C7."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matins.config.reader import Location, read
from matins.config.writer import edit_settings, remove_item, set_settings
from matins.errors import Conflict

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12)
_NAMES = st.from_regex(r"[A-Z_]{1,6}", fullmatch=True)
_SETTINGS = st.fixed_dictionaries(
    {"runner": st.sampled_from(["demo", "shell"])},
    optional={
        "model": _TEXTS,
        "tools": st.lists(_TEXTS, min_size=1, max_size=3),
        "max_turns": st.integers(1, 99),
        "environment": st.dictionaries(_NAMES, _TEXTS, min_size=1, max_size=3),
        "options": st.dictionaries(_TEXTS, st.integers(0, 9) | st.booleans() | st.none() | _TEXTS, max_size=3),
    },
)
_BEFORE = """\
agents:
  first: {runner: demo} # one
  # the second
"""
_AFTER = """\

  # the third
  third:
    runner: demo # three
schedules: # none
"""
_LAYOUTS = {
    "below one another": """\
  it: # this one
    # what wakes it
    runner: demo # r
    model: "m"
    tools:
      - Read
      - Grep
    environment: # where
      API_KEY: env:API_KEY
      LANG: C
    # how far
    options: {a: 1}
""",
    "between braces": '  it: {runner: demo, model: "m", tools: [Read], environment: {LANG: C}} # it\n',
    "over lines": "  it: {\n    runner: demo,\n    model: m,\n    environment: {LANG: C, TZ: UTC},\n  }\n",
    "with its schedules": "  it:\n    schedules:\n      s: {when: 5m}\n    tools:\n    - Read\n    runner: demo\n",
    "nothing yet": "  it:\n",
}


def location_of(text: str, name: str, kind: str = "agent") -> Location:
    return next(item for item in read(text).items if (item.kind, item.name) == (kind, name)).block.location


def settings_of(text: str, name: str) -> dict[str, Any]:
    values = next(item for item in read(text).items if item.name == name).block.values
    return {setting: value for setting, value in values.items() if value not in (None, {})}


@pytest.mark.parametrize("layout", _LAYOUTS.values(), ids=_LAYOUTS.keys())
@settings(max_examples=40)
@given(settings=_SETTINGS, newline=st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_set_is_read_again(layout: str, settings: dict[str, Any], newline: str) -> None:
    """Round trips: the record has exactly these settings, and the rest of the text stays as it was, byte for byte; what
    is taken out takes nothing else along"""
    before, text, after = (part.replace("\n", newline) for part in (_BEFORE, _BEFORE + layout + _AFTER, _AFTER))
    for name, value in settings.get("environment", {}).items():
        if name in ("API_KEY", "LANG"):
            settings["environment"][name] = f"env:{value}"
    new = set_settings(text, location_of(text, "it"), settings)
    assert settings_of(new, "it") == {setting: value for setting, value in settings.items() if value != {}}
    assert new.startswith(before)
    assert new.endswith(after)
    assert new.count("\n") == new.count(newline)
    if "schedules:" in layout:
        with pytest.raises(Conflict, match="cannot be changed safely"):
            remove_item(new, location_of(new, "it"))
    else:
        assert remove_item(new, location_of(new, "it")) == before + after


def test_with_comments_and_no_more_settings_than_asked() -> None:
    text = _BEFORE + _LAYOUTS["below one another"] + _AFTER
    new = set_settings(text, location_of(text, "it"), {"runner": "shell", "options": {"a": 2}})
    lines = "  it: # this one\n    # what wakes it\n    runner: shell # r\n    # how far\n    options: {a: 2}\n"
    assert new == _BEFORE + lines + _AFTER


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("agents: {it: {runner: demo, tools: [a, # one\n b]}}\n", {"runner": "demo", "tools": ["c"]}),
        ("agents: {it: {runner: demo, model: m, # big\n max_turns: 1}}\n", {"runner": "demo", "max_turns": 1}),
        ("agents:\n  it:\n    runner: demo\n    tools:\n    - a #\n    - b\n", {"runner": "demo", "tools": ["b", "a"]}),
        ("agents:\n  it:\n    runner: |-\n      demo\n", {"runner": "demo", "model": "m"}),
    ],
    ids=["flow list", "flow word", "order of a list", "no line of its own"],
)  # fmt: skip
def test_no_comment_is_lost_and_nothing_is_guessed(text: str, settings: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match=r"agents\.it, line \d+ of the file"):
        set_settings(text, location_of(text, "it"), settings)


def test_a_truth_is_no_number() -> None:
    """To Python they are the same"""
    text = "schedules:\n  s: {when: 5m, job: work, payload: {a: 1, b: null}}\n"
    location = location_of(text, "s", "schedule")
    assert edit_settings(text, location, {"payload": {"a": True, "b": None}}) == text.replace(
        "{a: 1, b: null}", '{"a": true, "b": null}'
    )
    assert edit_settings(text, location, {"payload": {"a": 1}}) == text.replace("{a: 1, b: null}", '{"a": 1}')
    text = text.replace(", b: null", ", b: 2")
    assert edit_settings(text, location, {"payload": {"a": True, "b": 2}}) == text.replace("a: 1", "a: true")


@pytest.mark.parametrize("name", ["null", "a: b", "- a", "#", "'", "x\n    model: y", "é"])
def test_names_in_a_mapping_are_quoted_where_they_must_be(name: str) -> None:
    text = "agents:\n  it:\n    runner: demo\n    options:\n      a: 1 # one\n"
    new = set_settings(text, location_of(text, "it"), {"runner": "demo", "options": {"a": 1, name: 2}})
    assert settings_of(new, "it")["options"] == {"a": 1, name: 2}
    assert new.startswith(text)


def test_names_that_hold_dots_are_told_apart() -> None:
    text = "agents:\n  a:\n    runner: demo\n    schedules:\n      s: {when: 5m}\n  a.schedules.s: {runner: demo}\n"
    new = set_settings(text, location_of(text, "a.schedules.s"), {"runner": "shell"})
    assert new == text.replace("s: {runner: demo}", 's: {runner: "shell"}')


@pytest.mark.parametrize("hostile", ["a\x85b", "a\u2028b", "\u202etxet", "\ufeffa", "\x7f", "😀"])
def test_v6_what_reads_otherwise_than_it_looks_is_escaped(hostile: str) -> None:
    """V6: no line breaks of other kinds, and nothing that turns the rest of a line round; as an item and as a name"""
    text = "agents:\n  it:\n    runner: demo\n    tools:\n    - a\n    options:\n      a: 1\n      b: {c: 1}\n"
    settings = {"runner": "demo", "tools": ["a", hostile], "options": {"a": 1, "b": {"c": 1, hostile: 2}, hostile: 2}}
    new = set_settings(text, location_of(text, "it"), settings)
    assert settings_of(new, "it") == settings
    assert all(line.isprintable() for line in new.split("\n"))
