"""An isolated agent changes what the engine reads for it. Nothing of Matins or of another agent comes out."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from house import House, Ordinary, ordinary_account


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


def test_b16_a_secret_does_not_become_the_owner_s_token(house: House) -> None:
    """B16: the agent puts a link in the place of its secret; the next run must not get what it leads to"""
    key = house.home.parent / "key"
    key.write_text("ordinary\n")
    os.chown(key, house.home.stat().st_uid, house.home.stat().st_gid)
    script = f'printf %s "$S" | cut -c1-4; rm -f {key}; ln -s {house.home}/token {key}'
    house.shell("thief", script, environment={"S": f"file:{key}"}, isolation="required")
    run, output = house.fire("thief")
    assert (run.state, output.strip()) == ("succeeded", "ordi"), run.outcome  # control: an honest secret arrives
    assert key.read_text() == (house.home / "token").read_text()  # the link is there, and leads to it
    run, output = house.fire("thief")
    assert (run.state, output) == ("failed", "")
    error = f"S refers to file:{key}, but it leads into the directory of Matins."
    assert error in str(run.outcome), run.outcome
