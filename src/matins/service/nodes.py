"""Use cases on nodes: what they are, and which of them take runs."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from matins.api.results import Node
from matins.engine.placement import AGENT, RUNNER
from matins.engine.validation import check_node_name, nearest
from matins.engine.when.durations import parse_duration
from matins.engine.when.triggers import to_datetime
from matins.errors import NotFound
from matins.model.access import Principal
from matins.model.rows import NewEvent, NodeState, WorkerRow
from matins.service.core import LEASE_MS, Core


@dataclass(frozen=True)
class Nodes:
    core: Core

    def list(self, principal: Principal) -> builtins.list[Node]:
        engines = sorted(self.core.store.engines(LEASE_MS), key=lambda engine: engine.node)
        live = {name: list(some) for name, some in groupby(engines, lambda engine: engine.node)}
        with self.core.store.reading() as transaction:
            states = {state.name: state for state in transaction.node_states()}
            runs = {row.node: row.runs for row in transaction.node_runs()}
        return [_result(name, live.get(name, []), states, runs.get(name, 0)) for name in sorted({*live, *states})]

    def get(self, principal: Principal, name: str) -> Node:
        nodes = self.list(principal)
        found = next((node for node in nodes if node.name == name), None)
        if found is None:
            known = [node.name for node in nodes]
            hint = nearest(name, known) if known else "matins nodes lists them."
            raise NotFound(f'There is no node "{name}".', value=name, field="name", hint=hint)
        return found

    def cordon(self, principal: Principal, name: str, *, note: str | None = None) -> Node:
        return self._close(principal, name, "cordoned", note, None)

    def drain(self, principal: Principal, name: str, *, note: str | None = None, within: str | None = None) -> Node:
        ends_at = None if within is None else self.core.clock.now_ms() + parse_duration(within)
        return self._close(principal, name, "draining", note, ends_at)

    def open(self, principal: Principal, name: str) -> Node:
        now = self.core.clock.now_ms()
        self.get(principal, name)
        with self.core.store.transaction(now) as transaction:
            if transaction.open_node(name):
                data = {"node": name, **principal.signed}
                transaction.events.append(NewEvent(now, "node.opened", None, None, data))
        self.core.notify()
        return self.get(principal, name)

    def _close(self, principal: Principal, name: str, state: str, note: str | None, ends_at: int | None) -> Node:
        now = self.core.clock.now_ms()
        self.get(principal, check_node_name("name", name))
        with self.core.store.transaction(now) as transaction:
            transaction.set_node_state(NodeState(name, state, principal.name, note, now, ends_at))
            kind = "node.cordoned" if state == "cordoned" else "node.draining"
            data = {"node": name, "note": note, "ends_at": ends_at, **principal.signed}
            transaction.events.append(NewEvent(now, kind, None, None, data))
        self.core.notify()
        return self.get(principal, name)


def _result(name: str, engines: Iterable[WorkerRow], states: Mapping[str, NodeState], runs: int) -> Node:
    engines, state = list(engines), states.get(name)
    offers = frozenset[str]().union(*(engine.offered for engine in engines))
    bounds = [int(engine.facts["max_runs"]) for engine in engines if "max_runs" in engine.facts]
    agents = [offer.removeprefix(AGENT) for offer in offers if offer.startswith(AGENT)]
    return Node(
        name=name,
        state="open" if state is None else state.state,  # type: ignore[arg-type]
        live=bool(engines),
        runs=runs,
        max_runs=sum(bounds) if bounds and len(bounds) == len(engines) else None,
        labels=sorted(offer for offer in offers if ":" not in offer),
        runners=sorted(offer.removeprefix(RUNNER) for offer in offers if offer.startswith(RUNNER)),
        agents=sorted(agents) or None,
        version=max((str(engine.facts.get("version")) for engine in engines), default=None),
        by=None if state is None else state.by,
        note=None if state is None else state.note,
        since=None if state is None else to_datetime(state.at),
        ends_at=None if state is None else to_datetime(state.ends_at),
    )
