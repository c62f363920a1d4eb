"""The schema of the file, and the page: both from the declarations."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from config_steps import EXAMPLES_KNOWN, interpreted
from file_settings_page import PAGE, rendered
from hypothesis import given
from hypothesis import strategies as st

from matins.app import App
from matins.config.reader import SCHEDULE, SCHEDULES, TOP, sections, singles
from matins.config.schema import schema
from matins.model.settings import Table
from matins.texts.yaml_nodes import parse, to_python

VALIDATOR = jsonschema_rs.Draft202012Validator(schema())
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
TABLES: dict[str, Table] = {SCHEDULES: SCHEDULE, **{name: kind.table for name, kind in sections().items()}}
SINGLE = {name: kind.table[kind.alone].setting.example for name, kind in singles().items() if kind.alone}


def errors(text: str) -> list[str]:
    root = parse(text)
    return [error.message for error in VALIDATOR.iter_errors(None if root is None else to_python(root))]


def test_the_schema_is_one_of_draft_2020_12() -> None:
    """What `matins schema` prints is the schema of these tests."""
    printed = json.loads(App().file_schema())
    assert printed == schema()
    jsonschema_rs.meta.validate(printed)


def test_the_page_says_what_the_declarations_say() -> None:
    page = rendered()
    assert PAGE.read_text(encoding="utf-8") == page, "run make pages"
    for table in TABLES.values():
        assert all(f"| `{name}` | {declared.setting.help}" in page for name, declared in table.items())


def test_every_setting_is_described() -> None:
    def walk(node: Any, path: str) -> None:
        for name, inner in node.get("properties", {}).items():
            assert inner.get("description") or "anyOf" in inner or name in ("from", "to", "days"), f"{path}.{name}"
            walk(inner, f"{path}.{name}")

    walk(schema(), "")
    walk(schema()["$defs"]["schedule"], "schedule")


def test_the_example_of_the_page_is_a_file() -> None:
    """C7: loaded as it stands there, and with every kind of record that a file may have"""
    (text,) = EXAMPLE
    assert interpreted(text).problems == ()
    assert errors(text) == []
    kinds = {entry.kind for entry in interpreted(text).entries}
    assert kinds == {"schedule", *(kind.kind for kind in (*sections().values(), *singles().values()))}


@pytest.mark.parametrize("section", TABLES)
def test_every_example_is_valid(section: str) -> None:
    """Each setting's example alone, beside what its record needs."""
    table = TABLES[section]
    needed = {name: declared.setting.example for name, declared in table.items() if declared.setting.required}
    for name, declared in table.items():
        given = {**needed, **NEEDS.get(section, {}), **BESIDE.get((section, name), {}), name: declared.setting.example}
        record = {setting: value for setting, value in given.items() if value is not None}
        text = json.dumps({section: {KEYS.get(section, "scout"): record}})
        assert errors(text) == [], name
        elsewhere = (section, name) in (("hooks", "command"), ("calendars", "ics"))  # files that not every machine has
        assert elsewhere or interpreted(text, EXAMPLES_KNOWN).problems == (), name


KEYS = {"calendars": "closing", "chat": "slack", "hooks": "before:schedule:trigger", "rates": "EUR", "limits": "global"}
NEEDS: dict[str, dict[str, Any]] = {
    "schedules": {"when": "every 1h", "job": "work"},
    "budgets": {"max_cost": "$5"},
    "work_sources": {"repo": "a/b"},
    "hooks": {"command": "true"},
    "destinations": {"to": ["alerts"]},
    "chat": {"app_token": "env:SLACK_APP_TOKEN"},
    "calendars": {"dates": ["12-25"]},
    "quiet_hours": {"windows": ["22:00-07:00"]},
}
HMAC = {"kind": "hmac", "header": "X-Signature"}
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("schedules", "steps"): {"job": None},
    ("schedules", "command"): {"job": None},
    ("schedules", "stdin"): {"job": None, "command": "sort"},
    ("agents", "options"): {"runner": "openai"},
    ("schedules", "type"): {"when": None, "interval": "5m"},
    ("schedules", "interval"): {"when": None, "type": "interval"},
    ("schedules", "expression"): {"when": None, "type": "cron"},
    ("schedules", "cron"): {"when": None, "type": "cron"},
    ("schedules", "strict"): {"when": "0 2 * * *"},
    ("schedules", "prompt"): {"agent": "scout", "job": None},
    ("budgets", "of"): {"scope": "agent"},
    **dict.fromkeys((("inbound", name) for name in ("prefix", "encoding", "algorithm", "header")), HMAC),
    ("destinations", "to"): {"kind": "email"},
    ("inbound", "id"): {"kind": "bearer"},
    ("inbound", "signed"): {**HMAC, "timestamp": "X-Timestamp"},
    ("inbound", "timestamp"): {**HMAC, "signed": "{timestamp}.{body}"},
    ("work_sources", "path"): {"kind": "tasks", "repo": None},
}


@pytest.mark.parametrize(
    ("name", "value"), [*((name, declared.setting.example) for name, declared in TOP.items()), *SINGLE.items()]
)
def test_the_keys_of_the_file_itself(name: str, value: Any) -> None:
    text = json.dumps({name: value})
    assert errors(text) == []
    assert interpreted(text, EXAMPLES_KNOWN).problems == ()


@pytest.mark.parametrize("noun", [noun for noun, kind in sections().items() if kind.alone])
def test_a_bare_value_stands_for_the_record(noun: str) -> None:
    kind = sections()[noun]
    example = kind.table[kind.alone].setting.example if noun != "hooks" else "true"
    bare, whole = (json.dumps({noun: {KEYS[noun]: value}}) for value in (example, {kind.alone: example}))
    assert errors(bare) == errors(whole) == []
    (one,), (other,) = interpreted(bare).entries, interpreted(whole).entries
    assert (one.key, one.meant, one.digest) == (other.key, other.meant, other.digest)


@pytest.mark.parametrize(
    "text",
    [
        "shedules: {}",
        "schedules: {s: {when: 5m, job: w, overlp: skip}}",
        "schedules: {s: {when: 5m, job: w, overlap: sometimes}}",
        "schedules: {s: {when: 5m, job: w, catch_up_limit: 0}}",
        "schedules: {s: {when: 5m, job: w, grace: 5x}}",
        "agents: {a: {model: x}}",
        "quiet_hours: {n: {window: 22:00-07:00}}",
        "limits: {global: 0}",
        "limits: {global: {}}",
        "edits: perhaps",
        "webhooks: {w: {url: https://e.com}}",
    ],
)
def test_editors_see_what_the_reader_refuses(text: str) -> None:
    assert errors(text)
    assert interpreted(text).problems


_SCALARS = st.sampled_from([None, True, 0, 5, 1.5, "5m", "skip", "x", "every 1h", "$2", [], ["a"], {}, {"a": 1}])


@given(st.dictionaries(st.sampled_from(sorted(SCHEDULE)), _SCALARS, max_size=5))
def test_what_the_reader_takes_editors_do_not_mark(settings: dict[str, Any]) -> None:
    """A setting that is underlined although it works would be worse than none."""
    text = json.dumps({"schedules": {"s": {"when": "every 1h", "job": "work", **settings}}})
    if not interpreted(text, EXAMPLES_KNOWN).problems:
        assert errors(text) == []


_KINDS = sorted(name for name in TABLES if name != SCHEDULES)


@given(st.sampled_from(_KINDS).flatmap(
    lambda section: st.tuples(
        st.just(section), st.dictionaries(st.sampled_from(sorted(TABLES[section])), _SCALARS, max_size=4)
    )
))  # fmt: skip
def test_nor_of_any_other_record(given: tuple[str, dict[str, Any]]) -> None:
    section, settings = given
    needed = {name: declared.setting.example for name, declared in TABLES[section].items() if declared.setting.required}
    record = {**needed, **NEEDS.get(section, {}), **settings}
    text = json.dumps({section: {KEYS.get(section, "scout"): record}})
    if not interpreted(text, EXAMPLES_KNOWN).problems:
        assert errors(text) == []
