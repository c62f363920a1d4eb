"""A Matins whose runs can be waited for, with the programs that stand in for agents' tools on its PATH."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matins import Matins, Run
from standin_path import standin_path


class Office:
    def __init__(self, url: str, **words: Any) -> None:
        self.matins = Matins(url, **words)
        self._ended = threading.Condition()
        self.matins.subscribe(self._look)

    def _look(self, event: dict[str, Any]) -> None:
        with self._ended:
            self._ended.notify_all()

    def wait(self, name: str, fine: Callable[[Run], bool] = lambda run: not run.live, seconds: float = 90) -> Run:
        """The newest run of a schedule, once it is as it should be."""

        def found() -> Run | None:
            return next(iter([run for run in self.matins.runs.list(schedule=name) if fine(run)]), None)

        with self._ended:
            self._ended.wait_for(found, seconds)
        run = found()
        assert run is not None, [(run.status, run.reason, run.outcome) for run in self.matins.runs.list(schedule=name)]
        return run

    def until(self, found: Callable[[], list[Any]], seconds: float = 90) -> list[Any]:
        """What is found, once there is some."""
        with self._ended:
            self._ended.wait_for(found, seconds)
        return found()

    def fire(self, name: str) -> Run:
        """Run it now, and wait for its end."""
        started = self.matins.run(name)
        return self.wait(name, lambda run: run.id == started.id and not run.live)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setenv("PATH", standin_path())
    made = Office(f"sqlite:///{tmp_path}/matins.db")
    with made.matins:
        yield made
    made.matins.close()
