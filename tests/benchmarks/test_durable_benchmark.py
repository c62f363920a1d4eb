"""The durable benchmark's own parts: Matins on a small store, and the tables' arithmetic; no peers are needed."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import durable  # noqa: E402
import durable_adapter as adapter  # noqa: E402
import durable_matins  # noqa: E402
import durable_report as report  # noqa: E402


def measured(name: str, task: adapter.Task) -> Any:
    command = [sys.executable, str(BENCHMARKS / "durable_matins.py"), name, json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def filled(folder: Path, count: int) -> adapter.Task:
    task = adapter.Task(str(folder), count=count)
    durable_matins.OfMatins(task).prepare()
    return task


def test_what_is_prepared_is_due_and_not_recorded(tmp_path: Path) -> None:
    task = filled(tmp_path, 5)
    observer = adapter.Observer(task)
    assert observer.ask(durable_matins.OfMatins.left) > 0
    assert observer.ask("SELECT count(*) FROM due WHERE due_at <= {now}") == 5
    with pytest.raises(RuntimeError, match="0 records for 5 due schedules"):
        adapter.count_afresh(durable_matins.OfMatins, task)
    observer.close()


@pytest.mark.parametrize("variant", ["", durable_matins.OWN_PAYLOAD])
def test_a_drain_records_every_schedule_once(tmp_path: Path, variant: str) -> None:
    reached = measured("drain", adapter.Task(str(tmp_path), variant=variant, count=30))
    assert reached["recorded"] == reached["count"] == 30
    assert reached["fires_per_s"] > 0
    assert reached["cpu_us_per_fire"] > 0


def test_adding_is_measured_one_by_one_and_in_bulk(tmp_path: Path) -> None:
    task = adapter.Task(str(tmp_path), count=40)
    reached = measured("adding", task)
    assert reached["one_by_one_per_s"] > 0
    assert reached["in_bulk_per_s"] > 0
    observer = adapter.Observer(task)
    assert observer.ask("SELECT count(*) FROM schedules") == 4 + 40
    observer.close()


def test_a_payload_each_makes_every_definition_its_own(tmp_path: Path) -> None:
    def payloads(variant: str) -> set[str]:
        matins = durable_matins.OfMatins(adapter.Task(str(tmp_path), variant=variant))
        return {str(row.get("payload")) for row in matins.schedules("0 9 * * *", "nothing", 3)}

    assert len(payloads("")) == 1
    assert len(payloads(durable_matins.OWN_PAYLOAD)) == 3


def test_the_instants_of_a_latency_measure_are_evenly_spread() -> None:
    assert adapter.Task("", count=4, seconds=2.0, first_due=100.0).dues() == [100.0, 100.5, 101.0, 101.5]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_share_is_taken_by_nearest_rank(share: float, expected: float) -> None:
    assert adapter.at([*map(float, range(1, 101))], share) == expected


def test_the_disk_is_measured(tmp_path: Path) -> None:
    taken = durable.disk(tmp_path, 5)
    assert 0 < taken["fdatasync_p50_ms"] <= taken["fdatasync_p99_ms"]


def test_a_failure_is_told_by_the_first_process_that_failed() -> None:
    told = """warming up
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    connect()
    ^^^^^^^^^
OSError: no such server
Traceback (most recent call last):
  File "b.py", line 1, in <module>
RuntimeError: prepare left with status 1
"""
    assert durable.reason(told) == "OSError: no such server"
    assert durable.reason("") == "it said nothing"


def test_a_contestant_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    nobody = durable.Entry("drain", durable.SQLITE, "nobody", "nobody", 10)
    matins = durable.Entry("drain", durable.SQLITE, "Matins", "matins", 10)
    databases = durable.Databases(tmp_path / "postgres")
    once = dict.fromkeys(durable.MEASURES, 0) | {"drain": 1}
    said = dict(durable.measure([nobody, matins], tmp_path, databases, once))
    assert "durable_nobody.py" in said[nobody]["failed"]
    assert said[matins]["recorded"] == 10
    assert set(durable.figures(said[matins])) == {"fires_per_s", "cpu_us_per_fire"}


def options(**given: Any) -> Namespace:
    return Namespace(**{"only": None, "store": None, "matins": False, "quick": False} | given)


def test_a_part_of_the_benchmark_can_be_chosen() -> None:
    assert durable.chosen(options()) == list(durable.ENTRIES)
    some = durable.chosen(options(only=["latency"], store=durable.SQLITE, quick=True))
    assert {(entry.measure, entry.store) for entry in some} == {("latency", durable.SQLITE)}
    assert {entry.count for entry in some} == {20}
    assert {entry.adapter for entry in durable.chosen(options(matins=True))} == {"matins"}


def test_every_contestant_has_an_adapter_and_every_aim_a_contestant() -> None:
    assert all((BENCHMARKS / f"durable_{entry.adapter}.py").is_file() for entry in durable.ENTRIES)
    assert {(aim.measure, aim.store, aim.contestant) for aim in report.AIMS} <= {entry.key for entry in durable.ENTRIES}


CELLS = report.gather(
    [
        (("drain", "SQLite", "Matins"), {"fires_per_s": 100.0}),
        (("drain", "SQLite", "slow"), {"fires_per_s": 5.0}),
        (("drain", "SQLite", "Matins"), {"fires_per_s": 300.0}),
        (("drain", "SQLite", "quick"), {"fires_per_s": 20.0}),
        (("drain", "SQLite", "Matins"), {"fires_per_s": 200.0}),
        (("latency", "SQLite", "Matins"), {"p50_ms": 2.0, "p99_ms": 9.0}),
        (("latency", "SQLite", "slow"), {"p50_ms": 5.0}),
        (("latency", "SQLite", "early"), {"p50_ms": -3.0}),
    ]
)


def test_the_table_shows_medians_and_how_far_matins_is_ahead() -> None:
    assert report.table(CELLS, "drain", "SQLite").splitlines() == [
        "| contestant | fires_per_s | rounds |",
        "| --- | ---: | ---: |",
        "| Matins | 200 | 3 |",
        "| slow | 5 (40.0×) | 1 |",
        "| quick | 20 (10.0×) | 1 |",
    ]
    assert report.table(CELLS, "latency", "SQLite").splitlines()[2:] == [
        "| Matins | 2 | 9 | 1 |",
        "| slow | 5 (2.5×) |  | 1 |",
        "| early | -3 |  | 1 |",
    ]


def test_the_verdict_holds_every_measured_aim_against_its_figure_and_the_best_peer() -> None:
    aims = [
        report.Aim("drain", "SQLite", "Matins", "fires_per_s", 150, times_peers=12),
        report.Aim("latency", "SQLite", "Matins", "p99_ms", 5),
        report.Aim("latency", "SQLite", "Matins", "p50_ms", 2),
        report.Aim("latency", "PostgreSQL", "Matins", "p50_ms", 2),
    ]
    assert list(report.verdict(CELLS, aims)) == [
        "- reached: drain on SQLite, Matins, fires_per_s: 200 (aim 150)",
        "- MISSED: drain on SQLite, Matins, fires_per_s: 10.0 times the best peer (aim 12)",
        "- MISSED: latency on SQLite, Matins, p99_ms: 9 (aim 5)",
        "- reached: latency on SQLite, Matins, p50_ms: 2 (aim 2)",
    ]
