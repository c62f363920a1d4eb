"""An engine in a process of its own, which reads its time zone data from the folder of PYTHONTZPATH.

A line of stdin is a call, [name, arguments]; a line of stdout is what it gives.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any

from matins.testing import ManualClock, Sandbox, iso


def data_folder(folder: Path, **zones: str) -> Path:
    """Time zone data in which each zone, as Area__City, is what another one is."""
    for name, like in zones.items():
        target = folder / name.replace("__", "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(resources.files("tzdata.zoneinfo").joinpath(*like.split("/")).read_bytes())
    return folder


class Program:
    """A process with an engine on a store."""

    def __init__(self, url: str, now: str, folder: Path) -> None:
        words = [sys.executable, __file__, url, now]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONTZPATH": str(folder)}
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop as a person stops it; an engine that was killed is gone already."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(300)
        self._process.stdout.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(300)

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        self.begin(name, **arguments)
        return self.answer()

    def begin(self, name: str, /, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process ended instead of answering"
        return json.loads(line)


class Calls:
    def __init__(self, url: str, now: str) -> None:
        self.bench = Sandbox(url, clock=ManualClock(now))
        self.bench.job("work")(lambda run: None)
        self.logged: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: self.logged.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("matins").addHandler(handler)

    def add(self, name: str, **settings: Any) -> None:
        self.bench.add(name, job="work", **settings)

    def edit(self, name: str, **settings: Any) -> None:
        self.bench.edit(name, **settings)

    def run_until(self, at: str) -> None:
        self.bench.run_until(at)

    def next(self, name: str) -> str | None:
        return iso(self.bench.get(name).next_run_at)

    def runs(self, name: str) -> list[str]:
        return [f"{iso(run.slot)} {run.state}" for run in reversed(self.bench.all_runs(name))]

    def events(self, type: str) -> list[Any]:
        return [event.data for event in self.bench.events.list(types=[type], limit=1000)]

    def why(self, name: str, at: str | None = None) -> str:
        return self.bench.why(name, at=at).summary

    def doctor(self) -> list[str]:
        return [finding.sentence for finding in self.bench.system.doctor() if finding.what == "zones"]

    def log(self) -> list[str]:
        return self.logged

    def versions(self) -> int:
        with self.bench.store.reading() as transaction:
            return len(transaction.zone_versions())

    def problems(self) -> list[str]:
        return [str(problem) for problem in self.bench.audit.verify().problems]


def main() -> None:
    calls = Calls(*sys.argv[1:])
    for line in sys.stdin:
        name, arguments = json.loads(line)
        sys.stdout.write(json.dumps(getattr(calls, name)(**arguments)) + "\n")
        sys.stdout.flush()
    calls.bench.engine.close()
    calls.bench.close()


if __name__ == "__main__":
    main()
