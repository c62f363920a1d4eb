"""What an installed Matins registers: a list to compare with, so that nothing is lost when modules move."""

from __future__ import annotations

from importlib.metadata import distribution

import pytest

from matins.plugins import installed

REGISTERED = {
    "matins.destinations": "algorand apprise desktop discord email ntfy slack webhook",
    "matins.executors": "claude codex demo gemini goose http message openai opencode python qwen shell",
    "matins.file_formats": "cortex",
    "matins.importers": "cortex corvid crontab herdctl polpo syris",
    "matins.jobs": (
        "codebase_review council_launch custom dependency_audit fork_repo github_suggest improvement_loop "
        "memory-index-regen memory_maintenance message reputation_attestation review_prs scheduled-task send_message "
        "star_repo task-archive task-dispatch work_task"
    ),
    "matins.parts": "chat mcp page",
    "matins.records": "chat",
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
