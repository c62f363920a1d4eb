"""A GitHub for a test."""

from collections.abc import Iterator

import pytest
from github_server import TOKEN, GitHub, github_server


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("NO_PROXY", "*")
    with github_server() as server:
        yield server
