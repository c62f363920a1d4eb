"""The daemon gives fires the interpreter soon, and the garbage collector little to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from house import House
from matins.daemon.daemon import COLLECTED_EVERY, SWITCH_S

_SAYING = """
import gc, runpy, sys
from matins.daemon import daemon

def announced(self, moved, real=daemon.Daemon._announce):
    frozen, after = gc.get_freeze_count(), gc.get_threshold()
    print(f"switches {sys.getswitchinterval()} frozen {frozen} after {after}", file=sys.stderr)
    real(self, moved)

daemon.Daemon._announce = announced
sys.argv = ["matins", "up", "--port", "0"]
runpy.run_module("matins", run_name="__main__")
"""
"""`matins up`, which says the state of its interpreter when it is ready."""


def test_threads_change_often_and_what_is_loaded_is_not_looked_at_again(tmp_path: Path) -> None:
    house = House(tmp_path / "home", program=(sys.executable, "-c", _SAYING))
    try:
        house.up()
        assert house.logged("switches ")
        line = next(line for line in house.log if line.startswith("switches "))
        _, interval, _, frozen, _, *thresholds = line.split()
        assert float(interval) == pytest.approx(SWITCH_S)
        assert int(frozen) > 10_000
        assert " ".join(thresholds) == str(COLLECTED_EVERY)
    finally:
        house.kill()
