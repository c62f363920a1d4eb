"""Every result is written as JSON and read back."""

from __future__ import annotations

import math
import types
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matins.api import _results, codec, results
from matins.api import schedules as _all_use_cases
from matins.api.use_case import USE_CASES, UseCase
from matins.errors import StoreUnavailable

assert _all_use_cases.Api
STRUCTS = {
    kind.__name__: kind
    for module in (results, _results)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    None: st.none(),
    types.NoneType: st.none(),
    datetime: st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)),
    Any: JSON,
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Made from annotations."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{field.name: values_of(field.type) for field in msgspec.structs.fields(kind)})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return values_of(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    assert origin in (Union, types.UnionType), kind
    return st.one_of([values_of(argument) for argument in arguments])


@pytest.mark.parametrize("use_case", USE_CASES.values(), ids=lambda use_case: use_case.name)
def test_the_result_of_every_use_case_comes_back_as_it_was(use_case: UseCase) -> None:
    @settings(max_examples=15)
    @given(values_of(codec.result_type(use_case)))
    def there_and_back(result: Any) -> None:
        document = codec.to_document(result)
        assert codec.convert(use_case, document) == result
        assert msgspec.json.decode(codec.encode(result)) == document

    there_and_back()


@pytest.mark.parametrize("kind", STRUCTS.values(), ids=STRUCTS)
def test_fields_of_a_document_are_those_of_the_result(kind: type[msgspec.Struct]) -> None:
    @settings(max_examples=5)
    @given(values_of(kind))
    def same(result: msgspec.Struct) -> None:
        assert list(codec.to_document(result)) == list(kind.__struct_encode_fields__)

    same()


def test_every_result_type_is_some_use_case_s() -> None:
    """All of them are tried above, and none is left over."""
    used: set[str] = set()

    def note(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            used.add(kind.__name__)
            for field in msgspec.structs.fields(kind):
                note(field.type)
        for argument in get_args(kind):
            note(argument)

    for use_case in USE_CASES.values():
        note(codec.result_type(use_case))
    assert used == set(STRUCTS)


def test_no_two_results_share_a_name() -> None:
    """A client reads a document by the name of its type."""
    kinds: dict[str, set[type[Any]]] = {}
    for module in (results, _results):
        for name, kind in vars(module).items():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                kinds.setdefault(name, set()).add(kind)
    assert [name for name, found in kinds.items() if len(found) > 1] == []


def test_results_are_frozen() -> None:
    for kind in STRUCTS.values():
        assert kind.__struct_config__.frozen, kind


def test_what_is_not_a_result_is_refused() -> None:
    whoami = USE_CASES["system.whoami"]
    document = {
        "role": "owner", "name": "owner", "run_id": None, "rights": ["read"], "timezone": "UTC",
        "now": "2026-03-27T08:00:00Z",
    }  # fmt: skip
    assert codec.convert(whoami, document).role == "owner"
    for wrong in ({**document, "role": "king"}, {**document, "rights": None}, {**document, "name": math.pi}, [], None):
        with pytest.raises(StoreUnavailable, match=r"The result of system\.whoami cannot be read: .*\.\n"):
            codec.convert(whoami, wrong)
