"""Stand-ins of Slack, Telegram and Discord, and Matins beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_bench import ChatBench
from discord_bench import DiscordBench
from telegram_bench import TelegramBench

from standins.discord import TOKEN as DISCORD_TOKEN
from standins.discord import Discord
from standins.slack import Slack
from standins.telegram import TOKEN, Telegram


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "T_BOT": "xoxb-secret-1",
        "T_SIGN": "signing-secret-1",
        "T_APP": "xapp-secret-1",
        "T_TELEGRAM": TOKEN,
        "T_DISCORD": DISCORD_TOKEN,
    }.items():
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


@pytest.fixture
def telegram() -> Iterator[Telegram]:
    with Telegram() as made:
        yield made


@pytest.fixture
def phone(telegram: Telegram) -> Iterator[TelegramBench]:
    made = TelegramBench(telegram)
    yield made
    made.close()


@pytest.fixture
def discord() -> Iterator[Discord]:
    with Discord() as made:
        yield made


@pytest.fixture
def server(discord: Discord) -> Iterator[DiscordBench]:
    made = DiscordBench(discord)
    yield made
    made.close()
