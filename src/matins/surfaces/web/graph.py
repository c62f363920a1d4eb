"""The graph of a mission: steps in columns by what they wait for, and the edges between them."""

from __future__ import annotations

from typing import Any, NamedTuple

from matins.api.results import Mission, RunStep
from matins.surfaces.web import states, times

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 188, 72, 50, 40, 28
_MAX_TITLE = 19


class Node(NamedTuple):
    title: str
    short: str
    look: states.Look
    agent: str
    detail: str
    x: int
    y: int
    run_id: str | None
    row: str


class Edge(NamedTuple):
    path: str
    kind: str


class Graph(NamedTuple):
    width: int
    height: int
    nodes: list[Node]
    edges: list[Edge]


class _Step(NamedTuple):
    title: str
    after: list[str]
    agent: str
    run: RunStep | None


def graph(mission: Mission) -> Graph:
    steps = _steps(mission)
    columns = _columns(steps)
    tallest = max((len(column) for column in columns), default=1)
    nodes: dict[str, Node] = {}
    for index, column in enumerate(columns):
        offset = (tallest - len(column)) * (_HEIGHT + _GAP_Y) // 2
        for row, step in enumerate(column):
            x = _MARGIN + index * (_WIDTH + _GAP_X)
            y = _MARGIN + offset + row * (_HEIGHT + _GAP_Y)
            nodes[step.title] = _node(step, x, y, steps.index(step) + 1)
    edges = [_edge(nodes[name], nodes[step.title]) for step in steps for name in step.after if name in nodes]
    width = 2 * _MARGIN + len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    return Graph(width, 2 * _MARGIN + tallest * (_HEIGHT + _GAP_Y) - _GAP_Y, list(nodes.values()), edges)


def _steps(mission: Mission) -> list[_Step]:
    if mission.last_run is not None and mission.last_run.steps:
        return [_Step(step.title, list(step.after), step.agent, step) for step in mission.last_run.steps]
    return [_declared(step, mission.agent) for step in mission.steps]


def _declared(step: dict[str, Any], agent: str) -> _Step:
    return _Step(step["title"], list(step.get("after") or ()), step.get("agent") or agent, None)


def _columns(steps: list[_Step]) -> list[list[_Step]]:
    """The steps by depth: a step stands right of all that it waits for."""
    depth: dict[str, int] = {}
    for step in steps:  # a step waits only for earlier ones
        depth[step.title] = 1 + max((depth.get(name, -1) for name in step.after), default=-1)
    columns: list[list[_Step]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for step in steps:
        columns[depth[step.title]].append(step)
    return columns


def _node(step: _Step, x: int, y: int, number: int) -> Node:
    run = step.run
    look = states.of_run(run) if run is not None else states.Look("planned", "Not started")
    detail = times.duration(run.duration_ms) if run is not None else ""
    short = step.title if len(step.title) <= _MAX_TITLE else f"{step.title[: _MAX_TITLE - 1]}…"
    return Node(step.title, short, look, step.agent, detail, x, y, run.run_id if run else None, f"step-{number}")


def _edge(source: Node, to: Node) -> Edge:
    x1, y1, x2, y2 = source.x + _WIDTH, source.y + _HEIGHT // 2, to.x - 6, to.y + _HEIGHT // 2
    middle = (x1 + x2) // 2
    kind = "done" if source.look.icon == "succeeded" else "stop" if source.look.icon in ("failed", "denied") else ""
    return Edge(f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}", kind)
