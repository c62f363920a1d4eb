"""Named SQL is filled with the numbers of the states when it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from matins.model.run import RunState
from matins.store.queries import load_queries


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of one's own, whose statements are in `q.sql`."""
    name = f"package_{tmp_path.name.replace('-', '_')}"
    (tmp_path / name).mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / name / "__init__.py").touch()
    return name


def _write(tmp_path: Path, package: str, sql: str) -> None:
    (tmp_path / package / "q.sql").write_text(sql)


def test_a_state_stands_by_its_name(tmp_path: Path, package: str) -> None:
    states = ", ".join(f"{{{state.label}}}" for state in RunState)
    _write(
        tmp_path,
        package,
        f"-- all: each state\nSELECT {states};\n-- some: ranges\nWHERE state {{live}} OR b {{ended}};",
    )
    queries = load_queries(package)
    assert queries["all"] == "SELECT " + ", ".join(str(state.value) for state in RunState)
    assert queries["some"] == "WHERE state BETWEEN 0 AND 5 OR b >= 10"


def test_ranges_are_those_of_the_states() -> None:
    """`{live}` and `{ended}` cover every state once."""
    assert [state for state in RunState if state.live] == [state for state in RunState if 0 <= state <= 5]
    assert [state for state in RunState if not state.live] == [state for state in RunState if state >= 10]


def test_an_unknown_state_is_refused_when_it_is_loaded(tmp_path: Path, package: str) -> None:
    _write(tmp_path, package, "-- first: fine\nSELECT {ready};\n-- second: not\nSELECT {redy}, {live};")
    with pytest.raises(ValueError, match=r'/q\.sql: second names a state "redy" that runs do not have'):
        load_queries(package)


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path, package: str) -> None:
    _write(tmp_path, package, "-- one: first\nSELECT 1;\n-- one: again\nSELECT 2;")
    with pytest.raises(ValueError, match=r"/q\.sql: the name one occurs twice"):
        load_queries(package)
