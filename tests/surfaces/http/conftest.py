"""Houses for the tests of the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from http_house import House

import postgres_fixtures

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(f"sqlite:///{tmp_path}/matins.db")
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def each_house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    postgres = request.param == "postgresql"
    made = House(request.getfixturevalue("postgres_url") if postgres else f"sqlite:///{tmp_path}/matins.db")
    yield made
    made.close()
