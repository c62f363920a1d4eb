"""Every layer has one table by kind of setting, and every table has every kind; every setting has an example and a
sentence that hold on every surface."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_steps import NOW, RATES

import generate_types
from matins.api import schema
from matins.config import reader
from matins.config.reader import SCHEDULE, TOP
from matins.engine import settings as engine
from matins.engine.settings import ParseContext, format_setting, parse_setting
from matins.engine.validation import is_name
from matins.engine.when.durations import parse_duration
from matins.errors import InvalidInput
from matins.model import settings as kinds
from matins.model.settings import Declared, Kind, Setting, Table
from matins.records import kinds_by_name, record_kinds
from matins.surfaces import text_values
from matins.texts.yaml_nodes import parse

CONTEXT = ParseContext(NOW, RATES, lambda: "Asia/Tokyo")
TABLES: Mapping[str, Mapping[type[Kind], Any]] = {
    "engine.settings.PARSE": engine.PARSE,
    "engine.settings.FORMAT": engine.FORMAT,
    "engine.settings.DUMP": engine.DUMP,
    "engine.settings.LOAD": engine.LOAD,
    "config.nodes.READ": reader.READ,
    "api.schema.FILE_SCHEMA": schema.FILE_SCHEMA,
    "api.schema.BODY_SCHEMA": schema.BODY_SCHEMA,
    "generate_types.TYPE": generate_types.TYPE,
    "generate_types.RESULT": generate_types.RESULT,
    "surfaces.text_values.FROM_TEXT": text_values.FROM_TEXT,
    "surfaces.text_values.METAVAR": text_values.METAVAR,
}
DECLARED: Mapping[str, Table] = {
    "the file": TOP,
    "schedules": SCHEDULE,
    **{noun: kind.table for noun, kind in record_kinds().items()},
}
ALL = [(owner, declared) for owner, table in DECLARED.items() for declared in table.values()]
EVERY = pytest.mark.parametrize(
    "declared", [declared for _, declared in ALL], ids=[f"{owner}.{declared.name}" for owner, declared in ALL]
)
SENTENCE = re.compile(r"[A-Z][^\n]*[^.\s]\.")
FULL_STOPS = re.compile(r"\.\s")


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    """Those that a module has: a dataclass with slots is made twice, and the first one is nobody's."""
    for found in kind.__subclasses__():
        if getattr(sys.modules[found.__module__], found.__name__, None) is found:
            yield found
        yield from subclasses(found)


KINDS = set(subclasses(Kind))


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_every_kind(table: str) -> None:
    assert {kind.__name__ for kind in KINDS ^ set(TABLES[table])} == set(), f"add a line to {table}"


def test_every_kind_is_used() -> None:
    used = {type(declared.kind) for _, declared in ALL}
    assert {kind.__name__ for kind in KINDS - used} == set()


def test_every_kind_of_record_is_found_by_both_names() -> None:
    assert {kind.kind for kind in record_kinds().values()} == set(kinds_by_name())
    assert all(kind.noun == noun for noun, kind in record_kinds().items())


@EVERY
def test_the_help_is_one_sentence(declared: Declared) -> None:
    text = declared.setting.help
    assert SENTENCE.fullmatch(text), text
    assert not FULL_STOPS.search(text), text


@pytest.mark.parametrize("noun", record_kinds())
def test_the_help_of_a_kind_is_one_sentence(noun: str) -> None:
    kind = record_kinds()[noun]
    for text in (kind.help, *([kind.file_help] if kind.in_file else [])):
        assert SENTENCE.fullmatch(text), text
        assert not FULL_STOPS.search(text), text
    assert kind.example.startswith(f"matins {noun.replace('_', '-')} ")
    assert kind.alone in ("", *kind.table)


@EVERY
def test_an_example_is_given_back(declared: Declared) -> None:
    """Parsed, formatted and parsed again it is the same; so it is through the store."""
    value = parse_setting(declared, declared.setting.example, CONTEXT)
    written = format_setting(declared, value)
    assert parse_setting(declared, written, CONTEXT) == value
    assert format_setting(declared, value) == written
    assert through_store(declared, value) == value


def through_store(declared: Declared, value: Any) -> Any:
    (load,) = engine.loaders_of({declared.name: declared}).values()
    return None if value is None else load(orjson.loads(orjson.dumps(engine.DUMP[type(declared.kind)](value))))


@EVERY
def test_a_default_is_what_people_could_have_written(declared: Declared) -> None:
    if declared.default not in (None, "", (), {}):
        written = format_setting(declared, declared.default)
        assert parse_setting(declared, written, CONTEXT) == declared.default
        assert through_store(declared, declared.default) == declared.default


@EVERY
def test_an_example_fits_the_schemas(declared: Declared) -> None:
    example, kind = declared.setting.example, declared.kind
    for table in (schema.FILE_SCHEMA, schema.BODY_SCHEMA):
        validator = jsonschema_rs.Draft202012Validator(table[type(kind)](kind))
        assert validator.is_valid(example)
        written = format_setting(declared, parse_setting(declared, example, CONTEXT))
        assert validator.is_valid(written), "what is given back may be sent again"


@EVERY
def test_an_example_is_read_from_yaml(declared: Declared) -> None:
    node = parse(json.dumps(declared.setting.example))
    assert node is not None
    read = reader.read_node(node, declared.kind)
    assert parse_setting(declared, read, CONTEXT) == parse_setting(declared, declared.setting.example, CONTEXT)


@EVERY
def test_an_example_is_read_from_text(declared: Declared) -> None:
    """As people type it on the command line; JSON where there is no other way."""
    example = declared.setting.example
    if isinstance(example, list) and isinstance(declared.kind, (kinds.Names, kinds.Windows)):
        text = ", ".join(example)
    elif isinstance(example, bool | list | dict):
        text = json.dumps(example)
    else:
        text = str(example)
    read = text_values.from_text(declared, text)
    assert parse_setting(declared, read, CONTEXT) == parse_setting(declared, example, CONTEXT)


WRONG_TYPES: tuple[Any, ...] = (
    object(), b"x", {1, 2}, 7.5, -1, True, "", [], [[]], [7], {"x": []}, {"x": {"y": 1}}, math.nan,
)  # fmt: skip
SECRETS = (kinds.Secret, kinds.Url, kinds.Variables)
"""What an error about these does not repeat."""


@EVERY
def test_a_value_of_another_type_is_named_with_what_to_type(declared: Declared) -> None:
    """P7: whatever the schema refuses is refused with the setting, the value and a hint, and no other exception"""
    body = jsonschema_rs.Draft202012Validator(schema.BODY_SCHEMA[type(declared.kind)](declared.kind))
    for wrong in WRONG_TYPES:
        if is_json(wrong) and body.is_valid(wrong):
            continue
        with pytest.raises(InvalidInput) as caught:
            parse_setting(declared, wrong, CONTEXT)
        error = caught.value
        inside = str(error.field).startswith((f"{declared.name}[", f"{declared.name}."))  # one item of a list
        assert inside or (error.field == declared.name and declared.name in error.message)
        assert inside or error.value is wrong or isinstance(declared.kind, SECRETS)
        assert error.hint
        assert error.message[-1] == "."


def is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("noun", [noun for noun, kind in record_kinds().items() if not kind.single])
def test_a_record_needs_a_key_that_can_be_shown(noun: str) -> None:
    kind = record_kinds()[noun]
    wrong: tuple[Any, ...] = ("", " ", "a\nb", "a\0b", "\ud800", "x" * 201, None, 5, ["m"])
    for key in wrong:
        with pytest.raises(InvalidInput) as caught:
            kind.check_key(key)
        assert (caught.value.field, caught.value.hint) == (kind.key, f"For example: {kind.example}")


@EVERY
def test_the_hint_can_be_typed(declared: Declared) -> None:
    """P7: an example is one of the setting; a default is named where there is one to omit"""
    hint = engine.default_hint(declared)
    name, _, example = hint.removeprefix("For example: ").removesuffix(".").partition("=")
    if hint.startswith("For example: "):
        assert (name, json.loads(example)) == (declared.name, declared.setting.example)
    else:
        assert hint.startswith("Omit it to use the default, ")
        assert declared.default not in (None, "")


def declared(kind: Kind) -> Declared:
    return Declared("it", "it", Setting(kind, "A setting.", "x"), None)


def back(kind: Kind, value: Any) -> Any:
    """A value through what people write, and through the store."""
    held = parse_setting(declared(kind), value, CONTEXT)
    written = json.loads(json.dumps(format_setting(declared(kind), held)))
    assert parse_setting(declared(kind), written, CONTEXT) == held
    assert through_store(declared(kind), held) == held
    return held


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20).filter(is_name)


@given(st.integers(1, 10_000), st.sampled_from("smhd"))
def test_durations(number: int, unit: str) -> None:
    text = f"{number}{unit}"
    assert back(kinds.Duration(), text) == back(kinds.Duration(none=True), text) == parse_duration(text)


@given(st.integers(1, 10_000), st.sampled_from(["B", "KB", "MB", "GB", "kb", " Mb"]))
def test_sizes(number: int, unit: str) -> None:
    kind = kinds.Size(1, none=True)
    factor = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}[unit.strip().upper()]
    assert back(kind, f"{number}{unit}") == number * factor
    assert parse_setting(declared(kind), "none", CONTEXT) is None


@pytest.mark.parametrize("value", ["", "4", 4, "4GiB", "-4GB", "1.5GB", "0B", "9999TB", "none", "4 G B", "9B"])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="a size from 10B to 1000TB"):
        parse_setting(declared(kinds.Size(10)), value, CONTEXT)


def test_no_duration_is_none_where_it_may_be() -> None:
    assert parse_setting(declared(kinds.Duration(none=True)), "none", CONTEXT) is None
    assert format_setting(declared(kinds.Duration(none=True)), None) == "none"
    assert format_setting(declared(kinds.Duration()), None) is None
    with pytest.raises(InvalidInput):
        parse_setting(declared(kinds.Duration()), "none", CONTEXT)


@given(st.datetimes(datetime(1973, 4, 1), datetime(9999, 1, 1), timezones=st.just(UTC)))
def test_instants(at: datetime) -> None:
    ms = round(at.replace(microsecond=at.microsecond // 1000 * 1000).timestamp() * 1000)
    assert back(kinds.Instant(), ms) == ms
    assert back(kinds.Instant(), at.isoformat(timespec="milliseconds")) == ms


@given(st.integers(0, 10**15))
def test_money(micros: int) -> None:
    """What is shown may be rounded: shown again, it is the same."""
    shown = engine.FORMAT[kinds.Money](micros)
    assert engine.FORMAT[kinds.Money](parse_setting(declared(kinds.Money()), shown, CONTEXT)) == shown


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_lists(names: list[str]) -> None:
    assert back(kinds.Names(), names) == back(kinds.Arguments(), names) == back(kinds.Command(), names) == tuple(names)


@given(st.dictionaries(NAMES, NAMES, min_size=1, max_size=5))
def test_labels(labels: dict[str, str]) -> None:
    assert back(kinds.Labels(), labels) == labels


TEXTS = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(-(1 << 53), 1 << 53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_json(value: Any) -> None:
    assert back(kinds.Json(), value) == value or value is None


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), NAMES, min_size=1, max_size=4))
def test_values_of_variables_are_kept_and_never_shown(variables: dict[str, str]) -> None:
    """B7: only references are shown"""
    variables = {name: text for name, text in variables.items() if text not in ("…", "env:", "file:")}
    held = parse_setting(declared(kinds.Variables()), variables, CONTEXT)
    assert through_store(declared(kinds.Variables()), held) == held == tuple(variables.items())
    shown = format_setting(declared(kinds.Variables()), held)
    assert shown == {
        name: text if text.startswith(("env:", "file:")) else engine.REDACTED for name, text in variables.items()
    }


@pytest.mark.parametrize("secret", ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "hunter2", "env:", "file:"])
def test_a_secret_itself_is_refused_and_never_shown(secret: str) -> None:
    """B7"""
    with pytest.raises(InvalidInput) as caught:
        parse_setting(declared(kinds.Secret()), secret, CONTEXT)
    assert secret not in (caught.value.message, caught.value.value, str(caught.value.hint))
    assert format_setting(declared(kinds.Secret()), secret) in (engine.REDACTED, "env:", "file:")
    assert back(kinds.Secret(), "env:HOOK") == "env:HOOK"
