"""A file of tasks, and a run that claims from it."""

from pathlib import Path

import pytest

from matins.engine.prompts import WorkItem
from matins.seeds.cortex.tasks import TasksFile, read_tasks
from matins.texts.yaml_nodes import plain

NOW = 1_774_602_000_000  # 2026-03-27T09:00:00Z
LATER = NOW + 3_600_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "TASKS.yaml"


def claimed(path: Path, run_key: str = "run 1") -> WorkItem:
    item = TasksFile("tasks", path).claim(run_key, NOW)
    assert item is not None
    return item


def fields(path: Path) -> dict[str, str | None]:
    """Of the first task."""
    return dict(plain(read_tasks(path.read_text()).tasks[0].node))
