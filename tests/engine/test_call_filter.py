"""Filters of calls: paths, values and operators, and what is refused when a schedule is made."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.calls import check_filter, check_path, unmet_condition, values_at
from matins.errors import InvalidInput

BODY: dict[str, Any] = {
    "action": "opened",
    "number": 7,
    "ratio": 0.5,
    "pull_request": {"draft": False, "labels": [{"name": "bug"}, {"name": "ready"}], "milestone": None},
    "ref": "release/1.2",
    "tags": ["a", "b"],
    "matrix": [[1, 2], [3]],
}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"action": "opened"}, True),
        ({"action": "Opened"}, False),
        ({"action": ["closed", "opened"]}, True),
        ({"action": {"not": "closed"}}, True),
        ({"action": {"not": ["opened", "closed"]}}, False),
        ({"missing": {"not": "x"}}, True),
        ({"missing": "x"}, False),
        ({"number": 7}, True),
        ({"number": 7.0}, True),
        ({"number": "7"}, False),
        ({"number": True}, False),
        ({"pull_request.draft": False}, True),
        ({"pull_request.draft": 0}, False),
        ({"pull_request.milestone": None}, True),
        ({"pull_request.labels[].name": {"has": "ready"}}, True),
        ({"pull_request.labels[].name": {"has": "read"}}, False),
        ({"pull_request.labels[].name": "bug"}, True),
        ({"pull_request.labels[].name": {"not": "bug"}}, False),
        ({"tags": {"has": "a"}}, True),
        ({"tags": {"has": ["x", "b"]}}, True),
        ({"ref": {"has": "release"}}, False),
        ({"ref": {"like": "release/*"}}, True),
        ({"ref": {"like": ["hotfix/*", "*1.2"]}}, True),
        ({"number": {"like": "7"}}, False),
        ({"number": {"over": 6, "under": 8}}, True),
        ({"number": {"over": 7}}, False),
        ({"ratio": {"under": 1}}, True),
        ({"action": {"over": 1}}, False),
        ({"pull_request": {"exists": True}}, True),
        ({"pull_request.milestone": {"exists": True}}, True),
        ({"pull_request.nothing": {"exists": False}}, True),
        ({"matrix[]": {"has": 3}}, False),
        ({"any": [{"action": "closed"}, {"number": 7}]}, True),
        ({"any": [{"action": "closed"}, {"number": 8}]}, False),
        ({"any": [{"number": 7}], "action": "closed"}, False),
    ],
)
def test_b13_what_holds(condition: dict[str, Any], holds: bool) -> None:
    """H5 B13: each operator, on what is there and what is not"""
    assert (unmet_condition(check_filter(condition, "filter"), BODY) is None) is holds


@pytest.mark.parametrize("body", [None, 5, "text", [], [BODY], {"pull_request": "x"}, {"pull_request": [1]}])
def test_other_bodies_are_no_error(body: Any) -> None:
    assert unmet_condition({"pull_request.labels[].name": {"has": "ready"}}, body) is not None


def test_the_reason_names_the_first_value_that_differs() -> None:
    assert unmet_condition({"number": 7, "action": "closed"}, BODY) == "\"action\" is 'opened'."
    assert unmet_condition({"nothing": 1}, BODY) == '"nothing" is not there.'
    assert unmet_condition({"tags[]": "c"}, BODY) == "\"tags[]\" is ['a', 'b']."


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "must be a mapping of paths to values"),
        ([], "must be a mapping of paths to values"),
        ("action", "must be a mapping of paths to values"),
        ({"a..b": 1}, "must be a path in the body"),
        ({"a[0]": 1}, "must be a path in the body"),
        ({"": 1}, "must be a path in the body"),
        ({5: 1}, "must be a path in the body"),
        ({"a": {"lke": "x"}}, "unknown operator"),
        ({"a": {"like": 5}}, '"like" at "a" must be a pattern'),
        ({"a": {"over": "5"}}, '"over" at "a" must be a number'),
        ({"a": {"over": True}}, '"over" at "a" must be a number'),
        ({"a": {"exists": "yes"}}, '"exists" at "a" must be true or false'),
        ({"a": []}, '"a" must be a value, a list of values, or an operator'),
        ({"a": [[1]]}, '"a" must be a value, a list of values, or an operator'),
        ({"a": {}}, '"a" must be a value, a list of values, or an operator'),
        ({"a": {"not": {}}}, '"a" must be a value, a list of values, or an operator'),
        ({"any": {}}, '"any" must be a list of mappings'),
        ({"any": [5]}, "must be a mapping of paths to values"),
        ({f"a{number}": 1 for number in range(51)}, "more than 50 conditions"),
        ({"any": [{f"a{n}": 1} for n in range(51)]}, "more than 50 conditions"),
    ],
)
def test_what_is_wrong_is_refused_when_it_is_made(value: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_filter(value, "on.filter")
    assert said in caught.value.message
    assert caught.value.field == "on.filter"
    assert caught.value.hint


def test_an_operator_with_a_typo_is_suggested() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_filter({"a": {"exist": True}}, "on.filter")
    assert caught.value.hint == 'Did you mean "exists"?'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["a", "a.b", "a[].b", "a[]", "a.b[].c"]))
def test_paths_find_what_python_finds(body: Any, path: str) -> None:
    def walk(value: Any, steps: list[str]) -> list[Any]:
        if not steps:
            return [value]
        step, rest = steps[0], steps[1:]
        if not isinstance(value, dict) or step.removesuffix("[]") not in value:
            return []
        inner = value[step.removesuffix("[]")]
        if not step.endswith("[]"):
            return walk(inner, rest)
        return [found for item in inner for found in walk(item, rest)] if isinstance(inner, list) else []

    assert values_at(body, check_path(path, "by")) == walk(body, path.split("."))
