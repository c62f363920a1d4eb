"""Matins with a manual clock, beside a stand-in of Discord, and ways to speak as a user of Discord."""

from __future__ import annotations

from typing import Any

from chat_bench import START, Tool

from matins.chat.discord.chat import DiscordChat
from matins.chat.use_cases import ChatRecords
from matins.testing import ManualClock, Sandbox
from standins.discord import CHANNEL, Call, Discord

ADA, BEN, EVE = "100000000000000001", "100000000000000002", "100000000000000666"
"""The owner, an operator, and a user whom nobody mapped."""
OPS, DIRECT = "710000000000000009", "720000000000000001"
"""The admin channel, and Ada's direct messages."""


class DiscordBench:
    """`say` and its kin return what Discord was told meanwhile. Events are handed over as the gateway does it."""

    def __init__(self, discord: Discord, url: str = "sqlite://", **settings: Any) -> None:
        self.discord = discord
        discord.add_channel(OPS)
        self.m = Sandbox(url, clock=ManualClock(START))
        self.tool = Tool(self.m.jobs, self.m.clock, lambda: None, self.m._loader, threads=1)
        self.tool.prompts, self.tool.reply = [], "All is well."
        self.m.executor = self.m.engine.executor = self.tool
        self.m.agents.set("scout", runner="demo")
        self.m.people.set("ada", role="owner", discord=ADA)
        self.m.people.set("ben", role="operator", discord=BEN)
        given = {"token": "env:T_DISCORD", "admin": OPS, "url": discord.url, "channels": {CHANNEL: "scout"}}
        self.m.chat.set("discord", **{**given, **settings})
        self.open()

    def open(self) -> None:
        """Start the chat without its gateway."""
        self.records = ChatRecords(self.m, self.m.store, self.m.clock, "discord")
        app = self.records.app()
        assert app is not None
        self.chat = DiscordChat(app, self.records, lambda: "https://matins.example.com")
        self.chat.connect = lambda holds: None
        self.chat.disconnect = lambda: None
        self.chat._introduce()
        self.chat.start(self.m)
        self._next = len(self.discord.events)

    def reopen(self) -> None:
        self.chat.stop()
        self.open()

    def close(self) -> None:
        self.chat.stop()
        self.m.close()

    def say(self, text: str, user: str = ADA, channel: str = CHANNEL, **more: Any) -> list[Call]:
        return self.turn(lambda: self.discord.say(text, user, channel, **more))

    def reply(self, text: str, to: Call, user: str = ADA, **more: Any) -> list[Call]:
        return self.turn(lambda: self.discord.reply(text, user, to, **more))

    def command(self, verb: str, user: str = ADA, channel: str = CHANNEL, **given: str) -> list[Call]:
        return self.turn(lambda: self.discord.command(verb, user, channel, **given))

    def click(self, call: Call, label: str, user: str = ADA, **changed: Any) -> list[Call]:
        return self.turn(lambda: self.discord.click(call, label, user, **changed))

    def turn(self, deed: Any) -> list[Call]:
        """Have the newest events answered."""
        before = len(self.discord.said())
        deed()
        for frame in self.discord.events[self._next :]:
            work = self.chat.accept(frame["t"], frame["d"])
            assert work is None or work.result(30) is None
        self._next = len(self.discord.events)
        return self.discord.said()[before:]

    def settle(self) -> list[Call]:
        """Let the engine and the outbox do what is due."""
        before = len(self.discord.said())
        self.m.settle()
        self.m.outbox.run_once(self.m.clock.now_ms())
        return self.discord.said()[before:]
