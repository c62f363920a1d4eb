"""`runs.wait`: until a run is over, or needs a person."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from matins import JobContext, Matins


@pytest.fixture
def m() -> Iterator[Matins]:
    matins = Matins("sqlite://")
    with matins:
        yield matins
    matins.close()


def test_it_returns_when_the_run_is_over(m: Matins) -> None:
    go = threading.Event()

    @m.job("slow")
    def slow(run: JobContext) -> str:
        go.wait(60)
        return "done"

    m.add("x", when="1d", job="slow")
    run = m.run("x")
    assert m.runs.wait(run.id, timeout=0.05).live
    go.set()
    over = m.runs.wait(run.id, timeout=60)
    assert (over.state, over.outcome["result"]) == ("succeeded", "done")


def test_it_returns_when_a_person_must_decide(m: Matins) -> None:
    m.job("deploy")(lambda run: None)
    m.add("x", when="1d", job="deploy", approval="owner_approve")
    waiting = m.runs.wait(m.run("x").id, timeout=60)
    assert (waiting.state, waiting.status) == ("waiting", "awaiting_approval")
