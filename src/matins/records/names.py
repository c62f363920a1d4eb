"""Names of principals: an agent cannot have the name of a person or of a token, because readers see names only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from matins.errors import Conflict

if TYPE_CHECKING:
    from matins.engine.policies import Policies
    from matins.model.access import Token
    from matins.records.kind import RecordChange


def check_token_name(name: str, role: str, policies: Policies, tokens: Iterable[Token], now: int) -> None:
    """Raise if a token would have the name of an agent, or an agent's token that of a person."""
    valid = [token for token in tokens if token.name == name and token.is_valid(now)]
    if role != "agent":
        if name in policies.agents or any(token.role == "agent" for token in valid):
            raise _taken(name, "an agent", "token")
        return
    if name == "owner" or name in policies.people:
        raise _taken(name, "a person", "token")
    if any(token.role != "agent" for token in valid):
        raise _taken(name, "a token", "agent's token")


def check_agent_name(agent: Any, before: Any, change: RecordChange) -> None:
    """Raise if a new agent would have the name of a person or of a token that is no agent's."""
    if before is not None:
        return
    if agent.name == "owner" or agent.name in change.policies.people:
        raise _taken(agent.name, "a person", "agent")
    tokens = change.transaction.tokens()
    if any(one.name == agent.name and one.role != "agent" and one.is_valid(change.now) for one in tokens):
        raise _taken(agent.name, "a token", "agent")


def check_person_name(person: Any, before: Any, change: RecordChange) -> None:
    """Raise if a new person would have the name of an agent."""
    if before is not None:
        return
    tokens = change.transaction.tokens()
    of_agents = {one.name for one in tokens if one.role == "agent" and one.is_valid(change.now)}
    if person.name in change.policies.agents or person.name in of_agents:
        raise _taken(person.name, "an agent", "person")


def _taken(name: str, what: str, other: str) -> Conflict:
    return Conflict(
        f'The name "{name}" belongs to {what}.', value=name, field="name", hint=f"Use another name for the {other}."
    )
