"""The first example of docs/library.md is a program that can be started again and again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")


def test_it_starts_twice(tmp_path: Path) -> None:
    """S7: the second start finds its schedule, as it left it"""
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    assert "m.run_forever()" in example
    program = tmp_path / "program.py"
    seen = "with m:\n    print([(s.name, s.rev, s.state) for s in m.list()])"
    program.write_text(re.sub(r"^m\.run_forever\(\).*$", seen, example, flags=re.MULTILINE), encoding="utf-8")
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False
        )
        assert (done.stdout, done.returncode) == ("[('nightly', 1, 'active'), ('report', 1, 'active')]\n", 0), (
            done.stderr
        )


def test_the_one_with_an_event_loop_runs(tmp_path: Path) -> None:
    """B8: as it is on the page"""
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "asyncio.run" in block]
    program = tmp_path / "program.py"
    program.write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.stdout, done.returncode) == ("tidy\nsucceeded\n", 0), done.stderr
