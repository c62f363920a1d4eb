"""`custom`: a prompt that only the owner may schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import JobType, Setting, Text


@dataclass(frozen=True)
class Custom:
    prompt: Annotated[str, Setting(Text(100_000, lines=True), "Prompt to the agent.", "Tidy the shed", required=True)]


JOB = JobType(
    "custom", "Send any prompt to the agent.", Custom, prompt=lambda inputs: inputs.prompt, destructive=False,
    owner_only=True,
)  # fmt: skip
