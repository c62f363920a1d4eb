"""Slack over HTTP and by Socket Mode: what is signed, acknowledged, heard once, and connected again. C14, B12."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest
from chat_bench import ADA, EVE, HOME, OPS, message

from matins import Matins
from matins.chat.host import ChatHost
from matins.chat.slack import web_api
from matins.records.file_settings import HttpServer
from matins.service.calls import InboundReceiver
from matins.surfaces.http.connections import Connections
from matins.surfaces.http.inbound import InboundApp
from matins.surfaces.http.server import Server, bind
from standins.slack import TEAM, Slack, member
from standins.slack import signed as slack_headers

SECRET = "signing-secret-1"


class Live:
    """A started scheduler with its chat, as the daemon has it, and the listener of deliveries."""

    def __init__(self, slack: Slack, **settings: str) -> None:
        slack.users |= {ADA: member(), EVE: member()}
        self.matins = Matins("sqlite://")
        self.matins.agents.set("scout", runner="demo")
        self.matins.people.set("ada", role="owner", slack=ADA)
        self.host = ChatHost(self.matins, None)
        self.matins.start()
        self.host.start()
        given = {"token": "env:T_BOT", "admin": OPS, "url": slack.url, "channels": {HOME: "scout"}}
        self.matins.chat.set("slack", **given, **settings)
        listening = bind("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        receiver = InboundReceiver(self.matins, self.matins.store, self.matins.clock)
        app = InboundApp(receiver, parts=[self.host])
        self.server = Server(app, listening, connections=Connections(HttpServer()))
        self.server.start()

    def post(self, body: bytes, media: str = "application/json", **change: str) -> tuple[int, bytes]:
        now = str(self.matins.clock.now_ms() // 1000)
        at, signed = change.get("at", now), change.get("signed", body.decode())
        headers = {"Content-Type": media, **slack_headers(change.get("secret", SECRET), at, signed)}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/chat/slack", body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def wait(self) -> None:
        """Until the chat has its present settings."""
        until(lambda: self.host.slack() is not None)

    def close(self) -> None:
        self.server.stop()
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
def live(slack: Slack) -> Iterator[Live]:
    made = Live(slack, signing_secret="env:T_SIGN")
    made.wait()
    yield made
    made.close()


def test_requests_over_http_are_signed_fresh_and_heard_once(live: Live, slack: Slack) -> None:
    """v0 over the raw body, five minutes; a repetition is acknowledged and does nothing."""
    body = json.dumps(message("1.1", "!schedule list", ADA)).encode()
    old = str(live.matins.clock.now_ms() // 1000 - 301)
    assert live.post(body, secret="another")[0] == 401
    assert live.post(body, at=old)[0] == 401
    assert live.post(body, signed=body.decode().replace(" ", ""))[0] == 401
    assert live.post(b'{"type": "url_verification", "challenge": "abc"}') == (200, b'{"challenge":"abc"}')
    assert slack.calls == []
    for _ in range(3):
        assert live.post(body) == (200, b"")
    slack.wait(lambda: slack.said())
    form = {
        "command": "/matins",
        "text": "list",
        "user_id": EVE,
        "channel_id": HOME,
        "team_id": TEAM,
        "trigger_id": "t",
    }
    assert live.post(urlencode(form).encode(), "application/x-www-form-urlencoded") == (200, b"")
    slack.wait(lambda: slack.said("chat.postEphemeral"))
    assert "You are not known to Matins" in slack.said("chat.postEphemeral")[0].text
    assert len(slack.said()) == 1
    assert live.post(b"[1]")[0] == 400
    assert live.post(b"{")[0] == 400


def test_it_acknowledges_before_it_works(live: Live, slack: Slack) -> None:
    """Slack waits three seconds; a Web API that hangs does not matter."""
    go_on, worked = threading.Event(), list[str]()

    def hang(given: dict[str, object]) -> tuple[int, dict[str, object]]:
        go_on.wait(30)
        worked.append("answered")
        return 200, {"ok": True, "ts": "1.5"}

    slack.answers["chat.postMessage"] = hang
    assert live.post(json.dumps(message("1.2", "!schedule list", ADA)).encode()) == (200, b"")
    assert worked == []
    go_on.set()


def test_the_chat_follows_its_settings(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    live.matins.chat.delete("slack")
    until(lambda: "subscription.deleted" in {event.type for event in live.matins.events.list()})
    assert live.host.slack() is None
    assert live.post(b"{}")[0] == 404
    live.matins.chat.set("slack", token="env:NOT_THERE", app_token="env:NOT_THERE_EITHER")
    until(lambda: "Slack is not connected" in caplog.text)
    assert "the environment has no NOT_THERE" in caplog.text
    assert "xoxb" not in caplog.text


def test_socket_mode_hears_answers_and_connects_again(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    """An envelope is acknowledged once it is accepted; after a cut, the connection is opened again."""
    monkeypatch.setattr(web_api, "PING_S", 0.2)
    live = Live(slack, app_token="env:T_APP")
    try:
        slack.send("e1", "events_api", message("2.1", "!schedule list", ADA))
        slack.wait(lambda: {"envelope_id": "e1"} in slack.acknowledged and slack.said())
        assert "There are no schedules yet." in slack.said()[0].text
        slack.send("e2", "events_api", message("2.1", "!schedule list", ADA))
        slack.send("e3", "slash_commands", {"command": "/matins", "text": "add", "user_id": ADA, "channel_id": HOME,
                                            "team_id": TEAM, "trigger_id": "t9"})  # fmt: skip
        slack.wait(lambda: len(slack.acknowledged) == 3 and slack.said("views.open"))
        assert len(slack.said()) == 1
        assert live.post(json.dumps(message("2.2", "!schedule list", ADA)).encode())[0] == 401
        slack.cut()
        slack.wait(lambda: slack.connections == 2)
        slack.send("e4", "events_api", message("2.3", "!schedule next", ADA))
        slack.wait(lambda: {"envelope_id": "e4"} in slack.acknowledged)
    finally:
        live.close()
