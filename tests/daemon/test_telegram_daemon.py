"""A real daemon with Telegram: it hears what is said, and a kill while it answers loses and doubles nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from house import House
from standins.telegram import NAME, TOKEN, Telegram

BEA = 81230
FILE = """
chat: {{ telegram: {{ token: env:T_TELEGRAM, url: "{url}" }} }}
people: {{ bea: {{ role: owner, telegram: "{bea}" }}, cy: {{ role: operator }} }}
agents: {{ scout: {{ runner: demo }} }}
"""


def commands_of_the_page() -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    return re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].splitlines()


def write(tmp_path: Path, telegram: Telegram) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "matins.yaml").write_text(FILE.format(url=telegram.url, bea=BEA), encoding="utf-8")


def test_telegram_asks_the_daemon_and_hears_from_it(house: Callable[..., House], tmp_path: Path) -> None:
    """C14 B12: with `matins up` and a file; commands, and a person who is linked by a code, in the file too"""
    with Telegram() as telegram:
        write(tmp_path, telegram)
        one = house(T_TELEGRAM=TOKEN).up()
        one.ask("schedules.add", name="digest", when="every 1 day", agent="scout", prompt="Sum up.")
        telegram.say("/list")
        telegram.wait(telegram.said)
        assert "scout/digest" in telegram.said()[0].text
        for line in commands_of_the_page():
            command, _, said = line.partition(" # ")
            assert one.matins(*command.split()[1:]).startswith(said[: -len("7f3k2m9q")].strip())
        printed = one.matins("people", "link", "cy", "telegram").strip()
        assert printed.startswith(f"Send this to @{NAME} within 10 minutes: /start ")
        telegram.say(printed.partition(": ")[2], 555)
        telegram.wait(lambda: len(telegram.said()) == 2)
        assert telegram.said()[1].text == 'The owner keeps you in a file. This is to be written there: telegram: "555"'
        file = tmp_path / "home" / "matins.yaml"
        file.write_text(f"edits: write_back\n{file.read_text()}")
        one.matins("apply")
        telegram.say(printed.partition(": ")[2], 555)
        telegram.wait(lambda: len(telegram.said()) == 3)
        assert "You are cy here (operator)" in telegram.said()[2].text
        assert '"telegram": "555"' in file.read_text()
        assert one.stop() == 0
        assert not any("secret-1" in line or "Traceback" in line for line in one.log), one.log


@pytest.mark.parametrize("point", ["heard", "accepted", "done", "posted", "finished"])
def test_c14_a_kill_loses_and_doubles_nothing(house: Callable[..., House], tmp_path: Path, point: str) -> None:
    """C14 S2: killed before its key is stored, after it, when the deed is done, when the answer is posted, and when
    that is noted: done once; answered once, and twice only where the post was not noted"""
    with Telegram() as telegram:
        write(tmp_path, telegram)
        before = house().up()
        before.ask("schedules.add", name="old", when="every 1 day", agent="scout", prompt="Sum up.")
        before.ask("schedules.add", name="digest", when="every 1 day", agent="scout", prompt="Sum up.")
        assert before.stop() == 0
        program = (sys.executable, str(Path(__file__).parent / "dies_hearing.py"), point)
        killed = house(program=program, T_TELEGRAM=TOKEN)
        telegram.say("/remove old")
        killed.process.wait(60)
        killed.kill()
        assert len(telegram.updates) == 1, "nobody confirmed it"
        after = house(T_TELEGRAM=TOKEN).up()
        telegram.wait(lambda: telegram.updates == [])
        assert [one.name for one in after.client.list()] == ["digest"]
        assert len(after.client.events.list(types="schedule.deleted")) == 1
        assert [call.text.splitlines()[0] for call in telegram.said()] == [
            "Removed scout/old. Its history is kept."
        ] * (2 if point == "posted" else 1)
        telegram.say("/run digest")
        telegram.wait(lambda: any("Run 1 of digest" in call.text for call in telegram.said()))
        assert after.stop() == 0
