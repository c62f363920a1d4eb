"""The first configuration file: what is found on this machine, with comments that say how to go on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matins.errors import Conflict
from matins.executors.agent_checks import Tool

_HEAD = """\
# The configuration of Matins. Matins applies it when you save it, without a restart.
# To check it first: matins plan. Every setting: docs/file.md, or matins schema.
"""
_ACCOUNT = {"user": "the account of all agents", "isolation": "agents are root, and could change everything here"}
_EXAMPLES = """\
  morning:
    agent: {agent}
    when: every weekday at 9am
    prompt: Summarise what changed in this repository since yesterday.

  tidy-up:
    agent: {agent}
    when: on the first monday of every month at 10:00
    prompt: List what is out of date in the documentation.
    approval: owner_approve # each run waits for your approval: matins approvals
"""


class Found(NamedTuple):
    tools: Sequence[Tool]
    zone: str
    folder: str | None
    """The directory in which agents work; None for a directory of their own."""
    account: Mapping[str, str] = {}
    """`user` or `isolation` of all agents, where Matins is root."""


def write_starter(path: Path, found: Found, *, examples: bool) -> tuple[str, list[str]]:
    """Write the file. Returns its path, and one line for each thing that was found."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        hint = f"Edit it, or move it away: mv {path} {path}.old"
        raise Conflict(f"There is already a file {path}.", value=str(path), field="file", hint=hint) from None
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(starter_text(found, examples=examples))
    return str(path), _findings(found)


def starter_text(found: Found, *, examples: bool) -> str:
    agents = "\n".join(_agent(tool, found.folder) for tool in found.tools) or _demo()
    example = _EXAMPLES.format(agent=found.tools[0].runner if found.tools else "demo")
    shown = example if examples else "".join(f"  # {line[2:]}\n" if line else "\n" for line in example.splitlines())
    title = "schedules:\n" if examples else "schedules: # remove the marks to use an example\n"
    account = "".join(f"  {name}: {json.dumps(value)} # {_ACCOUNT[name]}\n" for name, value in found.account.items())
    return f"""{_HEAD}
defaults:
  timezone: {found.zone}
{account}
agents:
{agents}
{title}{shown}"""


def _agent(tool: Tool, folder: str | None) -> str:
    lines = [f"  {tool.runner}: # {tool.path}", f"    runner: {tool.runner}"]
    if folder is not None:
        lines.append(f"    workdir: {json.dumps(folder, ensure_ascii=False)} # where its runs start")
    if tool.permission is not None:
        lines.append(f"    permission_mode: {tool.permission}")
    if tool.keys:
        lines.append(f"    # environment: {{ {tool.keys[0]}: env:{tool.keys[0]} }} # instead of a login")
    return "\n".join(lines) + "\n"


def _demo() -> str:
    return "  demo: # built in; it only reports why it was started\n    runner: demo\n"


def _findings(found: Found) -> list[str]:
    zone = f"Times are in {found.zone}."
    if not found.tools:
        return ["No agent's tool is on PATH: the file has the agent demo, which is built in.", zone]
    folder = f"Agents work in {found.folder}." if found.folder else "Each agent works in a directory of its own."
    return [*(f"{tool.runner}: {tool.path}" for tool in found.tools), zone, folder]
