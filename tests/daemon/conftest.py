"""Daemons for the tests; whatever is left running is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import postgres_fixtures
from house import House

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Starts a daemon, by default in the folder `home`."""
    started: list[House] = []

    def start(*words: str, home: str = "home", program: tuple[str, ...] = (), **more: str) -> House:
        started.append(House(tmp_path / home, *words, program=program, **more))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One for all who only look, or whose things have names of their own."""
    one = House(tmp_path_factory.mktemp("shared") / "home").up()
    yield one
    one.kill()
