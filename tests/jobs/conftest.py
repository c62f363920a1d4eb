"""A GitHub on this machine, for the jobs that use one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from forge import Forge

from work.github_server import TOKEN, github_server


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with github_server(Forge()) as served:
        assert isinstance(served, Forge)
        yield served
