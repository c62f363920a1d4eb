"""The benchmark of processes measures what it says, and its verdict can be lost."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "processes.py"


@pytest.fixture
def processes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_processes", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_runs(tmp_path: Path) -> None:
    """Every contestant in every measure, a flood, many runs, and nothing left in its folder"""
    command = [sys.executable, PROGRAM, "--quick", "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = done.stdout
    records = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    rates = [record for record in records if "runs_per_s" in record]
    assert len({(record["measure"], record["contestant"]) for record in rates}) == 10
    assert all(record["runs_per_s"] > 0 for record in rates)
    assert [record for record in records if record.get("measure") == "many runs"] == [
        {"measure": "many runs", "runs": 100, "zombies": 0, "open_files_more": 0}
    ]
    assert "reached: after 100 runs: 0 zombies, 0 open files more" in told
    assert list(tmp_path.iterdir()) == []


def test_ratios_are_of_the_same_round(processes: ModuleType) -> None:
    """A slow moment of the machine falls on both."""
    found = {
        (name, contestant): rates
        for name in processes.LANES
        for contestant, rates in ((processes.BARE, [100, 10, 100]), (processes.MATINS, [60, 6, 40]))
    }
    assert processes.verdict(found).splitlines() == [
        "- reached: one at a time, Matins: 0.60 times the bare process (aim 0.5)",
        "- MISSED: four at a time, Matins: 0.60 times the bare process (aim 1)",
    ]
