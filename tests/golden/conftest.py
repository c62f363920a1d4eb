"""The scene is shown to the tests' user of the command line, and by their server of pages."""

from __future__ import annotations

import sys
from pathlib import Path

SURFACES = Path(__file__).parents[1] / "surfaces"
sys.path[:0] = [str(SURFACES / "cli"), str(SURFACES / "web")]
