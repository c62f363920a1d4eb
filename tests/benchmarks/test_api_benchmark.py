"""The benchmark of the API runs, and says what it is meant to say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "api.py"


def test_a_quick_run_measures_everything() -> None:
    command = [sys.executable, str(SCRIPT), "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    rates = {line["measure"]: line["per_s"] for line in told[1:]}
    assert len(rates) == 11
    assert all(rate > 0 for name, rate in rates.items() if name != "nothing is asked")
    assert "read one schedule:" in result.stdout
    (mixed,) = (line for line in told[1:] if line["measure"] == "all of it, mixed")
    assert result.stdout.count("(aim ") == (7 if mixed["fires"] else 6), "a short run may have no fire in it"


def test_a_quick_run_of_the_page_says_what_is_sent() -> None:
    command = [sys.executable, str(SCRIPT.with_name("page.py")), "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert told[1]["measure"] == "/"
    assert all(line["sent"] > 0 for line in told[1:])
    assert result.stdout.count("(aim ") == 3
