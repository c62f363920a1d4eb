"""The policies in force, read once and used until a policy changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from matins.engine.approvals import ALL_AGENTS, DEFAULT_RULES, AgentRules
from matins.engine.calendars import Calendar, read_days
from matins.engine.money import DEFAULT_PRICES, Budget, Price
from matins.engine.quiet_hours import QuietHours
from matins.engine.settings import load_settings, loaders_of
from matins.model.access import Person
from matins.model.agent import Agent
from matins.model.call import InboundEndpoint
from matins.model.destination import Deliver, Destination, Notify, Smtp
from matins.model.policies import HOOK_EVENTS, Hook, Throttle, WorkSourceDefinition
from matins.model.rows import PolicyRow
from matins.model.run import Usage
from matins.model.settings import settings_of

BEFORE_RUN, AFTER_RUN = HOOK_EVENTS
HOOK_FILES = "hook_files"
"""The kind of policy that holds the digests of a hook's files."""
_VALUES: Mapping[str, type[Any]] = {
    "quiet_hours": QuietHours,
    "calendar": Calendar,
    "budget": Budget,
    "price": Price,
    "hook": Hook,
    "agent": Agent,
    "agent_rules": AgentRules,
    "work_source": WorkSourceDefinition,
    "inbound": InboundEndpoint,
    "person": Person,
    "destination": Destination,
}
"""Readers of the kinds of record that the core uses. Other kinds stay in stored form."""
_SINGLE: Mapping[str, type[Any]] = {"notify": Notify, "deliver": Deliver, "smtp": Smtp}
"""Readers of the kinds with a single record."""
_DEFAULT_NOTIFY, _DEFAULT_DELIVER, _NO_SMTP = Notify(), Deliver(), Smtp()
DEFAULT_RESERVATION = Usage(500_000, 100_000)
"""The reservation of a run without history: half a dollar."""
DEFAULT_AGENT = "default"


@dataclass(frozen=True, slots=True)
class Policies:
    rev: int = 0
    quiet_hours: Mapping[str, QuietHours] = field(default_factory=dict[str, QuietHours])
    calendars: Mapping[str, Calendar] = field(default_factory=dict[str, Calendar])
    throttles: Mapping[str, Throttle] = field(default_factory=dict[str, Throttle])
    budgets: tuple[Budget, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=lambda: {price.model: price for price in DEFAULT_PRICES})
    rates: Mapping[str, float] = field(default_factory=lambda: {"USD": 1.0})
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    """Hooks by event."""
    hook_files: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Files that a hook runs, by event, each with the digest of its content when a person set the hook."""
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    agent_rules: Mapping[str, AgentRules] = field(default_factory=dict[str, AgentRules])
    work_sources: Mapping[str, WorkSourceDefinition] = field(default_factory=dict[str, WorkSourceDefinition])
    inbound: Mapping[str, InboundEndpoint] = field(default_factory=dict[str, InboundEndpoint])
    """Inbound endpoints by name."""
    people: Mapping[str, Person] = field(default_factory=dict[str, Person])
    destinations: Mapping[str, Destination] = field(default_factory=dict[str, Destination])
    notify: Notify = _DEFAULT_NOTIFY
    deliver: Deliver = _DEFAULT_DELIVER
    smtp: Smtp = _NO_SMTP
    allowed_hosts: tuple[str, ...] = ()
    """Hosts in the owner's own network that webhooks may call."""
    heartbeat_url: str | None = None
    workdir: str | None = None
    """The directory where relative paths start, on this machine."""
    out_of_reach: tuple[str, ...] = ()
    """Directories of this machine that isolated agents cannot write, although their user may."""
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """All records by kind and name: parsed values, or stored text for kinds that the core does not read."""
    unreadable: tuple[str, ...] = ()
    """Records that cannot be parsed. They count as missing, and `doctor` reports them."""

    delivers: bool = False
    """Whether runs deliver their answers although their schedule does not say so: an agent or the file does."""

    def rules_for(self, agent: str) -> AgentRules:
        return self.agent_rules.get(agent) or self.agent_rules.get(ALL_AGENTS) or DEFAULT_RULES

    def quiet_hours_of(self, person: str | None) -> QuietHours | None:
        """The quiet hours in which a person wants no messages, in the person's time zone."""
        found = self.people.get(person or "")
        hours = None if found is None else self.quiet_hours.get(found.quiet_hours or "")
        if found is None or hours is None or found.timezone is None:
            return hours
        return replace(hours, timezone=found.timezone)

    @property
    def default_agent(self) -> str:
        """The agent of what names none: the only one, or the one named "default"."""
        return DEFAULT_AGENT if DEFAULT_AGENT in self.agents or len(self.agents) != 1 else next(iter(self.agents))

    def throttle_of(self, provider: str | None, agent: str, now: int) -> Throttle | None:
        if provider is None and agent in self.agents:
            provider = self.agents[agent].provider
        throttle = self.throttles.get(provider) if provider else None
        if throttle is None or throttle.resets_at <= now or (throttle.affects and agent not in throttle.affects):
            return None
        return throttle


NO_POLICIES = Policies()


def read_policies(rev: int, rows: Iterable[PolicyRow], throttles: Iterable[Throttle]) -> Policies:
    found: dict[str, dict[str, Any]] = {}
    unreadable: list[str] = []
    for kind, name, definition in rows:
        try:
            found.setdefault(kind, {})[name] = _load(kind, name, orjson.loads(definition))
        except Exception as error:  # one bad row must not affect the others
            unreadable.append(f"{kind} {name}: {type(error).__name__}: {error}")
    deliver: Deliver = found.get("deliver", {}).get("deliver", NO_POLICIES.deliver)
    agents: dict[str, Agent] = found.get("agent", {})
    rates = {name: data["usd"] for name, data in found.get("rate", {}).items()}
    return Policies(
        rev=rev,
        quiet_hours=_with_days(found.get("quiet_hours", {}), found.get("calendar", {})),
        calendars=found.get("calendar", {}),
        throttles={throttle.provider: throttle for throttle in throttles},
        budgets=tuple(found.get("budget", {}).values()),
        prices={**NO_POLICIES.prices, **found.get("price", {})},
        rates={**NO_POLICIES.rates, **rates},
        hooks=found.get("hook", {}),
        hook_files=found.get(HOOK_FILES, {}),
        agents=agents,
        agent_rules=found.get("agent_rules", {}),
        work_sources=found.get("work_source", {}),
        inbound=found.get("inbound", {}),
        people=found.get("person", {}),
        destinations=found.get("destination", {}),
        notify=found.get("notify", {}).get("notify", NO_POLICIES.notify),
        deliver=deliver,
        delivers=bool(deliver.to or any(agent.deliver for agent in agents.values())),
        smtp=found.get("smtp", {}).get("smtp", NO_POLICIES.smtp),
        allowed_hosts=tuple(found.get("allowed_hosts", {}).get("allowed_hosts", {}).get("hosts", ())),
        heartbeat_url=found.get("heartbeat", {}).get("heartbeat", {}).get("url"),
        records=found,
        unreadable=tuple(unreadable),
    )


def _with_days(hours: Mapping[str, QuietHours], calendars: Mapping[str, Calendar]) -> dict[str, QuietHours]:
    """The quiet hours, with the days of their calendars."""
    days = {name: read_days(calendar.dates + calendar.days) for name, calendar in calendars.items()}
    return {
        name: replace(each, days=tuple(days[one] for one in each.calendars if one in days)) if each.calendars else each
        for name, each in hours.items()
    }


def _load(kind: str, name: str, data: Any) -> Any:
    value, single = _VALUES.get(kind), _SINGLE.get(kind)
    if single is not None:
        return single(**load_settings(loaders_of(settings_of(single)), data))
    return data if value is None else value(name, **load_settings(loaders_of(settings_of(value)), data))
