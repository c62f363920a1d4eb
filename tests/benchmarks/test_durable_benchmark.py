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


def asked(task: adapter.Task, sql: str) -> int:
    observer = adapter.Observer(task)
    try:
        return observer.ask(sql)
    finally:
        observer.close()


def filled(folder: Path, count: int) -> adapter.Task:
    task = adapter.Task(str(folder), count=count)
    durable_matins.OfMatins(task).prepare()
    return task


def test_what_is_prepared_is_due_and_not_recorded(tmp_path: Path) -> None:
    task = filled(tmp_path, 5)
    assert asked(task, durable_matins.OfMatins.left) > 0
    assert asked(task, "SELECT count(*) FROM due WHERE due_at <= {now}") == 5
    with pytest.raises(RuntimeError, match="0 records for 5 due schedules"):
        adapter.count_afresh(durable_matins.OfMatins, task)


@pytest.mark.parametrize("entry", durable.kinds("drain", durable.SQLITE), ids=lambda entry: entry.name)
def test_a_drain_of_each_kind_records_every_schedule_once(tmp_path: Path, entry: durable.Entry) -> None:
    reached = measured("drain", adapter.Task(str(tmp_path), variant=entry.variant, count=30))
    assert reached["recorded"] == reached["count"] == 30
    assert reached["fires_per_s"] > 0
    assert reached["cpu_us"] > 0


def test_jobs_that_write_have_a_line_each(tmp_path: Path) -> None:
    task = adapter.Task(str(tmp_path), variant=durable_matins.ONE_SHOTS, count=30)
    assert measured("lines", task)["lines_per_s"] > 0
    assert sorted(int(line.split()[2]) for line in task.lines.read_text().splitlines()) == [*range(30)]


def test_failures_are_measured_until_their_incidents_are_open(tmp_path: Path) -> None:
    task = adapter.Task(str(tmp_path), variant=durable_matins.FAILING, count=30)
    assert measured("failing", task)["cpu_us"] > 0
    assert asked(task, "SELECT count(*) FROM incidents") == 30


def test_a_catch_up_runs_every_slot_that_was_missed(tmp_path: Path) -> None:
    task = adapter.Task(str(tmp_path), count=durable_matins.SLOTS)
    assert measured("catch-up", task)["slots_per_s"] > 0
    assert asked(task, "SELECT count(*) FROM schedules") == 1
    assert asked(task, "SELECT count(*) FROM runs WHERE state = 10") >= durable_matins.SLOTS


@pytest.mark.parametrize("threads", [1, 4])
def test_adding_is_measured_one_by_one(tmp_path: Path, threads: int) -> None:
    task = adapter.Task(str(tmp_path), count=40, threads=threads)
    assert adapter.add_one_by_one(durable_matins.OfMatins(task))["added_per_s"] > 0
    assert asked(task, "SELECT count(*) FROM schedules") == 40


@pytest.mark.parametrize("entry", durable.kinds("bulk", durable.SQLITE), ids=lambda entry: entry.name)
def test_adding_of_each_kind_is_measured_in_bulk(tmp_path: Path, entry: durable.Entry) -> None:
    task = adapter.Task(str(tmp_path), variant=entry.variant, count=40)
    assert adapter.add_in_bulk(durable_matins.OfMatins(task))["added_per_s"] > 0
    different = 40 if entry.variant else 1
    assert asked(task, "SELECT count(DISTINCT definition) FROM revisions") == different


def test_starting_is_measured_apart(tmp_path: Path) -> None:
    reached = measured("starting", adapter.Task(str(tmp_path), count=1))
    assert set(reached) == {"import_s", "command_add_s", "open_ms", "preview_ms", "preview_runs_per_day"}
    assert all(value > 0 for value in reached.values())


def test_fires_beside_a_backlog_are_measured(tmp_path: Path) -> None:
    reached = measured("backlog", adapter.Task(str(tmp_path), count=200))
    assert set(reached) == {"p50_ms", "p99_ms", "stop_s", "count"}


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
    said = dict(durable.measure([nobody, matins], tmp_path, databases, once, {}))
    assert "durable_nobody.py" in said[nobody]["failed"]
    assert said[matins]["recorded"] == 10
    assert set(durable.figures(said[matins])) == {"fires_per_s", "cpu_us"}


def test_an_earlier_commit_runs_beside_each_row_of_matins_in_turn(tmp_path: Path) -> None:
    """Its Python stands for an environment with that commit; without one the row says what is missing."""
    matins = durable.Entry("drain", durable.SQLITE, "Matins", "matins", 10)
    twice = dict.fromkeys(durable.MEASURES, 0) | {"drain": 2}
    bases = {"base": sys.executable, "gone": str(tmp_path / "python")}
    rounds = [*durable.measure([matins], tmp_path, durable.Databases(tmp_path / "postgres"), twice, bases)]
    assert [entry.side for entry, _ in rounds] == ["now", "base", "gone", "gone", "base", "now"]
    assert ["failed" in said for _, said in rounds] == [False, False, True, True, False, False]
    assert str(tmp_path / "python") in rounds[2][1]["failed"]
    late = [*durable.measure([matins], tmp_path, durable.Databases(tmp_path / "postgres"), twice, bases, minutes=-1)]
    assert [said["failed"][:19] for _, said in late] == ["round 1 was left ou", "round 2 was left ou"]
    peer = durable.Entry("drain", durable.SQLITE, "Huey", "huey", 10)
    assert durable.sides(peer, bases) == [peer]


def options(**given: Any) -> Namespace:
    return Namespace(**{"only": None, "store": None, "name": None, "matins": False, "quick": False} | given)


def test_a_part_of_the_benchmark_can_be_chosen() -> None:
    assert durable.chosen(options()) == list(durable.ENTRIES)
    some = durable.chosen(options(only=["latency"], store=durable.SQLITE, quick=True))
    assert {(entry.measure, entry.store) for entry in some} == {("latency", durable.SQLITE)}
    assert {(entry.adapter, entry.count) for entry in some} == {("matins", 50)}
    assert {entry.adapter for entry in durable.chosen(options(matins=True))} == {"matins"}


def test_every_contestant_has_an_adapter_and_every_aim_a_contestant() -> None:
    assert all((BENCHMARKS / f"durable_{entry.adapter}.py").is_file() for entry in durable.ENTRIES)
    assert {(aim.measure, aim.store, aim.contestant) for aim in report.AIMS} <= {
        entry.key[:3] for entry in durable.ENTRIES
    }


def test_every_measure_of_the_entries_has_rounds_and_every_variant_a_name() -> None:
    assert {entry.measure for entry in durable.ENTRIES} == set(durable.ROUNDS)
    known = {value for name, value in vars(durable_matins).items() if name.isupper() and isinstance(value, str)}
    assert {entry.variant for entry in durable.ENTRIES if entry.adapter == "matins"} <= known | {""}


CELLS = report.gather(
    [
        (report.Key("drain", "SQLite", "Matins"), {"fires_per_s": 100.0}),
        (report.Key("drain", "SQLite", "slow"), {"fires_per_s": 5.0}),
        (report.Key("drain", "SQLite", "Matins"), {"fires_per_s": 300.0}),
        (report.Key("drain", "SQLite", "quick"), {"fires_per_s": 20.0}),
        (report.Key("drain", "SQLite", "Matins"), {"fires_per_s": 200.0}),
        (report.Key("latency", "SQLite", "Matins"), {"p50_ms": 2.0, "p99_ms": 9.0}),
        (report.Key("latency", "SQLite", "slow"), {"p50_ms": 5.0}),
        (report.Key("latency", "SQLite", "early"), {"p50_ms": -3.0}),
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
        report.Aim("latency", "SQLite", "Matins", "p50_ms", 2, times_peers=2),
        report.Aim("latency", "PostgreSQL", "Matins", "p50_ms", 2),
    ]
    assert list(report.verdict(CELLS, aims)) == [
        "- reached: drain on SQLite, Matins, fires_per_s: 200 (aim 150, 1.33 of it)",
        "- MISSED: drain on SQLite, Matins, fires_per_s: 10.0 times the best peer (aim 12)",
        "- MISSED: latency on SQLite, Matins, p99_ms: 9 (aim 5, 1.80 of it)",
        "- reached: latency on SQLite, Matins, p50_ms: 2 (aim 2, 1.00 of it)",
        "- reached: latency on SQLite, Matins, p50_ms: 2.5 times the best peer (aim 2)",
    ]


def test_what_has_become_slower_than_an_earlier_commit_is_named() -> None:
    """In the median and in the best round: one slow round is the machine."""
    now = report.Key("drain", "SQLite", "Matins")
    rounds = {now: [(30.0, 300.0), (33.0, 100.0)], now._replace(side="abc"): [(20.0, 300.0), (22.0, 310.0)]}
    once_slow = {now._replace(store="PostgreSQL"): [(20.0, 1.0), (90.0, 1.0)]}
    once_slow[now._replace(store="PostgreSQL", side="abc")] = [(20.0, 1.0), (20.0, 1.0)]
    cells = report.gather(
        (key, {"cpu_us": cpu, "fires_per_s": rate})
        for key, pairs in (rounds | once_slow).items()
        for cpu, rate in pairs
    )
    lines = [*report.beside(cells, "abc")]
    assert lines[2] == "| drain | SQLite | Matins | cpu_us | 21 | 31.5 | 1.50 | 1.50 | 2 |"
    assert [line for line in lines if line.startswith("- ")] == [
        "- SLOWER than abc: drain on SQLite, Matins, cpu_us: 1.50 times"
    ]
    assert [*report.beside(cells[2:], "abc")][-1] == "- Nothing takes 1.1 times what it took at abc."
