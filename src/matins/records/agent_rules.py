"""Agent rules: what agents may schedule by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matins.engine.agent_rules import ALL_AGENTS, AgentRules
from matins.records.kind import Column, RecordKind
from matins.records.storage import POLICIES

if TYPE_CHECKING:
    from matins.engine.policies import Policies


def _rules_for(agent: str, policies: Policies) -> AgentRules:
    return policies.rules_for(agent)


AGENT_RULES = RecordKind(
    kind="agent_rules",
    noun="agent_rules",
    one="agent rule set",
    key="agent",
    default_key=ALL_AGENTS,
    value=AgentRules,
    help="Manage what agents may schedule.",
    file_help='What agents may schedule, by name; "*" for all others.',
    storage=POLICIES,
    usual=_rules_for,
    columns=(
        Column("AGENT", "agent"),
        Column("SCHEDULES", "max_schedules", right=True),
        Column("DEPTH", "max_depth", right=True),
        Column("INTERVAL", "min_interval"),
        Column("LIFETIME", "max_lifetime"),
    ),
    example="matins agent-rules set scout --max-schedules 5 --min-interval 10m",
)
