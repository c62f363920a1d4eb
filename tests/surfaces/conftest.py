"""What tests of several clients share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from scripted_server import Scripted


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(*answers: bytes) -> Scripted:
        made.append(Scripted(*answers))
        return made[-1]

    yield make
    for each in made:
        each.close()
