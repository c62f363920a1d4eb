"""A stand-in of Slack, and Matins beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_bench import ChatBench

from standins.slack import Slack


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"T_BOT": "xoxb-secret-1", "T_SIGN": "signing-secret-1", "T_APP": "xapp-secret-1"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def slack() -> Iterator[Slack]:
    with Slack() as made:
        yield made


@pytest.fixture
def bench(slack: Slack) -> Iterator[ChatBench]:
    made = ChatBench(slack)
    yield made
    made.close()


@pytest.fixture
def on_file(slack: Slack, tmp_path: Path) -> Iterator[ChatBench]:
    """On a store that a restart opens again."""
    made = ChatBench(slack, f"sqlite:///{tmp_path}/matins.db")
    yield made
    made.close()
