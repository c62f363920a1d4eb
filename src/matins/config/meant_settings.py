"""Names that other programs have for a setting of a schedule, and what is meant."""

from __future__ import annotations

from collections.abc import Collection

_COMMAND = (
    "A schedule wakes an agent. For a command, set an agent with the runner shell: "
    "agents: {NAME: {runner: shell, command: [sh, -c, …]}}."
)
_MEANT = {
    **dict.fromkeys(("schedule", "every", "at", "time", "times", "trigger", "rrule", "run_at", "starts_at"), "when"),
    **dict.fromkeys(("task", "message", "instruction", "instructions", "text", "query", "input"), "prompt"),
    **dict.fromkeys(("tz", "time_zone", "zone"), "timezone"),
    **dict.fromkeys(("disabled", "pause"), "paused"),
    **dict.fromkeys(("concurrency", "allow_overlap"), "overlap"),
    **dict.fromkeys(("backoff", "retry_interval"), "retry_delay"),
    **dict.fromkeys(("needs", "depends_on", "dependencies"), "after"),
}
_SCHEDULES = ("jobs", "tasks", "crons", "cron_jobs", "missions")
_COMMANDS = ("command", "cmd", "run", "shell", "script", "exec", "program")


def meant_setting(name: str, known: Collection[str]) -> str | None:
    """The hint for a name that other programs use, where the setting that is meant is known."""
    plain = name.lower().replace("-", "_")
    if plain != name and plain in known:
        return f'Did you mean "{plain}"?'
    if plain in _COMMANDS and {"when", "agent"} <= set(known):
        return _COMMAND
    if plain == "name" and "when" in known:
        return "The name is the key above the settings: remove this line."
    meant = _MEANT.get(plain, "schedules" if plain in _SCHEDULES else None)
    return f'Did you mean "{meant}"?' if meant in known else None
