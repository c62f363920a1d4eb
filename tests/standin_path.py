"""The PATH of stand-ins, and behind them the Python of the tests: another `python3` may be slow to start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STANDINS = Path(__file__).parent / "standins"


def standin_path() -> str:
    return os.pathsep.join([str(STANDINS), str(Path(sys.executable).parent), os.environ["PATH"]])
