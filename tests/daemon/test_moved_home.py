"""A directory that is put in the place of the home of a running daemon is not read."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from house import House
from matins.config.file import ConfigFile
from matins.errors import StoreUnavailable

HINT = "Put it back. If you did not move it, an agent may have: look before you restart."
FILE = "agents: {{{name}: {{runner: demo, isolation: none}}}}\n"


def planted(home: Path) -> Path:
    """The home is put away, and another one with a file is in its place."""
    away = home.rename(home.with_name("away"))
    home.mkdir(mode=0o700)
    (home / "matins.yaml").write_text(FILE.format(name="planted"))
    return away


def test_b16_a_running_daemon_reads_its_own_home_only(house: Callable[..., House], tmp_path: Path) -> None:
    """B16: its store is elsewhere, so that nothing but the file could tell"""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "matins.yaml").write_text(FILE.format(name="own"))
    one = house("--store", f"sqlite:///{tmp_path}/elsewhere/matins.db").up()
    assert [agent["name"] for agent in one.ask("agents.list")] == ["own"]
    away = planted(home)
    one.signal(signal.SIGHUP)
    assert one.logged("Read the file again: applied")
    assert [agent["name"] for agent in one.ask("agents.list")] == ["own"]
    (away / "matins.yaml").write_text(FILE.format(name="changed"))  # the control: its own file is still read
    one.signal(signal.SIGHUP)
    assert one.logged("Read the file again: applied", 2)
    assert [agent["name"] for agent in one.ask("agents.list")] == ["changed"]


def test_b16_nothing_is_written_to_a_home_that_was_put_in_its_place(tmp_path: Path) -> None:
    """B16"""
    home = tmp_path / "home"
    home.mkdir()
    (home / "matins.yaml").write_text(FILE.format(name="own"))
    folder = os.open(home, os.O_RDONLY)
    try:
        file = ConfigFile(home / "matins.yaml", folder)
        before = file.replace(file.read(), FILE.format(name="second"))
        assert file.read().text == FILE.format(name="second")
        planted(home)
        assert file.read().text == FILE.format(name="second")
        with pytest.raises(StoreUnavailable, match="was moved or replaced") as told:
            file.replace(before, FILE.format(name="third"))
        assert told.value.hint == HINT
        assert [entry.name for entry in home.iterdir()] == ["matins.yaml"]
    finally:
        os.close(folder)
