"""What a process of an agent finds in its environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from matins._version import __version__
from matins.executors.preparation import with_own_program


def test_p4_an_agent_finds_matins_after_its_own_programs(tmp_path: Path) -> None:
    """P4: wherever Matins is installed; of its environment it finds no other program, such as pip"""
    variables = with_own_program("/usr/bin:/bin")
    own, _, programs = variables["PATH"].rpartition(":")
    assert own == "/usr/bin:/bin"
    assert os.listdir(programs) == ["matins"]  # noqa: PTH208
    done = subprocess.run(["sh", "-c", "matins --version"], env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert __version__ in done.stdout, done.stderr
