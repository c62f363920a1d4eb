"""Where runs may start: runs need labels, and a node offers labels.

A node is a machine with an engine. It offers `host:NAME`, `os:linux`, its own labels (`gpu`), `runner:claude`,
`job:report`, and `agent:trainer` if it has a list of agents.

`lacking`: what a node lacks for a run. `no_node`: why no node can run it, in words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matins.engine.jobs import SHELL, job_needs, wakes_agent
from matins.engine.policies import Policies
from matins.engine.validation import check_labels, check_node_name, check_number, check_strings
from matins.model.agent import Agent
from matins.model.schedule import ScheduleDefinition

HOST, AGENT, RUNNER = "host:", "agent:", "runner:"
SESSION = "session:"
"""The prefix of the node that has the conversation of a run."""
NOT_ON = "not_on:"
"""The prefix of a node that turned a run away."""
OUTSIDE = "outside:"
"""The prefix of a connection to an engine elsewhere, whose workers offer what else a run needs."""
MAX_RUNS = 100_000
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
    given = check_labels("labels", check_strings("labels", labels)) if labels else ()
    if agents is not None:
        agents = check_strings("agents", agents, "a list of agents", ["reviewer"])
    if max_runs is not None:
        check_number("max_runs", max_runs, 1, MAX_RUNS)
    return Node(name, tuple(dict.fromkeys(given)), None if agents is None else tuple(agents), max_runs)


def schedule_needs(definition: ScheduleDefinition) -> Labels:
    """What a node must offer for the schedule itself, without its agent."""
    needs = job_needs(definition)
    if definition.runs_on or definition.host is not None:
        needs |= {*definition.runs_on, *_host_need(definition.host)}
    return needs


def agent_needs(definition: ScheduleDefinition, agent: str, policies: Policies) -> Labels:
    """What a node must offer for the agent of a run. An agent with a PATH of its own says where its program is."""
    found, needs = policies.agents.get(agent), {f"{AGENT}{agent}"}
    if definition.command is not None:
        needs.add(f"{RUNNER}{SHELL}")
    elif found is not None and all(name != "PATH" for name, _ in found.environment):
        needs.add(f"{RUNNER}{found.runner}")
    return frozenset(needs if found is None else needs.union(found.runs_on, _host_need(found.host)))


def needs_of(definition: ScheduleDefinition, agent: str, policies: Policies) -> Labels:
    """What runs of these settings need: `job:report`, `runner:claude`, `agent:scout`, `gpu`."""
    needs = schedule_needs(definition)
    return needs | agent_needs(definition, agent, policies) if wakes_agent(definition) else needs


def queue_labels(definition: ScheduleDefinition, agent: Agent | None, connection: str) -> Labels:
    """What people ask of the machine of a run that goes to workers elsewhere."""
    labels = {*definition.runs_on, *_host_need(definition.host)}
    if agent is not None:
        labels.update(agent.runs_on, _host_need(agent.host))
    return frozenset(labels - {connection})


def _host_need(host: str | None) -> tuple[str, ...]:
    return () if host is None else (f"{HOST}{host}",)


def lacking(needs: Labels, offers: Labels) -> Labels:
    """What a node with these offers lacks for a run."""
    missing = needs - offers
    if any(f"{OUTSIDE}{need}" in offers for need in missing):
        missing = frozenset(need for need in missing if need.startswith(AGENT))
    return frozenset(need for need in missing if _lacks(need, offers)) if missing else missing


def _lacks(need: str, offers: Labels) -> bool:
    kind, _, name = need.partition(":")
    if kind == "agent":
        return any(offer.startswith(AGENT) for offer in offers)
    if kind == "session":
        return f"{HOST}{name}" not in offers
    return kind != "not_on" or f"{HOST}{name}" in offers


def unserved(needs: Labels, offers: Iterable[Labels]) -> Labels | None:
    """What the best of these nodes lacks, where none offers all needs. None if one does, or there are no nodes."""
    lacks = [lacking(needs, one) for one in offers]
    return min(lacks, key=len) if lacks and all(lacks) else None


class NodeView(NamedTuple):
    """A node, for the sentence of `no_node`."""

    name: str
    offers: Labels
    held: str = ""
    """Why it takes no runs now: `is cordoned by ana since 14:02`."""


NO_NODE = "No node can run it now"
_MAX_NAMED = 3


def no_node(needs: Labels, nodes: Iterable[NodeView], turned_away: Mapping[str, str] = {}) -> str | None:
    """Why no node can run it now: what it needs, and what each node lacks. None if a node can."""
    lacks: dict[str, list[str]] = {}
    missing = set[str]()
    for node in nodes:
        here = lacking(needs, node.offers)
        text = _lacks_text(here, turned_away.get(node.name)) if here else node.held
        if not text:
            return None
        missing |= here
        lacks.setdefault(text, []).append(node.name)
    shown = frozenset(need for need in needs if need in missing or not need.startswith((AGENT, NOT_ON)))
    each = " ".join(f"{_named(names, text)}." for text, names in lacks.items())
    return f"{NO_NODE}: {needs_sentence(shown)}. {each}"


def _named(names: Sequence[str], text: str) -> str:
    unique = sorted(set(names))
    more = len(unique) - _MAX_NAMED
    if len(unique) == 1:
        return f"{unique[0]} {text}"
    plural = (
        text.replace("has no ", "have no ")
        .replace("is another machine", "are other machines")
        .replace("is ", "are ")
        .replace("does not", "do not")
    )
    shown = unique[:_MAX_NAMED] if more <= 0 else [*unique[:_MAX_NAMED], f"{more} more"]
    return f"{', '.join(shown[:-1])} and {shown[-1]} {plural}"


_KINDS = ("", "job", "runner", "host", "os", "session", "agent", "not_on")


def needs_sentence(needs: Labels) -> str:
    """`it runs on gpu and needs the job "report"`."""
    kinds: dict[str, list[str]] = {}
    for need in sorted(needs):
        kind, colon, name = need.partition(":")
        kinds.setdefault(kind if colon else "", []).append(name if colon else need)
    needed = [f'the job "{name}"' for name in kinds.get("job", ())]
    needed += [f'the tool "{name}"' for name in kinds.get("runner", ())]
    places = [*kinds.get("", ()), *(f"the host {name}" for name in kinds.get("host", ()))]
    if "os" in kinds:
        places += kinds["os"]
    places += [f"{kind}:{name}" for kind, names in kinds.items() if kind not in _KINDS for name in names]
    parts = [f"runs on {_listed(places)}"] if places else []
    parts += [f"continues a conversation on {name}" for name in kinds.get("session", ())]
    parts += [f"wakes the agent {name}" for name in kinds.get("agent", ())]
    parts += [f"needs {_listed(needed)}"] if needed else []
    return f"it {_listed(parts or ['was turned away'])}"


def _lacks_text(lacks: Labels, reason: str | None) -> str:
    parts = list[str]()
    for need in sorted(lacks):
        kind, colon, name = need.partition(":")
        match kind if colon else "":
            case "job":
                parts.append(f'has no job "{name}"')
            case "runner":
                parts.append(f'has no tool "{name}"')
            case "agent":
                parts.append(f"does not take the agent {name}")
            case "host" | "session":
                parts.append("is another machine")
            case "not_on":
                parts.append(f"turned it away ({reason.removesuffix('.')})" if reason else "turned it away")
            case _:
                parts.append(f"has no {name if kind == 'os' else need}")
    return _listed(list(dict.fromkeys(parts)))


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
