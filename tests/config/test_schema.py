"""The schema that is shipped, and the page: both from the tables of words."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from config_steps import WORLD, judged
from file_words import PAGE, SCHEMA, rendered
from hypothesis import given
from hypothesis import strategies as st

from matins import config
from matins.config.examples import EXAMPLES, TOP
from matins.config.json_schema import schema, shipped, written
from matins.config.words import SECTIONS
from matins.texts.yaml_nodes import meant, parse

VALIDATOR = jsonschema_rs.Draft202012Validator(schema())
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def errors(text: str) -> list[str]:
    root = parse(text)
    return [error.message for error in VALIDATOR.iter_errors(None if root is None else meant(root))]


def test_what_is_shipped_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == written() == shipped(), (
        "run .venv/bin/python tests/config/file_words.py"
    )
    assert config.schema() == schema()


def test_the_page_says_what_the_tables_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run .venv/bin/python tests/config/file_words.py"
    for section in SECTIONS.values():
        assert all(f"| `{word}` |" in page for word in section.table)


def test_every_word_is_described() -> None:
    def walk(node: Any, path: str) -> None:
        for name, inner in node.get("properties", {}).items():
            assert inner.get("description") or "anyOf" in inner or name in ("from", "to", "days"), f"{path}.{name}"
            walk(inner, f"{path}.{name}")

    walk(schema(), "")
    walk(schema()["$defs"]["schedule"], "schedule")


def test_the_example_of_the_page_is_a_file() -> None:
    """C7: loaded as it stands there"""
    (text,) = EXAMPLE
    assert judged(text).problems == ()
    assert errors(text) == []
    kinds = {entry.kind for entry in judged(text).entries}
    assert kinds == {*(section.kind for section in SECTIONS.values()), "rate", "limit", "setting"}


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_every_example_is_valid(kind: str) -> None:
    """Each word's example alone, beside what its thing needs."""
    section, table = next((name, section.table) for name, section in SECTIONS.items() if section.kind == kind)
    assert set(EXAMPLES[kind]) == set(table)
    for word, example in EXAMPLES[kind].items():
        needed = {name: EXAMPLES[kind][name] for name, said in table.items() if said.needed}
        words = {**needed, **NEEDS.get(kind, {}), **BESIDE.get((kind, word), {}), word: example}
        name = "before:schedule:trigger" if kind == "hook" else "scout"
        text = json.dumps({section: {name: {word: value for word, value in words.items() if value is not None}}})
        assert errors(text) == [], word
        programs = (kind, word) == ("hook", "command")  # which are not on every machine
        assert programs or judged(text, JUDGED).problems == (), word


NEEDS: dict[str, dict[str, Any]] = {
    "schedule": {"when": "every 1h", "do": "work"},
    "budget": {"money": "$5"},
    "work": {"repo": "a/b"},
    "hook": {"command": "true"},
}
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("schedule", "type"): {"when": None, "interval": "5m"},
    ("schedule", "interval"): {"when": None, "type": "interval"},
    ("schedule", "expression"): {"when": None, "type": "cron"},
    ("schedule", "strict"): {"when": "0 2 * * *"},
    ("schedule", "prompt"): {"agent": "scout", "do": None},
    ("budget", "of"): {"scope": "agent"},
    ("work", "path"): {"kind": "tasks", "repo": None},
}
JUDGED = WORLD._replace(agents=frozenset({"scout"}), quiet_hours=frozenset({"nights"}), work=frozenset({"backlog"}))


@pytest.mark.parametrize(("word", "value"), TOP.items())
def test_the_words_of_the_file_itself(word: str, value: Any) -> None:
    text = json.dumps({word: value})
    assert errors(text) == []
    assert judged(text).problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "shedules: {}",
        "schedules: {s: {when: 5m, do: w, overlp: skip}}",
        "schedules: {s: {when: 5m, do: w, overlap: sometimes}}",
        "schedules: {s: {when: 5m, do: w, cap: 0}}",
        "schedules: {s: {when: 5m, do: w, grace: 5x}}",
        "agents: {a: {model: x}}",
        "quiet_hours: {n: {}}",
        "limits: {global: 0}",
        "edits: perhaps",
    ],
)
def test_editors_see_what_the_reader_refuses(text: str) -> None:
    assert errors(text)
    assert judged(text).problems


_SCALARS = st.sampled_from([None, True, 0, 5, 1.5, "5m", "skip", "x", "every 1h", "$2", [], ["a"], {}, {"a": 1}])


@given(st.dictionaries(st.sampled_from(sorted(SECTIONS["schedules"].table)), _SCALARS, max_size=5))
def test_what_the_reader_takes_editors_do_not_mark(words: dict[str, Any]) -> None:
    """A word that is underlined although it works would be worse than none."""
    text = json.dumps({"schedules": {"s": {"when": "every 1h", "do": "work", **words}}})
    if not judged(text, JUDGED).problems:
        assert errors(text) == []
