"""`dependency_audit`: an agent looks for outdated and vulnerable dependencies.

The job is its prompt: which tool knows them depends on the project. The agent's answer is the result of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import JobType, Setting, Text
from matins.jobs.focus import focused


@dataclass(frozen=True)
class DependencyAudit:
    description: Annotated[
        str | None, Setting(Text(10_000, lines=True), "What to look at in particular.", "Only security")
    ] = None


def audit_prompt(inputs: DependencyAudit) -> str:
    return focused(
        "Audit the dependencies of the project in this folder.\n"
        "1. List those that are outdated, with the tool that the project uses (for example npm outdated or pip list "
        "--outdated).\n"
        "2. List those with known vulnerabilities, with the audit command of that tool.\n"
        "3. For each that should change, add a task to TASKS.yaml in this folder, with the versions in its body. "
        "Vulnerabilities have the priority high.\n"
        "Change nothing else. Report what you found, vulnerabilities first.",
        inputs.description,
    )


DEPENDENCY_AUDIT = JobType(
    "dependency_audit",
    "Find outdated and vulnerable dependencies, and write tasks.",
    DependencyAudit,
    prompt=audit_prompt,
)
