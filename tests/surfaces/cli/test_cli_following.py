"""`matins events -f` with a daemon: it tells what happens, and nobody has to look."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_daemon import served
from cli_user import User

from matins.surfaces.cli.desk import Desk
from matins.surfaces.client import Client
from matins.testing import Bench

Happens = Callable[[], Any]
MINDS_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from matins.app import main
main()
"""
"""Also where these tests run in the background, and nobody does."""


class Following:
    """A daemon's door; between one event and the next, something happens. Then Ctrl-C."""

    def __init__(self, client: Client, *happens: Happens) -> None:
        self.whereabouts = client.whereabouts
        self.call = client.call
        self.asked: list[tuple[str, list[str]]] = []
        self._client = client
        self._happens = happens

    def follow(self, after: str, types: list[str]) -> Iterator[dict[str, Any]]:
        self.asked.append((after, types))
        with closing(self._client.follow(after, types)) as told:
            for happens in self._happens:
                happens()
                yield next(told)
        raise KeyboardInterrupt


@pytest.fixture
def client(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    def nobody_looks(desk: Desk, seconds: float) -> None:
        raise AssertionError("it polls")

    monkeypatch.setattr(Desk, "wait", nobody_looks)
    for name, agent in (("s", "ada"), ("t", "bob")):
        bench.add(name, when="every day at 9am", do="work", agent=agent)
    with served(bench) as made:
        yield made


def followed(user: User, monkeypatch: pytest.MonkeyPatch, door: Following, *words: str) -> list[tuple[str, str | None]]:
    monkeypatch.setattr(user.app, "door", lambda **place: door)
    result = user.types("--json", "events", "-f", *words, code=130)
    assert result.stderr.strip() == ""
    return [(event["type"], event["schedule"]) for event in map(json.loads, result.stdout.splitlines())]


def test_s5_it_goes_on_where_the_page_ended(
    user: User, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5: nothing lost, nothing twice"""
    door = Following(client, lambda: bench.pause("s"), lambda: bench.resume("s"))
    told = followed(user, monkeypatch, door, "--limit", "2")
    assert told == [
        ("schedule.created", "t"),
        ("token.created", None),
        ("schedule.paused", "s"),
        ("schedule.resumed", "s"),
    ]
    assert door.asked == [(str(bench.events(types="token.created")[-1].id), [])]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--type", "schedule.paused"], ["s", "t"]),
        (["--schedule", "s"], ["s"]),
        (["--schedule", "t", "--agent", "bob"], ["t"]),
        (["--agent", "bob"], ["t"]),
        (["--run", "99"], []),
    ],
    ids=["type", "schedule", "schedule-of-agent", "agent", "run"],
)
def test_only_what_was_asked_for(
    user: User, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch, words: list[str], told: list[str]
) -> None:
    """S5: the same as without a daemon"""
    door = Following(client, lambda: bench.pause("s"), lambda: bench.pause("t"))
    found = followed(user, monkeypatch, door, *words)
    assert [name for kind, name in found if kind == "schedule.paused"] == told


def test_what_is_long_past_is_not_read_again(
    user: User, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose last event is old is followed from now on, not from then on"""
    newest = bench.events(limit=1)[-1].id
    door = Following(client)
    assert followed(user, monkeypatch, door, "--schedule", "s") == [("schedule.created", "s")]
    assert door.asked == [(str(newest), [])]


def test_s5_as_a_program(user: User, bench: Bench, client: Client, tmp_path: Path) -> None:
    """S5: the line is there when it happens; Ctrl-C ends it quietly"""
    token = bench.create_token("ci").token
    words = [
        "--url",
        client.url,
        "--token",
        token,
        "events",
        "-f",
        "--json",
        "--limit",
        "1",
        "--type",
        "schedule.paused",
    ]
    following = subprocess.Popen(
        [sys.executable, "-c", MINDS_CTRL_C, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={"MATINS_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    with following:
        assert following.stdout is not None
        bench.pause("s")
        assert json.loads(following.stdout.readline())["schedule"] == "s"
        bench.pause("t")
        assert json.loads(following.stdout.readline())["schedule"] == "t"
        following.send_signal(signal.SIGINT)
        _, stderr = following.communicate(timeout=60)
    assert (following.returncode, stderr.strip()) == (130, "")
