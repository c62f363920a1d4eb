"""Finds out whether agents can be isolated on this machine, without a keeper: for `doctor`, greeting and approvals."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from matins.executors.processes.walls import Probe

_SOURCE = str(Path(__file__).parents[3])
_PROGRAM = (
    "import sys, json; sys.path.append(sys.argv[1]); from matins.executors.processes.walls import probe;"
    "print(json.dumps(probe(sys.argv[2])))"
)
_TIMEOUT_S = 20


@cache
def probe_here() -> Probe:
    """What the kernel allows this user. It is tried once, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="matins-probe-") as folder:
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, _SOURCE, folder]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, cwd="/", check=True)
            return Probe(*json.loads(done.stdout))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return Probe(False, f"the probe failed: {error}", "probe")
