"""Methods of a transaction are made from the headers of `.sql` files, or the generator says what is wrong with one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from generate_rows import HeaderError, rows_texts

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "matins"
INCIDENT = "-- incident(incident_id: int) -> IncidentRow | None: one incident\n"
OPEN = "-- open_incidents(schedule_ids: Iterable[int]) -> list[IncidentRow]: "
CALL = """
from matins.model.event import NewNotice
from matins.runtime.clock import SystemClock
from matins.store import open_store

store = open_store("sqlite://", SystemClock())
with store.transaction(1) as transaction:
    transaction.insert_notices([NewNotice("ops", 7, "Late", None)])
    print(transaction.titles_since("ops", 5), transaction.titles_since("ops", 9))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what the generator reads."""
    for folder in ("model", "store", "chat"):
        shutil.copytree(SOURCE / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def _replace(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


SHAPE = "the header of incident is not `name(argument: type) -> result: purpose`."


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("(number: int) -> IncidentRow | None", 'incident takes "number", which its statement does not name.'),
        ("() -> IncidentRow | None", 'incident takes no "incident_id".'),
        ("(incident_id: int) -> IncidentRw | None", 'incident returns "IncidentRw", which the model does not have.'),
        ("(incident_id: IncidentId) -> None", 'incident takes "IncidentId", which the model does not have.'),
        ("(incident_id: int) -> list[list[int]]", 'incident returns "list[list[int]]", which no statement gives.'),
        ("(incident_id: int) -> float", 'incident returns "float", which no statement gives.'),
        ("(incident_id: int)", SHAPE),
        ("(incident_id: int, int) -> None", SHAPE),
        ("(incident_id int) -> None", SHAPE),
    ],
)
def test_a_wrong_header_is_refused(source: Path, signature: str, message: str) -> None:
    _replace(source / "store/sql/incidents.sql", INCIDENT, f"-- incident{signature}: one incident\n")
    with pytest.raises(HeaderError) as refused:
        rows_texts(source)
    assert str(refused.value) == f"incidents.sql: {message}"


def test_a_parameter_of_a_part_needs_an_argument_too(source: Path) -> None:
    _replace(source / "store/sql/listing.sql", "tab_counts: the", "tab_counts() -> TabCounts: the")
    _replace(source / "store/sql/listing.sql", "/* selected */;", "AND {{of_tab}};")
    with pytest.raises(HeaderError, match=r'^listing\.sql: tab_counts takes no "tab"\.$'):
        rows_texts(source)


def test_a_value_comes_from_one_argument(source: Path) -> None:
    _replace(
        source / "store/sql/attempts.sql",
        "-- insert_check(check: CheckRow)",
        "-- insert_check(check: CheckRow, kind: str)",
    )
    with pytest.raises(HeaderError, match=r'^attempts\.sql: two arguments of insert_check give "kind"\.$'):
        rows_texts(source)


@pytest.mark.parametrize("header", [f"{OPEN}other words", f"{OPEN.replace('list[IncidentRow]', 'list[int]')}incidents"])
def test_dialects_have_equal_headers(source: Path, header: str) -> None:
    file = source / "store/postgres/sql/incidents.sql"
    (line,) = (line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith(OPEN))
    _replace(file, line, header)
    with pytest.raises(
        HeaderError, match=r"^incidents\.sql: open_incidents has different headers in sqlite and postgres"
    ):
        rows_texts(source)


def test_a_dialect_that_lacks_a_statement_is_refused(source: Path) -> None:
    _replace(
        source / "store/postgres/sql/incidents.sql",
        OPEN,
        "-- open_incidents_of(schedule_ids: Iterable[int]) -> list[int]: ",
    )
    with pytest.raises(HeaderError, match=r"^incidents\.sql: postgres has no open_incidents\.$"):
        rows_texts(source)


def test_a_file_says_what_it_is_about(source: Path) -> None:
    _replace(source / "store/sql/incidents.sql", "-- Incidents, and the messages about them.\n", "")
    with pytest.raises(HeaderError, match=r"^incidents\.sql must begin with a sentence"):
        rows_texts(source)


def test_a_new_query_is_a_method(tmp_path: Path) -> None:
    """One file is changed and the generator called, as `make pages` does; then the method is there."""
    shutil.copytree(SOURCE, tmp_path / "src/matins", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "src/matins/store/sql/incidents.sql").open("a", encoding="utf-8") as file:
        file.write(
            "\n-- titles_since(destination: str, since: int) -> list[str]: titles of messages since an instant\n"
            "SELECT title FROM notices WHERE destination = :destination AND at > :since ORDER BY id;\n"
        )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    made = [sys.executable, "tools/generate_rows.py"]
    subprocess.run(made, cwd=tmp_path, env=environment, check=True, timeout=60)
    called = [sys.executable, "-c", CALL]
    done = subprocess.run(called, cwd=tmp_path, env=environment, check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "['Late'] []\n"


def test_the_generator_stops_with_the_sentence(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src/matins", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    _replace(tmp_path / "src/matins/store/sql/incidents.sql", "(incident_id: int)", "()")
    made = [sys.executable, "tools/generate_rows.py"]
    done = subprocess.run(made, cwd=tmp_path, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, 'incidents.sql: incident takes no "incident_id".\n')
