"""Telegram by long polling: what is heard once, refused, cut and taken over. C14, B12."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from telegram_bench import ADA

import postgres_fixtures
from matins import Matins
from matins.chat.host import ChatHost
from matins.chat.telegram import bot_api
from standins.telegram import NAME, Refused, Telegram

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
TAKEN = "Another program reads the messages of this bot (409)"


class Live:
    """A started scheduler with its chat, as the daemon has it."""

    def __init__(self, telegram: Telegram, url: str = "sqlite://", **settings: str) -> None:
        self.matins = Matins(url)
        self.matins.agents.set("scout", runner="demo")
        self.matins.people.set("ada", role="owner", telegram=str(ADA))
        self.matins.start()
        self.host = ChatHost(self.matins, None)
        self.matins.chat.set("telegram", **{"token": "env:T_TELEGRAM", "url": telegram.url, **settings})
        self.host.start()

    def finding(self) -> tuple[bool | None, str]:
        """What doctor and the page of the system say."""
        found = [one for one in self.matins.system.doctor() if one.what == "chat telegram"]
        return (found[0].ok, found[0].sentence) if found else (None, "")

    def close(self) -> None:
        self.host.stop()
        self.matins.close()


def until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does, and tells nobody."""
    waiting = threading.Event()
    for _ in range(3_000):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("It did not happen.")


@pytest.fixture
def live(telegram: Telegram, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setattr(bot_api, "_LATER_S", 0.02)
    monkeypatch.setattr(bot_api, "_LONGEST_S", 0.02)
    made = Live(telegram)
    yield made
    made.close()


def test_it_hears_answers_confirms_and_stops_at_once(live: Live, telegram: Telegram) -> None:
    """C14: a poll waits for what is said; an update stays until it was answered"""
    telegram.wait(lambda: telegram.polls)
    assert [command["command"] for command in telegram.commands][:3] == ["list", "add", "show"]
    telegram.say("/list")
    telegram.wait(lambda: telegram.said() and telegram.updates == [])
    assert "There are no schedules yet." in telegram.said()[0].text
    until(lambda: live.finding() == (True, f"It reads the messages to @{NAME}"))
    assert live.matins.people.link("ada", "telegram").bot == f"@{NAME}"
    before = threading.active_count()
    live.host.stop()
    assert threading.active_count() < before


def test_another_program_that_reads_is_told_everywhere(
    live: Live, telegram: Telegram, caplog: pytest.LogCaptureFixture
) -> None:
    """B12: in log, doctor and page, once; and that it is over"""

    def conflict(given: dict[str, object]) -> object:
        raise Refused(409, "Conflict: terminated by other getUpdates request")

    telegram.wait(lambda: telegram.polls)
    telegram.answers["getUpdates"] = conflict
    telegram.interrupt()
    until(lambda: live.finding() == (False, TAKEN))
    until(lambda: caplog.text.count(TAKEN) == 1)
    del telegram.answers["getUpdates"]
    telegram.say("/list")
    telegram.wait(telegram.said)
    until(lambda: live.finding()[0] is True)
    assert caplog.text.count(TAKEN) == 1


def test_a_webhook_and_a_wrong_token_are_told(live: Live, telegram: Telegram, monkeypatch: pytest.MonkeyPatch) -> None:
    telegram.wait(lambda: telegram.polls)
    telegram.webhook = "https://bot.example.com/"
    telegram.interrupt()
    until(lambda: live.finding() == (False, "Telegram sends the messages of this bot to a webhook (409)"))
    monkeypatch.setenv("T_OTHER", "123456:another")
    live.matins.chat.set("telegram", token="env:T_OTHER", url=telegram.url)
    until(lambda: live.finding() == (False, "Telegram does not know the token (401)"))
    live.matins.chat.set("telegram", token="env:NOT_THERE")
    until(lambda: "It is not connected" in live.finding()[1])
    live.matins.chat.delete("telegram")
    until(lambda: live.finding() == (None, ""))


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_cut_connection_loses_and_doubles_nothing(live: Live, telegram: Telegram, cut: str) -> None:
    """C14: of a poll, before or after Telegram has answered it"""
    telegram.wait(lambda: telegram.polls)
    telegram.cut["getUpdates"] = cut
    telegram.say("/list")
    until(lambda: live.finding()[0] is False)
    del telegram.cut["getUpdates"]
    telegram.wait(lambda: telegram.said() and telegram.updates == [])
    assert len(telegram.said()) == 1


def test_what_is_never_taken_is_given_up_and_the_next_is_answered(
    live: Live, telegram: Telegram, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(given: dict[str, object]) -> object:
        raise Refused(500, "Internal Server Error")

    telegram.wait(lambda: telegram.polls)
    telegram.answers["sendMessage"] = broken
    telegram.say("/list")
    until(lambda: "an update was not answered" in caplog.text)
    del telegram.answers["sendMessage"]
    telegram.say("/next")
    telegram.wait(telegram.said)
    assert "Nothing is due." in telegram.said()[0].text


def test_one_of_several_processes_reads(telegram: Telegram, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B12: the one that has the lease of `chat:telegram`; when it stops, the other goes on"""
    monkeypatch.setattr(bot_api, "_LATER_S", 0.02)
    first = Live(telegram, postgres_url)
    telegram.wait(lambda: telegram.polls)
    second = Matins(postgres_url)
    second.start()
    host = ChatHost(second, None)
    host.start()
    try:
        telegram.say("/list")
        telegram.wait(telegram.said)
        assert (first.matins.holds("chat:telegram"), second.holds("chat:telegram")) == (True, False)
        assert first.finding()[0] is True
        first.close()
        until(lambda: second.holds("chat:telegram"))
        telegram.say("/next")
        telegram.wait(lambda: len(telegram.said()) == 2)
        assert "Nothing is due." in telegram.said()[1].text
    finally:
        host.stop()
        second.close()
