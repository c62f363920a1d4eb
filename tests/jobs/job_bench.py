"""A schedule of a job, on a bench or with real agents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from matins import Matins, Run
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))) as made:
        made.agents.set("scout", runner="demo", workdir=str(tmp_path))
        yield made


def add(bench: Any, job: str, payload: Any = None, **settings: Any) -> Any:
    return bench.add("s", when="0 9 * * *", agent="scout", job=job, payload=payload, **settings)


def ended(bench: Sandbox) -> Run:
    bench.run("s")
    bench.settle()
    return bench.runs.list(schedule="s")[0]


def result(bench: Sandbox) -> Any:
    run = ended(bench)
    assert run.state == "succeeded", run.outcome
    return (run.outcome or {}).get("result")


@pytest.fixture
def m(tmp_path: Path) -> Iterator[Matins]:
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as made, made:
        yield made


def agent(m: Matins, folder: Path, script: str) -> None:
    m.agents.set("magpie", runner="shell", command=["sh", "-c", script], workdir=str(folder))


def fire(m: Matins, job: str, payload: dict[str, Any], **settings: Any) -> Run:
    m.add("s", when="0 0 1 1 *", agent="magpie", job=job, payload=payload, **settings)
    return m.runs.wait(m.run("s").id, timeout=90)
