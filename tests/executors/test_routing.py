"""Jobs and agents in one process: each has places of its own. Rows H2, H10."""

from __future__ import annotations

import threading
from collections import Counter

from office import Office, office

from matins.executors.job_context import JobContext

__all__ = ["office"]
MANY = 100
AHEAD = 32
"""What is taken at first for eight threads."""


def test_h2_jobs_that_take_long_keep_no_agent_waiting(office: Office) -> None:
    """H2 H10: no more jobs are taken than threads will soon be free for, and an agent passes all that wait"""
    m, go_on, done = office.matins, threading.Event(), threading.Semaphore(0)
    begun: Counter[str] = Counter()

    @m.job("long")
    def long(run: JobContext) -> None:
        begun[run.schedule] += 1
        go_on.wait(90)
        done.release()

    m.agents.set("ann", runner="demo")
    m.add("talk", when="every day at 09:00", agent="ann", prompt="Hello")
    names = [f"long-{n}" for n in range(MANY)]
    m.add_many([{"name": name, "when": "every day at 09:00", "job": "long"} for name in names])
    for name in names:
        m.run(name)
    assert office.fire("talk").state == "succeeded"
    assert taken(office) <= AHEAD
    go_on.set()
    for _ in names:
        assert done.acquire(timeout=90)
    assert begun == dict.fromkeys(names, 1)


def taken(office: Office) -> int:
    loop = office.matins._loop
    assert loop is not None
    with office.matins.store.reading() as transaction:
        return len(transaction.started(loop.engine.worker, mine=True))
