"""The commands that the page shows, above all where there is nothing to show yet."""

from __future__ import annotations

import html
import re
import shlex
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from page_server import PageServer

from matins.model.access import Principal
from matins.surfaces.cli.main import cli
from matins.surfaces.http.authentication import COOKIE
from matins.web.views import VIEWS

_COMMAND = re.compile(r"<code[^>]*>(?:crontab -l \| )?(matins [^<]*)</code>")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[set[str]]:
    """Those of every view of a store in which there is an agent, and nothing else."""
    server = PageServer(f"sqlite:///{tmp_path}/m.db", start=False)
    server.matins.agents.set("demo", runner="demo")
    cookie = f"{COOKIE}={server.session()}"
    paths = [path for path in VIEWS if "{" not in path] + ["/agents/demo"]
    found: set[str] = set()
    for path in paths:
        request = urllib.request.Request(f"{server.url}{path}", headers={"Cookie": cookie})
        with urllib.request.urlopen(request, timeout=90) as answer:
            found |= {html.unescape(text) for text in _COMMAND.findall(answer.read().decode())}
    yield found
    server.close()


def check(words: list[str]) -> None:
    """Parse a command with its options, and do not execute it."""
    context = cli.make_context("matins", words)
    command: click.Command = cli
    while isinstance(command, click.Group) and (left := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, left)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)


def test_every_command_that_the_page_shows_is_one(commands: set[str]) -> None:
    """Its name and its options are those of the command line."""
    assert len(commands) > 15, commands
    for command in sorted(commands):
        try:
            check(shlex.split(command)[1:])
        except click.ClickException as error:
            pytest.fail(f"{command}: {error.format_message()}")


def test_a_command_that_is_none_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        check(["inbound", "set", "github", "--scheme", "github"])


def test_b22_a_proposed_command_is_shown_whole(tmp_path: Path) -> None:
    """B22: whoever approves it reads every line of it"""
    server = PageServer(f"sqlite:///{tmp_path}/m.db", start=False)
    command = "cd /srv &&\n  pg_dump app | gzip > '/backups/<app>.gz'"
    server.matins.acting_as(Principal("operator", "ben")).add("dump", when="1d", command=command)
    request = urllib.request.Request(f"{server.url}/approvals", headers={"Cookie": f"{COOKIE}={server.session()}"})
    with urllib.request.urlopen(request, timeout=90) as answer:
        text = html.unescape(answer.read().decode())
    server.close()
    assert command in text
    assert "What would run" in text
