"""Which tools a principal sees, by the path of the server and by its rights."""

from __future__ import annotations

from collections.abc import Mapping

from matins.model.access import Principal
from matins.service.permissions import rights_of
from matins.surfaces.mcp.cortex import CORTEX
from matins.surfaces.mcp.polpo import POLPO
from matins.surfaces.mcp.tool import Tool
from matins.surfaces.mcp.tools import TOOLS

TOOLSETS = ("run", "polpo", "cortex")
_NAMED: Mapping[str, Mapping[str, Tool]] = {"polpo": POLPO, "cortex": CORTEX}


def listed(principal: Principal, toolset: str) -> list[Tool]:
    """The tools that a list shows: those of the toolset that the principal has the right to call."""
    tools = _NAMED.get(toolset)
    if tools is None:
        in_run = principal.run_id is not None or toolset == "run"
        tools = {tool.name: tool for tool in TOOLS.values() if (tool.in_run if in_run else tool.outside)}
    return [tool for tool in tools.values() if tool.right in rights_of(principal)]


def find(toolset: str, name: str) -> Tool | None:
    """The tool of this name. Names of other systems are known on every path; only lists are by toolset."""
    tools = {**CORTEX, **TOOLS, **_NAMED.get(toolset, {})}
    return tools.get(name)
