"""Plug-ins of other distributions, as pip installs them: loaded, left out when broken, never in place of ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matins import plugins
from matins.executors.runners.builtin import Shell

Register = Callable[[str, str], None]


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Install a distribution whose entry points are given."""

    def install(name: str, points: str) -> None:
        metadata = tmp_path / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(points, encoding="utf-8")

    def forget() -> None:
        plugins.installed.cache_clear()
        plugins._entry_points.cache_clear()  # pyright: ignore[reportPrivateUsage]

    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield install
    forget()


def test_those_of_every_distribution_are_found_sorted_by_name(register: Register) -> None:
    register("b", "[matins.colours]\nred = json:loads\n")
    register("a", "[matins.colours]\nyellow = json:dumps\nblue = json:load\n")
    assert list(plugins.installed("matins.colours")) == ["blue", "red", "yellow"]


def test_a_broken_one_is_logged_and_left_out(register: Register, caplog: pytest.LogCaptureFixture) -> None:
    register("a", "[matins.colours]\nred = json:loads\nblue = json:nothing\ngrey = no_such_module:x\n")
    with caplog.at_level(logging.ERROR, "matins"):
        assert list(plugins.installed("matins.colours")) == ["red"]
    assert [record.getMessage() for record in caplog.records] == [
        "blue cannot be loaded from json:nothing",
        "grey cannot be loaded from no_such_module:x",
    ]


def test_our_own_is_used_when_another_has_its_name(register: Register, caplog: pytest.LogCaptureFixture) -> None:
    register("a", "[matins.executors]\nshell = json:loads\n")
    with caplog.at_level(logging.ERROR, "matins"):
        assert plugins.installed("matins.executors")["shell"] is Shell
    (record,) = caplog.records
    assert record.getMessage() == (
        '"shell" is registered twice in matins.executors: by matins.executors.runners.builtin:Shell, and by '
        "json:loads, which is left out."
    )
