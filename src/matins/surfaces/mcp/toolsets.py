"""Which tools a principal sees, by the path of the server and by its rights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from matins.model.access import Principal
from matins.plugins import installed
from matins.service.permissions import rights_of
from matins.surfaces.mcp.tool import Tool, Toolset
from matins.surfaces.mcp.tools import TOOLS

TOOLSETS = "matins.toolsets"


def toolsets() -> Mapping[str, Toolset]:
    """The registered toolsets by name, which is the end of their path."""
    return installed(TOOLSETS)


def listed(principal: Principal, toolset: str) -> list[Tool]:
    """The tools that a list shows: those of the toolset that the principal has the right to call."""
    named = toolsets().get(toolset)
    if named is not None:
        tools = named.tools
    else:
        in_run = principal.run_id is not None or toolset == "run"
        tools = {tool.name: tool for tool in TOOLS.values() if (tool.in_run if in_run else tool.outside)}
    return [tool for tool in tools.values() if tool.right in rights_of(principal)]


def find(toolset: str, name: str) -> Tool | None:
    """The tool of this name: of the toolset, of Matins, or of a toolset that can be called on every path."""
    return _callable(toolset).get(name)


@cache
def _callable(toolset: str) -> Mapping[str, Tool]:
    everywhere = {name: tool for each in toolsets().values() if each.everywhere for name, tool in each.tools.items()}
    named = toolsets().get(toolset)
    return {**everywhere, **TOOLS, **({} if named is None else named.tools)}
