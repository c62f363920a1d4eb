"""The policies in force, read once and used until one of them changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from matins.engine import budgets, quiet_hours
from matins.engine.agent_rules import USUAL_RULES, AgentRules, rules_from_dict
from matins.engine.agents import agent_from_dict
from matins.engine.budgets import Budget
from matins.engine.prices import DEFAULT_PRICES, Price
from matins.engine.quiet_hours import QuietHours
from matins.model.agent import Agent
from matins.model.policy import Throttle
from matins.model.run import Usage
from matins.model.schedule import Command

BEFORE, AFTER = "before:schedule:trigger", "after:run"
HOOKS = (BEFORE, AFTER)
KINDS = ("quiet_hours", "budget", "price", "rate", "hook", "agent", "agents", "work", "setting")
USUAL_RESERVATION = Usage(500_000, 100_000)
"""What a run is taken to need while nobody knows: half a dollar."""


@dataclass(frozen=True, slots=True)
class Policies:
    rev: int = 0
    quiet_hours: Mapping[str, QuietHours] = field(default_factory=dict[str, QuietHours])
    throttles: Mapping[str, Throttle] = field(default_factory=dict[str, Throttle])
    budgets: tuple[Budget, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=lambda: {price.model: price for price in DEFAULT_PRICES})
    rates: Mapping[str, float] = field(default_factory=lambda: {"USD": 1.0})
    hooks: Mapping[str, tuple[Command, int]] = field(default_factory=dict[str, tuple[Command, int]])
    """A command for each event, and how long it may take."""
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    agent_rules: Mapping[str, AgentRules] = field(default_factory=dict[str, AgentRules])
    work: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Where work comes from; `matins.work` knows what each says."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    unreadable: tuple[str, ...] = ()
    """What the store gave back damaged; it is as if it were not there, and `doctor` tells."""

    def rules_for(self, agent: str) -> AgentRules:
        return self.agent_rules.get(agent) or self.agent_rules.get("*") or USUAL_RULES

    def throttle_of(self, provider: str | None, agent: str, now: int) -> Throttle | None:
        if provider is None and agent in self.agents:
            provider = self.agents[agent].provider
        throttle = self.throttles.get(provider) if provider else None
        if throttle is None or throttle.resets_at <= now or (throttle.affects and agent not in throttle.affects):
            return None
        return throttle


NONE = Policies()


def read_policies(rev: int, rows: Iterable[tuple[str, str, str]], throttles: Iterable[Throttle]) -> Policies:
    """From (kind, name, definition) as the store keeps them."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    unreadable: list[str] = []
    for kind, name, text in rows:
        try:
            found.setdefault(kind, {})[name] = _READERS.get(kind, _as_it_is)(orjson.loads(text))
        except Exception as error:  # one bad row must not take the others with it
            unreadable.append(f"{kind} {name}: {type(error).__name__}: {error}")
    return Policies(
        rev=rev,
        quiet_hours=found["quiet_hours"],
        throttles={throttle.provider: throttle for throttle in throttles},
        budgets=tuple(found["budget"].values()),
        prices={**NONE.prices, **found["price"]},
        rates={**NONE.rates, **found["rate"]},
        hooks=found["hook"],
        agents=found["agent"],
        agent_rules=found["agents"],
        work=found["work"],
        settings=found["setting"],
        unreadable=tuple(unreadable),
    )


def _as_it_is(data: Any) -> Any:
    return data


def _hook(data: Any) -> tuple[Command, int]:
    command = data["command"]
    return (command if isinstance(command, str) else tuple(command)), data["limit_ms"]


def _price(data: Any) -> Price:
    return Price(**data)


_READERS: dict[str, Any] = {
    "quiet_hours": quiet_hours.from_dict,
    "budget": budgets.from_dict,
    "price": _price,
    "hook": _hook,
    "agent": agent_from_dict,
    "agents": rules_from_dict,
}
