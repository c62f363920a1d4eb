"""What an agent is to look at in particular, for jobs that are a prompt."""

from __future__ import annotations


def focused(prompt: str, description: str | None) -> str:
    return f"{prompt}\nLook at this in particular: {description}" if description else prompt
