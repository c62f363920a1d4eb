"""What a thing that governs schedules shall be, from the words for it: as the store keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from matins.engine import budgets, quiet_hours
from matins.engine.agent_rules import define_rules, rules_to_dict
from matins.engine.agents import agent_to_dict, define_agent, edit_agent
from matins.engine.budgets import define_budget
from matins.engine.events import canonical_types
from matins.engine.given import check_name
from matins.engine.money import check_rate
from matins.engine.policies import HOOKS
from matins.engine.prices import define_price
from matins.engine.quiet_hours import define_quiet_hours
from matins.engine.when.durations import parse_duration
from matins.errors import InvalidInput
from matins.executors.commands import check_command
from matins.executors.deliveries import ALLOWED_HOSTS
from matins.executors.registry import runners
from matins.executors.runners.endpoints import place_of
from matins.model.agent import Agent
from matins.net.client import Door, check_url
from matins.runtime.catalog import GLOBAL
from matins.runtime.deadman import HEARTBEAT, check_heartbeat
from matins.work import base as work

MOST_PERMITS = 10_000
_REFERENCES = ("env:", "file:")


class World(NamedTuple):
    """What a file is judged by, beside its own words."""

    now: int
    zone: str
    rates: Mapping[str, float]
    workdir: str | None = None
    allowed_hosts: Sequence[str] = ()
    agents: frozenset[str] = frozenset()
    quiet_hours: frozenset[str] = frozenset()
    work: frozenset[str] = frozenset()
    schedules: frozenset[str] = frozenset()
    """As agent/name."""


def agent_data(name: str, words: Mapping[str, Any], rates: Mapping[str, float]) -> dict[str, Any]:
    return _agent_data(define_agent(name, words, rates))


def edited_agent_data(agent: Agent, words: Mapping[str, Any], rates: Mapping[str, float]) -> dict[str, Any]:
    """Its provider goes with its runner, unless somebody has named another."""
    unnamed = replace(agent, provider=None) if agent.provider == _usual_provider(agent) else agent
    return _agent_data(edit_agent(unnamed, words, rates))


def _agent_data(agent: Agent) -> dict[str, Any]:
    if agent.runner not in runners():
        known = ", ".join(sorted(runners()))
        raise InvalidInput(
            f'There is no runner "{agent.runner}"', value=agent.runner, field="runner", allowed=known, hint=known
        )
    data = agent_to_dict(agent)
    data.setdefault("provider", _usual_provider(agent))
    return data


def _usual_provider(agent: Agent) -> str:
    runner = runners().get(agent.runner)
    own = None if runner is None else runner.provider
    return own or place_of(agent.url) or agent.runner


def hook_data(event: str, command: Any, limit: str, workdir: str | None) -> dict[str, Any]:
    if event not in HOOKS:
        known = ", ".join(HOOKS)
        raise InvalidInput(f'There is no hook "{event}"', value=event, field="event", allowed=known, hint=known)
    return {"command": check_command(command, "command", workdir=workdir), "limit_ms": parse_duration(limit)}


def check_scope(scope: str, size: Any) -> None:
    if type(size) is not int or not 1 <= size <= MOST_PERMITS:
        raise InvalidInput(
            f'"size" must be a whole number from 1 to {MOST_PERMITS}, got {size!r}', value=size, field="size"
        )
    if scope != GLOBAL and not (scope.startswith("agent:") and scope.isprintable() and len(scope) > len("agent:")):
        raise InvalidInput(f'"{scope}" has no limit', value=scope, field="scope", hint='"global", or "agent:NAME"')


def define_thing(kind: str, name: str, words: Mapping[str, Any], world: World) -> Any:
    """As the store keeps it; an error names the word, and how to mend it."""
    check_name("name", name)
    return _DEFINERS[kind](name, {word: value for word, value in words.items() if value is not None}, world)


def _agent(name: str, words: Mapping[str, Any], world: World) -> Any:
    return agent_data(name, words, world.rates)


def _quiet_hours(name: str, words: Mapping[str, Any], world: World) -> Any:
    return quiet_hours.to_dict(define_quiet_hours(name, _placed(words, world)))


def _budget(name: str, words: Mapping[str, Any], world: World) -> Any:
    return budgets.to_dict(define_budget(name, _placed(words, world), world.rates, world.zone))


def _placed(words: Mapping[str, Any], world: World) -> Mapping[str, Any]:
    return {**words, "timezone": world.zone} if words.get("timezone") == "local" else words


def _price(name: str, words: Mapping[str, Any], world: World) -> Any:
    return asdict(define_price(name, words, world.rates))


def _hook(name: str, words: Mapping[str, Any], world: World) -> Any:
    return hook_data(name, words.get("command"), words.get("limit", "15s"), world.workdir)


def _webhook(name: str, words: Mapping[str, Any], world: World) -> Any:
    """The secret stays a reference, which is read whenever something is signed."""
    secret = words.get("secret")
    if not isinstance(secret, str) or not secret.startswith(_REFERENCES) or secret in _REFERENCES:
        message = '"secret" must say where the secret is, not what it is'
        raise InvalidInput(message, field="secret", allowed="env:NAME or file:/path", hint="secret: env:HOOK_SECRET")
    if words.get("url") is None:
        raise InvalidInput('A webhook needs "url"', field="url", hint="url: https://example.com/hook")
    check_url(words["url"], world.allowed_hosts)
    return {"url": words["url"], "secret": secret, "types": list(canonical_types(words.get("types")))}


def _source(name: str, words: Mapping[str, Any], world: World) -> Any:
    return work.to_dict(work.define_source(name, words))


def _rules(name: str, words: Mapping[str, Any], world: World) -> Any:
    return rules_to_dict(define_rules(words))


def _rate(name: str, words: Mapping[str, Any], world: World) -> Any:
    return check_rate(name, words["value"])


def _limit(name: str, words: Mapping[str, Any], world: World) -> Any:
    check_scope(name, words["value"])
    return words["value"]


def _setting(name: str, words: Mapping[str, Any], world: World) -> Any:
    return SETTINGS[name](words["value"])


def _hosts(value: Any) -> list[str]:
    Door(value)
    return list(value)


def _heartbeat(value: Any) -> str:
    check_heartbeat(value)
    return value


SETTINGS: dict[str, Callable[[Any], Any]] = {ALLOWED_HOSTS: _hosts, HEARTBEAT: _heartbeat}


_DEFINERS: dict[str, Callable[[str, Mapping[str, Any], World], Any]] = {
    "agent": _agent,
    "quiet_hours": _quiet_hours,
    "budget": _budget,
    "price": _price,
    "hook": _hook,
    "webhook": _webhook,
    "work": _source,
    "agents": _rules,
    "rate": _rate,
    "limit": _limit,
    "setting": _setting,
}
