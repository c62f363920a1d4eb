"""The commands of docs/running.md, given to a real daemon."""

from __future__ import annotations

import re
import shlex
import socket
from pathlib import Path

from house import House

PAGE = Path(__file__).parents[2] / "docs/running.md"


def commands() -> list[list[str]]:
    lines = re.findall(r"^\$ matins (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line.partition(" > ")[0]) for line in lines]


def test_every_command_of_the_page_is_understood(shared: House, tmp_path: Path) -> None:
    elsewhere = ("up", "service")  # the machine would keep the service: tests of the command install it
    given = [words for words in commands() if words[0] not in elsewhere]
    assert len(given) >= 6
    made = {token["id"] for token in shared.ask("tokens.list")}
    team = tmp_path / "team-a.yaml"
    team.write_text("name: team-a\nagents: {scout-a: {runner: demo}}\n")
    stands_for = {
        "https://matins.example.com": shared.url,
        "mtn_…": (shared.home / "token").read_text().strip(),
        team.name: str(team),
    }
    for words in given:
        new = next((token["id"] for token in shared.ask("tokens.list") if token["id"] not in made), "")
        said = [stands_for.get(word, word.replace("/backups", str(tmp_path)).replace("ID", new)) for word in words]
        assert shared.matins(*said)
    assert (tmp_path / "matins-monday.db").exists()
    assert shared.ask("file.plan", text=team.read_text(), path=f"{socket.gethostname()}:{team}")["state"] == "same"
    assert "laptop" in [token["name"] for token in shared.ask("tokens.list") if token["revoked_at"]]
