"""What the greeting says about agents: the accounts that they run as, and whether they are isolated."""

from __future__ import annotations

import os
from collections.abc import Sequence

from matins.api._results import Agent
from matins.executors.isolation import NOT_ISOLATED, fix_of, starts_process
from matins.executors.processes.probing import probe_here

_MAX_NAMES = 3


def agents_text(agents: Sequence[Agent]) -> str | None:
    """The line of the greeting; None if agents are isolated and Matins is not root."""
    probe = probe_here()
    if os.geteuid() != 0:
        return None if probe.works else f"{NOT_ISOLATED}: {probe.problem}. {fix_of(probe)}"
    agents = [agent for agent in agents if starts_process(agent.runner)]
    roots = [agent.name for agent in agents if agent.isolation == "none" and agent.user is None]
    if roots:
        more = f" and {len(roots) - _MAX_NAMES} more" if len(roots) > _MAX_NAMES else ""
        names = f"{', '.join(roots[:_MAX_NAMES])}{more}"
        return f"{NOT_ISOLATED}: as root, {names} could change everything here (isolation: none)."
    users = sorted({agent.user for agent in agents if agent.user is not None})
    if not users:
        return "Matins is root: an agent needs an account (user: robin), or isolation: none."
    kept = "" if probe.works else f" They are {NOT_ISOLATED}: {probe.problem}."
    noun = "account" if len(users) == 1 else "accounts"
    return f"run as the {noun} {', '.join(users)}, because Matins is root.{kept}"
