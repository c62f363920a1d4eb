"""`matins events -f` with a daemon: it tells what happens, and nobody has to look."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_daemon import served
from cli_user import User

from matins.surfaces.cli.context import CliContext
from matins.surfaces.transports.http_client import Http
from matins.testing import Sandbox

Happens = Callable[[], Any]
MINDS_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from matins.app import main
main()
"""
"""Also where these tests run in the background, and nobody does."""


class Following:
    """The way to a daemon; between one event and the next, something happens. Then Ctrl-C."""

    def __init__(self, daemon: Http, *happens: Happens) -> None:
        self.document = daemon.document
        self.asked: list[Mapping[str, Any]] = []
        self._daemon = daemon
        self._happens = happens

    def follow_documents(self, arguments: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        self.asked.append(arguments)
        with closing(self._daemon.follow_documents(arguments)) as followed:
            for happens in self._happens:
                happens()
                yield next(followed)
        raise KeyboardInterrupt


@pytest.fixture
def daemon(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Http]:
    def nobody_looks(context: CliContext, seconds: float) -> None:
        raise AssertionError("it polls")

    monkeypatch.setattr(CliContext, "wait", nobody_looks)
    for name, agent in (("s", "ada"), ("t", "bob")):
        bench.add(name, when="every day at 9am", job="work", agent=agent)
    with served(bench) as made:
        yield made


def followed(
    user: User, monkeypatch: pytest.MonkeyPatch, transport: Following, *words: str
) -> list[tuple[str, str | None]]:
    monkeypatch.setattr(user.app, "transport", lambda **location: transport)
    result = user.types("--json", "events", "-f", *words, code=130)
    assert result.stderr.strip() == ""
    return [(event["type"], event["schedule"]) for event in map(json.loads, result.stdout.splitlines())]


def test_s5_it_goes_on_where_the_page_ended(
    user: User, bench: Sandbox, daemon: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5: nothing lost, nothing twice"""
    transport = Following(daemon, lambda: bench.pause("s"), lambda: bench.resume("s"))
    told = followed(user, monkeypatch, transport, "--limit", "2")
    assert told == [
        ("schedule.created", "t"),
        ("token.created", None),
        ("schedule.paused", "s"),
        ("schedule.resumed", "s"),
    ]
    assert transport.asked == [{"after": bench.events.list(types="token.created")[-1].id}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--type", "schedule.paused"], [("schedule.paused", "t"), ("schedule.paused", "s")]),
        (["--schedule", "s"], [("schedule.paused", "s"), ("schedule.resumed", "s"), ("run.planned", "s")]),
        (["--schedule", "t", "--agent", "bob"], [("schedule.paused", "t"), ("schedule.resumed", "t")]),
        (["--agent", "bob"], [("schedule.paused", "t"), ("schedule.resumed", "t")]),
        (["--run", "1"], [("run.planned", "s")]),
    ],
    ids=["type", "schedule", "schedule-of-agent", "agent", "run"],
)
def test_only_what_was_asked_for(
    user: User,
    bench: Sandbox,
    daemon: Http,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    told: list[tuple[str, str]],
) -> None:
    """S5: the same as without a daemon"""

    def happens() -> None:
        for change in (bench.pause, bench.resume):
            change("t")
            change("s")
        bench.run("s")

    transport = Following(daemon, happens, *[lambda: None] * (len(told) - 1))
    found = followed(user, monkeypatch, transport, *words)
    assert [event for event in found if event[0] != "schedule.created"] == told


def test_what_is_long_past_is_not_read_again(
    user: User, bench: Sandbox, daemon: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose last event is old is followed from now on, not from then on"""
    newest = bench.events.list(limit=1)[-1].id
    transport = Following(daemon)
    assert followed(user, monkeypatch, transport, "--schedule", "s") == [("schedule.created", "s")]
    assert transport.asked == [{"schedule": "s", "after": newest}]


def test_s5_as_a_program(user: User, bench: Sandbox, daemon: Http, tmp_path: Path) -> None:
    """S5: the line is there when it happens; Ctrl-C ends it quietly"""
    token = bench.tokens.create("ci").token
    words = [
        "--url",
        daemon.url,
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
