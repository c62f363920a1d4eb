"""The short roads of the planner and the recorder leave the records that the long ones leave, whatever is due."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from matins.errors import Conflict
from matins.runtime import recorder
from matins.runtime.planner import Planner
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
_WHEN = ("*/5 * * * *", "0 * * * *", "*/7 * * * *", "every 3m", "2026-03-27T08:20:00Z", "2026-03-27T08:20:00.250Z")
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "overlap": ("allow", "skip", "queue"),
    "retries": (0, 2),
    "max_executions": (1, 3),
    "jitter": (10,),
    "catch_up": ("skip", "run_once", "run_all_capped"),
    "grace": ("1s", "2m"),
    "pause_after_failures": (1, 2),
    "payload": ({"n": 1}, {"n": 2}),
    "ends_at": ("2026-03-27T09:30:00Z",),
}
_TABLES = {
    "runs": "SELECT * FROM runs ORDER BY id",
    "due": "SELECT * FROM due ORDER BY schedule_id",
    "attempts": "SELECT * FROM attempts ORDER BY run_id, epoch",
    "permits": "SELECT * FROM permits ORDER BY scope, n",
    # Ends that are recorded in one turn may come in another order, each schedule's own excepted.
    "events": "SELECT at, type, schedule_id, run_id, data FROM events ORDER BY at, schedule_id, run_id, id",
}


def definitions(random: Random) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for nth in range(25):
        names = random.sample(list(_SETTINGS), random.choice((0, 0, 1, 2)))
        settings = {name: random.choice(_SETTINGS[name]) for name in names}
        if nth % 5 == 0:
            settings |= {"catch_up": "run_all_capped", "overlap": "queue"}
        job = random.choice(("work", "work", "work", "result", "fail", "sometimes"))
        found.append({"name": f"s{nth}", "when": random.choice(_WHEN), "timezone": "UTC", "job": job, **settings})
    return found


def lived(seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """The tables after two hours with steps of the clock, pauses, limits, and little capacity at times."""
    random = Random(seed)
    bench = Sandbox(clock=ManualClock(START))
    calls = Random(seed)
    bench.job("work")(lambda run: None)
    bench.job("result")(lambda run: run.attempt)
    bench.job("fail")(lambda run: 1 // 0)
    bench.job("sometimes")(lambda run: 1 // calls.choice((0, 1)) and None)
    bench.add_many(definitions(random))
    for _ in range(15):
        free = random.choice((1_000, 1_000, 2))
        bench.executor.capacity = lambda *, for_agents=False, free=free: free  # type: ignore[method-assign, misc]
        action = random.random()
        if action < 0.2:
            with suppress(Conflict):  # it has ended
                bench.pause(f"s{random.randrange(25)}")
        elif seed % 3 == 0 and action < 0.3:
            bench.limits.set("global", size=random.choice((2, 50)))
        bench.clock.advance(random.choice((60_000, 300_000, 300_000, 1_500_000)))
        bench.settle() if random.random() < 0.5 else bench.run_until(bench.clock.now_ms() + 120_000)
    assert bench.audit.verify().problems == []
    with bench._store.reading() as transaction:
        tables = {name: transaction._connection.execute(sql).fetchall() for name, sql in _TABLES.items()}  # type: ignore[attr-defined]
    bench.close()
    return tables


@pytest.mark.parametrize("seed", range(6))
def test_both_roads_leave_the_same_records(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """E1"""
    taken: list[int] = []
    short = recorder.succeed_plainly
    monkeypatch.setattr(recorder, "succeed_plainly", lambda *a, **k: taken.append(len(a[1])) or short(*a, **k))
    by_short = lived(seed)
    assert sum(taken) > 20
    monkeypatch.setattr(recorder, "_sorted", lambda transaction, ended: ([], ended))
    monkeypatch.setattr(Planner, "_is_open", lambda self, active, capacity: False)
    by_long = lived(seed)
    for name in _TABLES:
        assert by_short[name] == by_long[name], name
