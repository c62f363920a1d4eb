"""Named SQL is filled with the numbers of the states when it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from matins.model.run import RunState
from matins.store.queries import load_queries, statements_of


def _write(folder: Path, sql: str) -> None:
    (folder / "q.sql").write_text(sql)


def test_a_state_stands_by_its_name(tmp_path: Path) -> None:
    states = ", ".join(f"{{{state.label}}}" for state in RunState)
    _write(
        tmp_path,
        f"-- all: each state\nSELECT {states};\n-- some: ranges\nWHERE state {{live}} OR b {{ended}};",
    )
    queries = load_queries(tmp_path)
    assert queries["all"] == "SELECT " + ", ".join(str(state.value) for state in RunState)
    assert queries["some"] == "WHERE state BETWEEN 0 AND 5 OR b >= 10"


def test_ranges_are_those_of_the_states() -> None:
    """`{live}` and `{ended}` cover every state once."""
    assert [state for state in RunState if state.live] == [state for state in RunState if 0 <= state <= 5]
    assert [state for state in RunState if not state.live] == [state for state in RunState if state >= 10]


def test_an_unknown_state_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    _write(tmp_path, "-- first: fine\nSELECT {ready};\n-- second: not\nSELECT {redy}, {live};")
    with pytest.raises(ValueError, match=r'/q\.sql: second names a state "redy" that runs do not have'):
        load_queries(tmp_path)


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, "-- one: first\nSELECT 1;\n-- one: again\nSELECT 2;")
    with pytest.raises(ValueError, match=r"/q\.sql: the name one occurs twice"):
        load_queries(tmp_path)


def test_a_header_may_have_a_signature_and_more_lines(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "-- About.\n\n-- one(at: int) -> int: first\n--   and more: of it\nSELECT :at;\n-- two: plain\nSELECT 2;",
    )
    assert load_queries(tmp_path) == {"one": "SELECT :at", "two": "SELECT 2"}
    assert [header for _, header, _ in statements_of((tmp_path / "q.sql").read_text())] == [
        "(at: int) -> int: first and more: of it",
        ": plain",
    ]
