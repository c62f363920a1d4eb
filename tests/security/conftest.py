"""Watched benches on every store, and daemons of an ordinary user and of root."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from security_cast import START, Open, Watched

import postgres_fixtures
from house import House, Ordinary, ordinary_account
from matins.testing import ManualClock

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
url = postgres_fixtures.url
kept_url = postgres_fixtures.kept_url


@pytest.fixture
def open_bench() -> Iterator[Open]:
    """A bench on a store; a second one on the same store is what comes after a crash of the first."""
    opened: list[Watched] = []

    def open_one(url: str = "sqlite://", **options: Any) -> Watched:
        clock = opened[-1].clock if opened else ManualClock(START)
        opened.append(Watched(url, **{"clock": clock, **options}))
        return opened[-1]

    yield open_one
    for bench in opened:
        bench.close()


@pytest.fixture
def bench(url: str, open_bench: Open) -> Watched:
    return open_bench(url)


@pytest.fixture
def memory(open_bench: Open) -> Watched:
    """For what does not touch the store's own ways."""
    return open_bench()


# -- daemons


@pytest.fixture(scope="module")
def account() -> Iterator[Ordinary]:
    with ordinary_account() as made:
        yield made


@pytest.fixture(scope="module")
def house(account: Ordinary) -> Iterator[House]:
    """A daemon of an ordinary user."""
    one = House(account.home / "home", user=account).up()
    yield one
    one.kill()


@pytest.fixture(scope="module")
def root_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A daemon of root, where the tests are."""
    one = House(tmp_path_factory.mktemp("root") / "home").up()
    yield one
    one.kill()
