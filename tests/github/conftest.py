"""A GitHub on this machine: issues only, or one with repositories and pull requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from forge import Forge
from github_server import TOKEN, GitHub, github_server


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("NO_PROXY", "*")
    with github_server() as server:
        yield server


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with github_server(Forge()) as served:
        assert isinstance(served, Forge)
        yield served
