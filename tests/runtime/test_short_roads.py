"""The short roads of the planner and the recorder leave the records that the long ones leave, whatever is due."""

from __future__ import annotations

import gc
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from matins.engine.planning import Timetable
from matins.errors import Conflict
from matins.runtime import catalog, recorder
from matins.runtime.planner import Planner
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
_ONCE = ("2026-03-27T08:20:00Z", "2026-03-27T08:20:00.250Z", "2026-03-27T08:35:00Z", "2026-03-27T09:05:00Z")
_WHEN: tuple[dict[str, Any], ...] = (
    *({"when": cron} for cron in ("*/5 * * * *", "0 * * * *", "*/7 * * * *")),
    *({"when": instant} for instant in _ONCE),
    {"when": "every 3m"},
    {"when": "every 9m"},
    *({"when": "every 4m", "anchor": anchor} for anchor in ("completion", "start", "grid")),
)
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "overlap": ("allow", "skip", "queue"),
    "retries": (0, 2),
    "max_executions": (1, 3),
    "jitter": (10,),
    "catch_up": ("skip", "run_once", "run_all_capped"),
    "grace": ("1s", "2m", "10m"),
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


_SCHEDULES = 40


def definitions(random: Random) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for nth in range(_SCHEDULES):
        names = random.sample(list(_SETTINGS), random.choice((0, 0, 1, 2)))
        settings = {name: random.choice(_SETTINGS[name]) for name in names}
        if nth % 5 == 0:
            settings |= {"catch_up": "run_all_capped", "overlap": "queue"}
        job = random.choice(("work", "work", "work", "result", "result", "fail", "sometimes"))
        zone = random.choice(("UTC", "Europe/London", "Asia/Kolkata"))
        found.append({"name": f"s{nth}", **random.choice(_WHEN), "timezone": zone, "job": job, **settings})
    return found


def lived(seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """The tables after two hours with steps of the clock, pauses, limits, and little capacity at times."""
    random = Random(seed)
    bench = Sandbox(clock=ManualClock(START))
    calls = Random(seed)
    bench.job("work")(lambda run: None)
    bench.job("result")(lambda run: [run.attempt, run.schedule, run.payload, str(run.slot)])
    bench.job("fail")(lambda run: 1 // 0)
    bench.job("sometimes")(lambda run: 1 // calls.choice((0, 1)) and None)
    bench.add_many(definitions(random))
    for _ in range(15):
        free = random.choice((1_000, 1_000, 2))
        bench.executor.capacity = lambda *, for_agents=False, free=free: free  # type: ignore[method-assign, misc]
        action = random.random()
        if action < 0.2:
            with suppress(Conflict):  # it has ended
                bench.pause(f"s{random.randrange(_SCHEDULES)}")
        elif seed % 3 == 0 and action < 0.3:
            bench.limits.set("global", size=random.choice((2, 50)))
        bench.clock.advance(random.choice((60_000, 300_000, 300_000, 1_500_000)))
        bench.settle() if random.random() < 0.5 else bench.run_until(bench.clock.now_ms() + 120_000)
    assert bench.audit.verify().problems == []
    with bench._store.reading() as transaction:
        tables = {name: transaction._connection.execute(sql).fetchall() for name, sql in _TABLES.items()}  # type: ignore[attr-defined]
    bench.close()
    return tables


def _only_long_roads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slot is planned as if it were special, every end is a change of its own, and no schedule shares settings
    with another."""
    plain = Timetable.__init__

    def special(self: Timetable, definition: Any, trigger: Any) -> None:
        plain(self, definition, trigger)
        self.plain_times = False

    monkeypatch.setattr(Timetable, "__init__", special)
    monkeypatch.setattr(recorder, "_sorted", lambda transaction, ended, *_: ((), ended))
    monkeypatch.setattr(Planner, "_is_open", lambda self, active, capacity: False)
    monkeypatch.setattr(catalog, "shared_words", lambda text: None)
    monkeypatch.setattr(catalog, "_remembered", catalog._settings)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    catalog._remembered.cache_clear()
    catalog._by_words.clear()


@pytest.mark.parametrize("seed", range(6))
def test_both_roads_leave_the_same_records(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """E1"""
    taken: list[int] = []
    short = recorder.succeed_plainly
    monkeypatch.setattr(recorder, "succeed_plainly", lambda *a, **k: taken.append(len(a[1])) or short(*a, **k))
    by_short = lived(seed)
    assert sum(taken) > 20
    _only_long_roads(monkeypatch)
    by_long = lived(seed)
    for name in _TABLES:
        assert by_short[name] == by_long[name], name


def test_one_shots_share_all_but_instant_and_payload() -> None:
    """What is decoded late is each one's own, and what a job changes in its payload reaches no other."""
    bench = Sandbox(clock=ManualClock(START))
    seen: list[tuple[Any, str]] = []

    @bench.job("note")
    def _(run: Any) -> None:
        seen.append((run.payload, str(run.slot)))
        run.payload["n"] += 100

    latest_first = reversed(_ONCE)
    same = {"job": "note", "timezone": "Asia/Kolkata", "retries": 3}
    bench.add_many([{"name": f"o{n}", "when": at, "payload": {"n": n}, **same} for n, at in enumerate(latest_first)])
    with bench._store.reading() as transaction:
        items = bench._catalog.compiled(transaction, [(n, 1, 0) for n in range(1, len(_ONCE) + 1)]).values()
    assert len({id(item.shared) for item in items}) == 1  # type: ignore[union-attr]
    assert [item.definition.payload for item in items] == [{"n": n} for n in range(len(_ONCE))]  # type: ignore[union-attr]
    assert len({item.definition.trigger.when for item in items}) == len(_ONCE)  # type: ignore[union-attr]
    bench.run_until("2026-03-27T10:00:00Z")
    assert [payload["n"] for payload, _ in seen] == [103, 102, 101, 100]
    assert [slot for _, slot in seen] == [
        "2026-03-27 13:50:00+05:30",
        "2026-03-27 13:50:00.250000+05:30",
        "2026-03-27 14:05:00+05:30",
        "2026-03-27 14:35:00+05:30",
    ]
    bench.close()


def test_what_is_special_about_a_schedule() -> None:
    """The short roads are for all others."""
    bench = Sandbox(clock=ManualClock(START))
    bench.job("work")(lambda run: None)
    special: dict[str, Any] = {
        "plain": {},
        "interval": {"when": "every 3m"},
        "payload": {"payload": {"n": 1}},
        "jitter": {"jitter": 10},
        "ends": {"ends_at": "2026-04-27T09:30:00Z"},
        "guarded": {"approval": "owner_approve"},
        "after": {"after_run": "true"},
    }
    found: dict[str, int] = {}
    for name, settings in special.items():
        bench.add(name, job="work", **{"when": "0 * * * *", **settings})
    with bench._store.reading() as transaction:
        for number, name in enumerate(special, 1):
            found[name] = bench._catalog.find(transaction, (number, 1, 0)).special  # type: ignore[union-attr]
    assert found == {
        "plain": 0,
        "interval": 0,
        "payload": 0,
        "jitter": catalog.Special.TIMES,
        "ends": catalog.Special.TIMES | catalog.Special.GATES,
        "guarded": catalog.Special.GATES,
        "after": catalog.Special.COMMAND,
    }
    bench.close()


def test_what_is_kept_of_a_schedule_is_one_object() -> None:
    """A full collection of the garbage collector stops all threads, and walks everything that the catalog keeps. Of
    one-shots nothing is kept when they have fired."""
    bench = Sandbox(clock=ManualClock(START))
    bench.job("work")(lambda run: None)
    kinds: dict[str, dict[str, Any]] = {
        "equal": {"when": "0 * * * *"},
        "payload": {"when": "0 * * * *", "payload": {"n": [1, 2]}},
        "interval": {"when": "every 30m"},
        "once": {"when": "2026-03-27T09:00:00Z", "payload": {"n": [1, 2]}},
    }
    kept: dict[str, float] = {}
    for kind, settings in kinds.items():
        ids = [
            int(made)
            for made in bench.add_many([{"name": f"{kind} {n}", "job": "work", **settings} for n in range(401)])
        ]
        known = catalog.Catalog()
        with bench._store.reading() as transaction:
            known.find(transaction, (ids[0], 1, 0))
            gc.collect()
            before = len(gc.get_objects())
            known.compiled(transaction, [(number, 1, 0) for number in ids[1:]])
            gc.collect()
            kept[kind] = (len(gc.get_objects()) - before) / 400
        assert len(known._cache) == (0 if kind == "once" else 401)
        known._one_shots.clear()
    assert all(objects < 1.1 for objects in kept.values()), kept
    bench.close()
