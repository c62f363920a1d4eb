"""What all tests share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples everywhere, and no limit on an example's time: other programs may have the cores.
settings.register_profile("matins", deadline=None, derandomize=True)
settings.load_profile("matins")

_LEAVING_S = 60
_OF_A_SHARED_SERVER = "matins-http_"


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    """A thread that outlives its test goes on in the midst of another, with descriptors that are no longer its own."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith(_OF_A_SHARED_SERVER)]
    for thread in left:
        thread.join(_LEAVING_S)
    assert [thread.name for thread in left if thread.is_alive()] == []
