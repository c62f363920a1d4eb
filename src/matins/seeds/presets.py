"""What surfaces need of other systems' habits: their presets, and how Cortex spells a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.config.presets import PRESETS, Preset
from matins.seeds.cortex.file import TARGET_SPELLINGS, thread_id


def preset_of(system: str) -> Preset:
    return PRESETS[system]


def cortex_target(target: Mapping[str, Any]) -> dict[str, Any]:
    """The target in Cortex's spelling, as `cortex_context` names threads."""
    spelled = {TARGET_SPELLINGS.get(name, name): value for name, value in target.items()}
    return {**spelled, "threadId": thread_id(spelled["threadId"])} if "threadId" in spelled else spelled
