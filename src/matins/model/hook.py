"""A hook: a command for every schedule. Annotations are settings, see `settings`."""

from dataclasses import dataclass
from typing import Annotated

from matins.model.settings import Command, Duration, Setting

HOOK_EVENTS = ("before:schedule:trigger", "after:run")
"""The events of hooks. The event is also the name of the hook."""


# fmt: off
@dataclass(frozen=True, slots=True)
class Hook:
    event: str
    command: Annotated[str | tuple[str, ...],
        Setting(Command(), "Command for the shell, or a list of a program and its arguments.",
                "node scripts/check-maintenance-window.js", required=True)]
    timeout_ms: Annotated[int, Setting(Duration(), "Longest duration of the command.", "15s", "timeout")] = 15_000
