"""docs/coverage.md tells the truth."""

import pytest
from row_coverage import PAGE, proofs, rendered, row_ids

pytestmark = pytest.mark.usefixtures("undisturbed")


def test_the_page_is_what_the_tests_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run .venv/bin/python tests/docs/row_coverage.py"


def test_every_row_id_in_a_test_is_a_row() -> None:
    assert set(proofs()) <= row_ids(PAGE.read_text(encoding="utf-8"))


def test_every_row_has_a_test() -> None:
    assert row_ids(PAGE.read_text(encoding="utf-8")) - set(proofs()) == set()


def test_rows_are_there() -> None:
    assert len(row_ids(PAGE.read_text(encoding="utf-8"))) == 10 + 16 + 13 + 13 + 9 + 25
