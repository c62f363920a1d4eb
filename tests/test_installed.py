"""What an installed Matins registers and has: lists to compare with, so that nothing is lost when modules move."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from matins.plugins import installed
from matins.records import record_kinds

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
REGISTERED = {
    "matins.chat_channels": "discord slack telegram",
    "matins.destinations": "algorand apprise desktop discord email file ntfy slack telegram webhook",
    "matins.executors": "claude codex demo gemini goose http message openai opencode python qwen shell",
    "matins.file_formats": "cortex",
    "matins.importers": "cortex corvid crontab github-actions herdctl hermes openclaw polpo syris systemd",
    "matins.jobs": (
        "codebase_review council_launch custom dependency_audit expect_ping fork_repo github_suggest improvement_loop "
        "memory-index-regen memory_maintenance message reputation_attestation review_prs scheduled-task send_message "
        "star_repo task-archive task-dispatch work_task"
    ),
    "matins.outside": "temporal",
    "matins.parts": "chat mcp page",
    "matins.records": "chat temporal",
    "matins.toolsets": "cortex polpo",
    "matins.work_sources": "github tasks",
}
TOOLS = {
    "cortex": (
        "cortex_context cortex_schedule_add cortex_schedule_get cortex_schedule_list cortex_schedule_pause "
        "cortex_schedule_remove cortex_schedule_resume"
    ),
    "polpo": "create_schedule delete_schedule list_schedules update_schedule",
}
DATA = (
    "py.typed",
    "api/_awaitable.pyi",
    "chat/rows.sql",
    "demo/matins.yaml",
    "engine/english/phrases.ebnf",
    "executors/bin/matins",
    "store/sql/*.sql",
    "store/sqlite/sql/*.sql",
    "store/sqlite/migrations/*.sql",
    "store/postgres/sql/*.sql",
    "store/postgres/migrations/*.sql",
    "web/static/*.css",
    "web/static/*.js",
    "web/static/*.svg",
    "web/templates/*.html",
    "web/templates/*.svg",
)
LOOK = """
import json, sys
folder, checkout = sys.argv[1:]
sys.path[:] = [folder, *(path for path in sys.path if path != checkout)]

import matins
from importlib.metadata import distribution
from matins.plugins import installed
from matins.records import record_kinds
from matins.testing import Sandbox

m = Sandbox()
m.job("work")(lambda run: None)
m.add("morning", when="every weekday at 9", job="work")
m.run("morning")
m.settle()
points = distribution("matins").entry_points
print(json.dumps({
    "module": matins.__file__,
    "registered": {
        group: " ".join(name for name in installed(group) if points.select(group=group, name=name))
        for group in sorted(points.groups) if "." in group
    },
    "tools": {name: " ".join(sorted(toolset.tools)) for name, toolset in installed("matins.toolsets").items()},
    "kinds": list(record_kinds()),
    "runs": [run.status for run in m.runs.list()],
    "others": sorted({module.__file__ for name, module in sys.modules.items()
                      if name.partition(".")[0] == "matins" and not module.__file__.startswith(folder)}),
}))
"""

ALONE = """
import json, os
from importlib import import_module
from importlib.metadata import distribution
import matins.library, matins.surfaces.http.app  # the core, for all at once

broken = []
for module in sorted({point.module for point in distribution("matins").entry_points}):
    child = os.fork()
    if not child:
        import_module(module)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        broken.append(module)
print(json.dumps(broken))
"""


@pytest.mark.parametrize("group", REGISTERED)
def test_everything_registered_can_be_loaded(group: str) -> None:
    assert set(REGISTERED[group].split()) <= set(installed(group))


def test_matins_registers_just_this() -> None:
    """A distribution beside Matins may register more."""
    points = distribution("matins").entry_points
    own = {group: " ".join(sorted(points.select(group=group).names)) for group in points.groups if "." in group}
    assert own == REGISTERED


@pytest.mark.parametrize("toolset", TOOLS)
def test_the_tools_of_other_systems(toolset: str) -> None:
    assert sorted(installed("matins.toolsets")[toolset].tools) == TOOLS[toolset].split()


def test_each_registered_module_can_be_imported_first() -> None:
    """Before the others of its slice, which would hide that two import each other."""
    assert json.loads(_run("-c", ALONE)) == []


@pytest.mark.long
def test_the_wheel_has_all_of_it(tmp_path: Path) -> None:
    """Installed without the checkout, by the dependencies of this environment."""
    folder = tmp_path / "installed"
    _run("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("matins-*.whl")
    _run("-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(folder), str(wheel))
    files = _files(folder / "matins")
    assert files == _files(SOURCE / "matins")
    assert [pattern for pattern in DATA if not list((folder / "matins").glob(pattern))] == []
    assert os.access(folder / "matins" / "executors" / "bin" / "matins", os.X_OK)
    assert sorted(path.name.partition("-")[0] for path in folder.iterdir()) == ["bin", "matins", "matins"]
    assert json.loads(_run("-I", "-c", LOOK, str(folder), str(SOURCE))) == {
        "module": str(folder / "matins" / "__init__.py"),
        "registered": REGISTERED,
        "tools": TOOLS,
        "kinds": list(record_kinds()),
        "runs": ["succeeded"],
        "others": [],
    }


def _files(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {str(path.relative_to(folder)) for path in files}


def _run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout
