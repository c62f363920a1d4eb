"""The scene is shown to the tests' user of the command line, and by their server of pages."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "surfaces" / "cli"), str(TESTS / "web")]
