"""The first schedule of a newcomer: in a repository, with keys in the daemon's environment, tried at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from house import House
from real.bench import PATIENCE_S, Bench
from real.cases import Unreached, case
from real.tools import KEY

_TRIED = {"claude": "acceptEdits"}
"""Tools whose endpoint is an environment variable that their runs get, and the mode that a person chooses."""


@case
def first_agent(bench: Bench) -> None:
    """`add --agent TOOL … --try` in a git repository: the run works there, with the daemon's keys, and is shown."""
    if bench.tool.name not in _TRIED:
        raise Unreached("the newcomer of this case has Claude Code")
    repository = _repository(bench)
    house = _house(bench)
    try:
        added = _add(bench, house, repository)
        assert added.returncode == 0, (added.stdout, added.stderr)
        told = added.stdout + added.stderr
        for words in (f"It works in {repository}", "Its runs get", "✓ succeeded", "Summarised."):
            assert words in told, (words, told)
        assert (repository / "summary.md").read_text().strip() == "nothing is open", told
        (agent,) = house.ask("agents.list")
        assert (agent["workdir"], agent["permission_mode"]) == (str(repository), _TRIED[bench.tool.name])
        assert KEY not in json.dumps(agent)
        (tool,) = [one for one in house.ask("system.tools") if one["agent"] == bench.tool.name]
        assert tool["credential"], tool
    finally:
        house.stop()


def _repository(bench: Bench) -> Path:
    folder = bench.workdir("first_agent") / "my-repo"
    folder.mkdir()
    bench.write(folder / "README.md", "# Mine\n")
    subprocess.run(["git", "init", "--quiet", folder], check=True, **bench.user.process)
    return folder


def _house(bench: Bench) -> House:
    """A daemon whose user exported the keys of the tool, as docs/running.md says."""
    values = {name: KEY if text == "env:FAKE_KEY" else text for name, text in bench.environment().items()}
    values["PATH"] = f"{bench.programs}:{os.environ['PATH']}"
    program = ("env", *(f"{name}={text}" for name, text in values.items()), sys.executable, "-m", "matins", "up",
               "--port", "0")  # fmt: skip
    folder = bench.workdir("first_agent") / "matins"
    return House(folder, program=program, user=bench.user).up()


def _add(bench: Bench, house: House, repository: Path) -> subprocess.CompletedProcess[str]:
    wish = {"id": "first_agent", "tool": "write", "path": str(repository / "summary.md"),
            "content": "nothing is open", "say": "Summarised."}  # fmt: skip
    prompt = f"Summarise my open pull requests. [[fake {json.dumps(wish)}]]"
    words = [
        "add",
        "every weekday at 9am",
        "--agent",
        bench.tool.name,
        "--permission",
        _TRIED[bench.tool.name],
        "--try",
    ]
    return subprocess.run(
        [sys.executable, "-m", "matins", *words, prompt],
        cwd=repository,
        env=house.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **bench.user.process,
    )
