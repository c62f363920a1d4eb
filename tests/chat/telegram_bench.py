"""Matins with a manual clock, beside a stand-in of Telegram, and ways to speak as a user of Telegram."""

from __future__ import annotations

from typing import Any

from chat_bench import START, Tool

from matins.chat.telegram.chat import TelegramChat
from matins.chat.use_cases import ChatRecords
from matins.testing import ManualClock, Sandbox
from standins.telegram import Call, Telegram

ADA, BEN, EVE = 81230, 81231, 66600
"""The owner, an operator, and a user whom nobody mapped. A user's private chat has the user's id."""
GROUP, OPS = -1001234, -1009999


class TelegramBench:
    """`say` and its kin return what Telegram was told meanwhile. Updates are handed over as the poller does it."""

    def __init__(self, telegram: Telegram, url: str = "sqlite://", **settings: Any) -> None:
        self.telegram = telegram
        self.m = Sandbox(url, clock=ManualClock(START))
        self.tool = Tool(self.m.jobs, self.m.clock, lambda: None, self.m._loader, threads=1)
        self.tool.prompts, self.tool.reply = [], "All is well."
        self.m.executor = self.m.engine.executor = self.tool
        self.m.agents.set("scout", runner="demo")
        self.m.people.set("ada", role="owner", telegram=str(ADA))
        self.m.people.set("ben", role="operator", telegram=str(BEN))
        given = {"token": "env:T_TELEGRAM", "admin": str(OPS), "url": telegram.url, "channels": {str(GROUP): "scout"}}
        self.m.chat.set("telegram", **{**given, **settings})
        self._offset = 0
        self.open()

    def open(self) -> None:
        """Start the chat without its poller."""
        self.records = ChatRecords(self.m, self.m.store, self.m.clock, "telegram")
        app = self.records.app()
        assert app is not None
        self.chat = TelegramChat(app, self.records, lambda: "https://matins.example.com")
        self.chat.connect = lambda holds: None
        self.chat.start(self.m)

    def reopen(self) -> None:
        self.chat.stop()
        self.open()

    def close(self) -> None:
        self.chat.stop()
        self.m.close()

    def say(self, text: str, user: int = ADA, chat: int | None = None, **more: Any) -> list[Call]:
        self.telegram.say(text, user, chat, **more)
        return self.turn()

    def click(self, call: Call, label: str, user: int = ADA, **more: Any) -> list[Call]:
        self.telegram.click(call, label, user, **more)
        return self.turn()

    def turn(self) -> list[Call]:
        """Have the newest updates answered."""
        before = len(self.telegram.calls)
        for update in self.telegram.updates:
            if update["update_id"] >= self._offset:
                future = self.chat.accept(update)
                assert future is None or future.result(30) is None
                self._offset = update["update_id"] + 1
        return self.since(before)

    def settle(self) -> list[Call]:
        """Let the engine and the outbox do what is due."""
        before = len(self.telegram.calls)
        self.m.settle()
        self.m.outbox.run_once(self.m.clock.now_ms())
        return self.since(before)

    def since(self, before: int) -> list[Call]:
        quiet = ("getMe",)
        calls = self.telegram.calls[before:]
        return [call for call in calls if call.method not in quiet and (call.text or call.buttons)]
