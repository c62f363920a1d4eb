"""The agent that `matins add` creates: where it works, and what it may do."""

from __future__ import annotations

import os
from pathlib import Path

import click

from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.folders import meant_folder
from matins.surfaces.home import Home

NewAgent = tuple[str | None, dict[str, str]]


def new_agent(
    context: CliContext, agent: str | None, workdir: str | None, permission: str | None, *, ask: bool
) -> NewAgent:
    """The name of the agent, and the settings with which it is created if it does not exist. In a second repository an
    agent of a tool has another name: one agent works in one place."""
    given = {"workdir": os.path.abspath(workdir)} if workdir else {}  # noqa: PTH100 - a link stays as it was typed
    given |= {"permission_mode": permission} if permission else {}
    if agent is None or context.location["url"] or os.environ.get("MATINS_IN_RUN"):
        return agent, given
    tools: list[Document] = context.call("system.tools", versions=False)
    tool = next((one for one in tools if one["agent"] is None and one["runner"] == agent), None)
    known: dict[str, Document] = {item["name"]: item for item in context.call("agents.list")}
    folder = given.get("workdir") or meant_folder(Home(context.location["home"]).path)
    if agent in known and folder and _is_elsewhere(known[agent], folder):
        given |= {"runner": known[agent]["runner"]}
        agent = f"{agent}-{Path(folder).name}"
    if agent in known or (tool is None and "runner" not in given):
        return agent, given if agent not in known else {}
    given |= {"workdir": folder} if folder else {}
    if ask and not permission and tool is not None and tool["risk"] and _wants(context, tool):
        given["permission_mode"] = tool["permission"]
    return agent, given


def _is_elsewhere(agent: Document, folder: str) -> bool:
    """Whether the agent works in another repository. One with a directory of its own works everywhere."""
    return (Path(folder) / ".git").exists() and str(agent["workdir"]).startswith("/") and agent["workdir"] != folder


def _wants(context: CliContext, tool: Document) -> bool:
    waits = f"{tool['runner']} waits for a permission before it changes anything."
    question = f"{waits} Let it run in the mode {tool['permission']}"
    return context.is_interactive and click.confirm(f"{question} ({tool['risk']})?", default=True, err=True)
