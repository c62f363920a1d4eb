"""A real daemon with Discord: it hears what is said, offers its commands, and stops when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from house import House
from standins.discord import CHANNEL, TOKEN, Discord

BEA = "100000000000000009"
FILE = """
chat: {{ discord: {{ token: env:T_DISCORD, url: "{url}", channels: {{ "{channel}": scout }} }} }}
people: {{ bea: {{ role: owner, discord: "{bea}" }} }}
agents: {{ scout: {{ runner: demo }} }}
"""


def test_discord_is_heard_and_answers_come_back(house: Callable[..., House], tmp_path: Path) -> None:
    """C14 B21 H5: with `matins up` and a file; a slash command, an answer in its channel, a reply to it"""
    with Discord() as discord:
        (tmp_path / "home").mkdir(mode=0o700)
        text = FILE.format(url=discord.url, bea=BEA, channel=CHANNEL)
        (tmp_path / "home" / "matins.yaml").write_text(text, encoding="utf-8")
        one = house(T_DISCORD=TOKEN).up()
        discord.wait(lambda: discord.commands)
        target = {"kind": "channel", "channel": CHANNEL}
        one.ask("schedules.add", name="digest", when="every 1 day", agent="scout", prompt="Sum up.", target=target)
        discord.command("list", BEA)
        discord.wait(lambda: len(discord.said()) == 1)
        assert "scout/digest" in discord.said()[0].plain
        discord.command("run", BEA, name="digest")
        discord.wait(lambda: len(discord.said()) == 3)
        (answer,) = [call for call in discord.said() if not call.private]
        assert "demo agent" in answer.plain
        with closing(one.client.events.follow(after="0", types=["answer.delivered"])) as events:  # type: ignore[type-var]
            next(events)  # what belongs to the conversation is known
        discord.reply("And then?", BEA, answer)
        discord.wait(lambda: len(discord.said()) == 4)
        again = discord.said()[-1]
        assert again.body["message_reference"]["message_id"] == answer.ts
        assert one.ask("runs.get", run_id=1)["answers"][0]["state"] == "delivered"
        assert one.stop() == 0
        assert not any("secret-1" in line or "Traceback" in line for line in one.log), one.log
