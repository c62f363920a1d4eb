"""What all tests share."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import pytest
from _pytest import tmpdir
from hypothesis import settings

from matins.executors import isolation

_NEEDS_ACCOUNT = isolation.needs_account

# The same examples everywhere, and no limit on an example's time: other programs may have the cores.
settings.register_profile("matins", deadline=None, derandomize=True)
settings.load_profile("matins")

_LEAVING_S = 60
_OF_A_SHARED_SERVER = "matins-http_"


def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: torture, browsers and daemons are mostly waited for."""
    return (os.cpu_count() or 1) + 2


def pytest_configure() -> None:
    """Nothing that collecting thousands of tests makes is garbage.

    As root, agents of these tests run without an account, as if `isolation: none` were written for each. Daemons in
    processes of their own know nothing of this; `House` writes it for them.
    """
    gc.disable()
    isolation.needs_account = lambda agent: False
    tmpdir.get_user = lambda: str(os.geteuid())  # an account's name may leave too little for the path of a socket


def pytest_collection_finish() -> None:
    """Tests stay until the end: no collection of garbage need look at them."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, so that no worker is left with them when the others have nothing more to do."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    """A thread that outlives its test goes on in the midst of another, with descriptors that are no longer its own."""
    before = set(threading.enumerate())
    yield
    left = {thread for thread in threading.enumerate() if not thread.name.startswith(_OF_A_SHARED_SERVER)} - before
    deadline = time.monotonic() + _LEAVING_S
    # Not by join(): it refuses a thread that another one is about to start.
    while (left := left.intersection(threading.enumerate())) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert {thread.name for thread in left} == set()


@pytest.fixture(autouse=True)
def the_same_as_root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents of an ordinary user have no walls in the tests that are not about them, as those of root have none: their
    stand-ins write beside the store."""
    if os.geteuid() != 0 and "security" not in request.path.parts:
        monkeypatch.setattr(isolation.Isolation, "refusal", lambda self, agent: "these tests are not about walls")


@pytest.fixture
def accounts_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that holds outside the tests: as root, an agent needs an account, or `isolation: none`."""
    monkeypatch.setattr(isolation, "needs_account", _NEEDS_ACCOUNT)


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """For tests that parse Python. Garbage of an earlier test may end in a traceback, which is parsed as well: Python
    3.11 gives up what it was parsing then."""
    gc.disable()
    yield
    gc.enable()
