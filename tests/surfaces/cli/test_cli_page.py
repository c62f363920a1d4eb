"""docs/cli.md: every example prints what the page says, and every command is on it."""

from __future__ import annotations

import re
from pathlib import Path

import click
from cli_page import PAGE, rendered

from matins.surfaces.cli import cli
from matins.surfaces.cli.command_index import sections


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    """B2, B3, P10: renew it with `python tests/surfaces/cli/cli_page.py`"""
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page, tmp_path).splitlines() == page.splitlines()


def test_a_daemon_says_the_same(tmp_path: Path) -> None:
    """V2, B2, B3: word by word, over HTTP"""
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page, tmp_path, over_http=True).splitlines() == page.splitlines()


def test_every_command_is_on_the_page() -> None:
    """P4: with an example, and each verb of a noun by its name"""
    page = PAGE.read_text(encoding="utf-8")
    context = click.Context(cli)
    for name in (name for section in sections().values() for name in section):
        assert re.search(rf"(^\$ |`)matins {name}\b", page, re.MULTILINE), name
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            assert [verb for verb in command.commands if not re.search(rf"\b{verb}\b", page)] == [], name
