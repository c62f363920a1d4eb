"""Matins with a manual clock, beside a stand-in of Slack, and ways to speak as a user of Slack."""

from __future__ import annotations

import json
from typing import Any

from matins.chat.slack.chat import SlackChat
from matins.chat.use_cases import ChatRecords
from matins.model.run import AgentTurn, Outcome
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.testing import InlineExecutor, ManualClock, Sandbox
from standins import slack
from standins.slack import BOT, TEAM, Call, Slack, member

START = "2026-03-27T08:00:00Z"
OPS, HOME = "C0OPS00", "C07ABCDEF"
ADA, BEN, EVE = "U0ADA", "U0BEN", "U0EVE"
"""The owner, an operator, and a user whom nobody mapped."""


class Tool(InlineExecutor):
    """Stands for an agent's tool: it answers with what `reply` says, and keeps its prompts."""

    prompts: list[str]
    reply: str

    def submit(self, batch: list[Attempt]) -> None:
        for attempt in batch:
            prompt = attempt.compiled.definition.prompt or ""
            self.prompts.append(prompt)
            failed = self.reply.startswith("FAIL")
            turn = None if failed else AgentTurn(prompt, self.reply, f"s-{attempt.run_id}")
            error, result = (self.reply, None) if failed else (None, {"text": self.reply})
            self._done.append(AttemptEnd(attempt, Outcome(not failed, result=result, error=error, turn=turn)))


class ChatBench:
    """`say` and its kin return what Slack was told meanwhile."""

    def __init__(self, slack: Slack, url: str = "sqlite://", **settings: Any) -> None:
        self.slack = slack
        slack.users |= {user: member() for user in (ADA, BEN, EVE)}
        self.m = Sandbox(url, clock=ManualClock(START))
        self.tool = Tool(self.m.jobs, self.m.clock, lambda: None, self.m._loader, threads=1)
        self.tool.prompts, self.tool.reply = [], "All is well."
        self.m.executor = self.m.engine.executor = self.tool
        self.m.agents.set("scout", runner="demo")
        self.m.people.set("ada", role="owner", slack=ADA)
        self.m.people.set("ben", role="operator", slack=BEN)
        given = {"token": "env:T_BOT", "signing_secret": "env:T_SIGN", "admin": OPS, "url": slack.url}
        self.m.chat.set("slack", **given, channels={HOME: "scout"}, **settings)
        self._number = 0
        self.open()

    def open(self) -> None:
        """Start the chat, as a start of the daemon does."""
        self.records = ChatRecords(self.m, self.m.store, self.m.clock, "slack")
        app = self.records.app()
        assert app is not None
        self.chat = SlackChat(app, self.records, lambda: "https://matins.example.com")
        self.chat.start(self.m)

    def reopen(self) -> None:
        self.chat.stop()
        self.open()

    def close(self) -> None:
        self.chat.stop()
        self.m.close()

    # -- what users of Slack do

    def say(self, text: str, user: str = ADA, *, thread: str = "", channel: str = HOME, **more: Any) -> list[Call]:
        return self.accept(message(self.next_ts(), text, user, thread=thread, channel=channel, **more))

    def slash(self, text: str, user: str = ADA, channel: str = HOME, **more: Any) -> list[Call]:
        given = {"command": "/matins", "text": text, "user_id": user, "channel_id": channel, "team_id": TEAM}
        return self.accept({**given, "trigger_id": f"tr{self.next_ts()}", **more})

    def click(self, call: Call, label: str, user: str = ADA, more: dict[str, Any] | None = None) -> list[Call]:
        """Press a button of a message that was posted."""
        channel = call.arguments["channel"]
        place = {"channel_id": channel, "message_ts": self.ts_of(call), "type": "message"}
        payload = {"type": "block_actions", "team": {"id": TEAM}, "user": {"id": user, "team_id": TEAM}}
        button = buttons(call)[label]
        given = {"actions": [button], "container": place, "trigger_id": f"tr{self.next_ts()}"}
        return self.accept({**payload, **given, **(more or {})})

    def submit(self, call: Call, user: str = ADA, **fields: str) -> list[Call]:
        """Send a form that was opened."""
        view = call.arguments["view"]
        view = json.loads(view) if isinstance(view, str) else view
        values = {name: {name: {"type": "plain_text_input", "value": value}} for name, value in fields.items()}
        made = {name: view[name] for name in ("callback_id", "private_metadata")}
        held = {**made, "id": f"V{self.next_ts()}", "hash": "h", "state": {"values": values}}
        payload = {"type": "view_submission", "team": {"id": TEAM}, "user": {"id": user, "team_id": TEAM}}
        return self.accept({**payload, "view": held})

    def accept(self, payload: dict[str, Any]) -> list[Call]:
        before = len(self.slack.calls)
        self.acknowledgement = self.chat.accept(payload)
        self.flush()
        return [call for call in self.slack.calls[before:] if call.method not in ("auth.test", "users.info")]

    def flush(self) -> None:
        for worker in self.chat._workers:
            worker.submit(lambda: None).result(30)

    def settle(self) -> list[Call]:
        """Let the engine and the outbox do what is due."""
        before = len(self.slack.calls)
        self.m.settle()
        self.m.outbox.run_once(self.m.clock.now_ms())
        return [call for call in self.slack.calls[before:] if call.method not in ("auth.test", "users.info")]

    def next_ts(self) -> str:
        self._number += 1
        return f"1600000000.{self._number:06}"

    def ts_of(self, call: Call) -> str:
        """The timestamp that the stand-in gave to a message."""
        return f"1700000000.{self.slack.calls.index(call) + 1:06}"

    def place(self, call: Call) -> str:
        return f"slack:{TEAM}/{call.arguments['channel']}/{self.ts_of(call)}"


def message(ts: str, text: str, user: str, *, channel: str = HOME, thread: str = "", **more: Any) -> dict[str, Any]:
    """A message of a user, in the channel of the agent if no other is named."""
    return slack.message(ts, text, user, channel, **({"thread_ts": thread} if thread else {}), **more)


def mention(text: str) -> str:
    return f"<@{BOT}> {text}"


def buttons(call: Call) -> dict[str, dict[str, Any]]:
    held = call.arguments["blocks"]
    blocks = json.loads(held) if isinstance(held, str) else held
    found = [item for block in blocks if block["type"] == "actions" for item in block["elements"]]
    return {button["text"]["text"]: button for button in found}
