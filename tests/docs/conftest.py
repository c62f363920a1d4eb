"""What the pages' examples find around them: programs that stand in for agents' tools, and for a model's endpoint."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from matins import plugins
from matins.executors.registry import runners
from standin_path import STANDINS, standin_path


def forget_plugins() -> None:
    """As if nothing had been looked up yet."""
    for looked_up in (runners, plugins.installed, plugins._entry_points):
        looked_up.cache_clear()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On PATH; their sessions are in a home of their own. An example may add a runner for itself."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget_plugins()
    monkeypatch.setenv("PATH", standin_path())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GARDEN_SECRET", "")  # so that what an example sets is gone afterwards
    yield
    forget_plugins()


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The address of something that speaks chat completions."""
    with subprocess.Popen([sys.executable, str(STANDINS / "openai")], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()
