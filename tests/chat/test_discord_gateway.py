"""The connection to Discord's gateway, by the real `discord.py`, beside a stand-in. H5, C14."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from matins.chat.discord.gateway import NO_TEXTS, Gateway
from matins.chat.discord.web_api import UNKNOWN_TOKEN
from standins.discord import CHANNEL, TOKEN, Discord

ADA = "100000000000000001"
PATIENCE_S = 30


class Bot:
    """A gateway, and what it said."""

    def __init__(self, standin: Discord, token: str = TOKEN) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.problems: list[str | None] = []
        self.introduced = 0
        self.held = True
        self._changed = threading.Condition()
        self.gateway = Gateway(token, standin.url, self._hear, self._tell, self._connected)

    def _hear(self, event: str, data: Any) -> Future[Any] | None:
        with self._changed:
            self.heard.append((event, data["content"]))
            self._changed.notify_all()
        return None

    def _tell(self, problem: str | None) -> None:
        with self._changed:
            self.problems.append(problem)
            self._changed.notify_all()

    def _connected(self) -> None:
        with self._changed:
            self.introduced += 1
            self._changed.notify_all()

    def wait(self, done: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(done, PATIENCE_S), (self.heard, self.problems)


@pytest.fixture
def bot(discord: Discord) -> Iterator[Bot]:
    made = Bot(discord)
    made.gateway.start(lambda: made.held)
    yield made
    made.gateway.stop()


def test_events_are_heard_in_their_order_also_those_of_a_gap(discord: Discord, bot: Bot) -> None:
    """A session is resumed: what was said while the connection was away is heard"""
    bot.wait(lambda: bot.introduced)
    for number in range(3):
        discord.say(str(number), ADA)
    bot.wait(lambda: len(bot.heard) == 3)
    discord.cut_off()
    discord.say("3", ADA)
    bot.wait(lambda: len(bot.heard) == 4)
    assert bot.heard == [("MESSAGE_CREATE", str(number)) for number in range(4)]
    bot.wait(lambda: bot.problems[-1:] == [None])
    assert (bot.introduced, discord.sessions) == (1, 1)


def test_one_process_hears_and_another_takes_over(discord: Discord, bot: Bot) -> None:
    bot.wait(lambda: bot.introduced)
    other = Bot(discord)
    other.gateway.start(lambda: not bot.held)
    bot.held = False
    other.wait(lambda: other.introduced)
    discord.say("x", ADA, CHANNEL)
    other.wait(lambda: other.heard)
    other.gateway.stop()
    assert bot.heard == []


@pytest.mark.parametrize(
    ("token", "texts", "problem"), [("MTA.wrong.x", True, UNKNOWN_TOKEN), (TOKEN, False, NO_TEXTS)]
)
def test_what_is_wrong_is_said(
    discord: Discord, token: str, texts: bool, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with what to do, and without the token"""
    discord.texts_allowed = texts
    bot = Bot(discord, token)
    with caplog.at_level(logging.INFO, "matins"):
        bot.gateway.start(lambda: True)
        bot.wait(lambda: problem in bot.problems)
        bot.gateway.stop()
    assert f"Discord: {problem} Matins tries again." in caplog.messages
    assert "wrong" not in caplog.text
    assert "secret" not in caplog.text
