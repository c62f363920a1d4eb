"""Servers for the tests of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer

import postgres_fixtures

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., HttpServer]]:
    """Makes servers on one store, one after the other."""
    made: list[HttpServer] = []

    def make(url: str = f"sqlite:///{tmp_path}/matins.db", **options: Any) -> HttpServer:
        made.append(HttpServer(url, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def server(make_server: Callable[..., HttpServer]) -> HttpServer:
    return make_server()


@pytest.fixture(params=["sqlite", "postgresql"])
def each_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HttpServer]:
    postgres = request.param == "postgresql"
    made = HttpServer(request.getfixturevalue("postgres_url") if postgres else f"sqlite:///{tmp_path}/matins.db")
    yield made
    made.close()
