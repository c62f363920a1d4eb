"""Options of a tool's command line."""

from __future__ import annotations


def given_options(**options: object) -> list[str]:
    """`--name=value` of each option that has a value; `session_id` is `--session-id`."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
