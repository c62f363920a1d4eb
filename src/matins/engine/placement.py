"""Where runs may start: runs need labels, and a node offers labels.

A node is a machine with an engine. It offers `host:NAME`, `os:linux`, its own labels (`gpu`), `runner:claude`,
`job:report`, and `agent:trainer` if it has a list of agents.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from matins.engine.validation import check_number, check_strings, invalid
from matins.errors import Example, InvalidInput

HOST, AGENT = "host:", "agent:"
MAX_RUNS = 100_000
_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_LABEL = re.compile(_WORD)
_NODE_NAME = "1 to 64 letters, digits, dots, hyphens or underscores"
Labels = frozenset[str]


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with an engine, as its operator describes it. The engine adds its runners and jobs."""

    name: str
    labels: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None
    """The agents whose runs it takes. None: all."""
    max_runs: int | None = None
    """How many runs it has at once. None: as many as its executors take."""

    @property
    def offers(self) -> Labels:
        agents = (f"{AGENT}{name}" for name in self.agents or ())
        return frozenset([f"{HOST}{self.name}", f"os:{sys.platform}", *self.labels, *agents])


def parse_node(name: str, labels: Sequence[str], agents: Sequence[str] | None, max_runs: int | None) -> Node:
    """The node of these options. Raises InvalidInput with the option that is wrong."""
    check_node_name("name", name)
    for label in check_strings("labels", labels) if labels else ():
        if not _LABEL.fullmatch(label):
            raise invalid("labels", label, f"a label of {_NODE_NAME}", hint=Example({"labels": ["gpu"]}))
    if agents is not None:
        agents = check_strings("agents", agents, "a list of agents", ["reviewer"])
    if max_runs is not None:
        check_number("max_runs", max_runs, 1, MAX_RUNS)
    return Node(name, tuple(dict.fromkeys(labels)), None if agents is None else tuple(agents), max_runs)


def check_node_name(field: str, name: object) -> str:
    if isinstance(name, str) and _LABEL.fullmatch(name):
        return name
    raise InvalidInput(
        f'"{field}" is not the name of a node.',
        value=name,
        field=field,
        hint=f"A node has a name of {_NODE_NAME}: build-1.",
    )
