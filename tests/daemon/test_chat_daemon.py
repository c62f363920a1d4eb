"""A real daemon with Slack over HTTP: signed requests come in on its own address, and it answers by the Web API."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from house import House
from standins.slack import BOT, Slack, member, message, signed

SECRET, PUBLIC, HOME, ADA = "signing-secret-1", "matins.example.com", "C07ABCDEF", "U0ADA"
FILE = """
http_server: {{ public_url: "https://{public}" }}
chat:
  slack: {{ token: env:T_BOT, signing_secret: env:T_SIGN, url: "{url}", channels: {{ {home}: scout }} }}
people: {{ ada: {{ role: owner, slack: {ada} }} }}
agents: {{ scout: {{ runner: demo }} }}
"""


def post(url: str, text: str, ts: str, secret: str = SECRET, host: str = PUBLIC) -> int:
    """Say something in Slack, whose request a proxy brings to the daemon."""
    body = json.dumps(message(ts, text, ADA, HOME))
    headers = {"Content-Type": "application/json", "Host": host, **signed(secret, int(time.time()), body)}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=90)
    try:
        connection.request("POST", "/chat/slack", body, {**headers, "X-Forwarded-Proto": "https"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_slack_asks_the_daemon_and_hears_from_it(house: Callable[..., House], tmp_path: Path) -> None:
    """C14 B12: with `matins up` and a file; commands, and an agent whose answer is posted"""
    with Slack() as slack:
        slack.users[ADA] = member()
        (tmp_path / "home").mkdir(mode=0o700)
        text = FILE.format(public=PUBLIC, url=slack.url, home=HOME, ada=ADA)
        (tmp_path / "home" / "matins.yaml").write_text(text, encoding="utf-8")
        one = house(T_BOT="xoxb-secret-1", T_SIGN=SECRET).up()
        assert post(one.url, "!schedule list", "1.1", secret="another") == 401
        assert post(one.url, "!schedule list", "1.1", host="evil.example.com") == 421
        assert slack.said() == []
        assert post(one.url, "!schedule list", "1.1") == 200
        slack.wait(slack.said)
        assert "There are no schedules yet." in slack.said()[0].text
        target = {"kind": "channel", "channel": HOME}
        one.ask("schedules.add", name="digest", when="every 1 day", agent="scout", prompt="Sum up.", target=target)
        assert post(one.url, f"<@{BOT}> run digest", "1.2") == 200
        slack.wait(lambda: len(slack.said()) >= 3)
        accepted, answered = slack.said()[1:]
        assert (accepted.text.splitlines()[0], accepted.arguments["thread_ts"]) == ("Run 1 of digest: ready.", "1.2")
        assert "I am the demo agent" in answered.text
        assert answered.arguments["channel"] == HOME
        assert one.stop() == 0
        assert not any("secret-1" in line or "Traceback" in line for line in one.log), one.log
