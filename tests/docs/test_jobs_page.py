"""The job type of docs/jobs.md, in a package of its own that only an entry point makes known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"
PROGRAM = """
import sys
from matins import Matins

ended = __import__("threading").Event()
m = Matins(sys.argv[1])
m.subscribe(lambda event: ended.set(), types=["run.succeeded", "run.failed"])
with m:
    m.run("disk")
    assert ended.wait(60)
print(m.runs.list(schedule="disk")[0].outcome["result"])
m.close()
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the page's package is installed: the module, and its metadata with the entry point."""
    text = PAGE.read_text(encoding="utf-8")
    (module,) = re.findall(r"```python\n# (acme_jobs/disk_space\.py)\n", text)
    source = text.split(f"# {module}\n", 1)[1].split("```", 1)[0]
    (point,) = re.findall(r"^(disk-space = .*)$", text, re.MULTILINE)
    site = tmp_path / "site"
    (site / module).parent.mkdir(parents=True)
    (site / module).write_text(source, encoding="utf-8")
    metadata = site / "acme_jobs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-jobs\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[matins.jobs]\n{point.replace(chr(34), '')}\n", encoding="utf-8")
    own = {name: value for name, value in os.environ.items() if not name.startswith("MATINS_")}
    return {**own, "PYTHONPATH": str(site), "MATINS_HOME": str(tmp_path / "home")}


def matins(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "matins", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_c15_a_job_type_of_your_own_is_one_module(installed: dict[str, str], tmp_path: Path) -> None:
    """C15: listed with its inputs, checked when a schedule is made, and run; no change to the core"""
    store = f"sqlite:///{tmp_path}/matins.db"
    answer = matins(installed, "--store", store, "--json", "jobs", "disk-space")
    assert answer.returncode == 0, answer.stderr
    listed = json.loads(answer.stdout)
    assert (listed["help"], listed["runs"]) == ("Fail when a disk is nearly full.", "function")
    assert [(one["name"], one["required"]) for one in listed["inputs"]] == [("folder", True), ("percent", False)]
    adding = ("--store", store, "add", "every hour", "--name", "disk", "--job", "disk-space", "--set")
    refused = matins(installed, *adding, 'payload={"folder": "/", "percent": 200}')
    assert refused.returncode == 2
    assert '"percent" must be an integer from 1 to 99, not 200.' in refused.stderr
    missing = matins(installed, *adding, 'payload={"percent": 20}')
    assert 'The job "disk-space" needs "folder"' in missing.stderr
    added = matins(installed, *adding, 'payload={"folder": "/", "percent": 1}')
    assert added.returncode == 0, added.stderr
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, store], capture_output=True, text=True, timeout=120, env=installed
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("% is free\n")
