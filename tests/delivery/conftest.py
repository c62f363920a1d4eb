"""The benches for the loops, and a receiver of messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benches import bench, lines, reopen, theatre
from standins.inbox import Inbox, open_inbox

__all__ = ["bench", "lines", "reopen", "theatre"]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with open_inbox() as found:
        yield found
