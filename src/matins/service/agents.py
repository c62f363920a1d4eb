"""Use cases on agents and on the threads in which they are spoken to."""

from __future__ import annotations

from typing import Any

from matins.config.defining import agent_data, edited_agent_data
from matins.engine.policies import Policies
from matins.engine.schedules import TALK
from matins.errors import Conflict, NotFound
from matins.model.agent import Agent
from matins.model.principal import Principal
from matins.model.thread import Landing, Message, Thread
from matins.service.governing import Governing, all_schedules
from matins.service.rights import needs
from matins.work.base import SourceDefinition, define_source, from_dict, to_dict

_NEWEST = 1 << 62


class Agents(Governing):
    @needs("govern")
    def set_agent(self, principal: Principal, name: str, **words: Any) -> Agent:
        """Who is woken: a runner, a model, a workdir, what it may use and spend."""
        data = agent_data(name, words, self._policies().rates)
        self._put(principal, "agent", name, data, words)
        return self.get_agent(principal, name)

    @needs("govern")
    def edit_agent(self, principal: Principal, name: str, **words: Any) -> Agent:
        """Change only what is said; None goes back to what is usual."""

        def edited(policies: Policies) -> dict[str, Any]:
            return edited_agent_data(_named(policies, name), words, policies.rates)

        self._put(principal, "agent", name, edited, words, only=False)
        return self.get_agent(principal, name)

    @needs("govern")
    def drop_agent(self, principal: Principal, name: str) -> bool:
        """Refused while a schedule speaks to it."""
        with self._store.reading() as transaction:
            users = [s.name for s in all_schedules(transaction) if s.agent == name and s.definition.do == TALK]
        if users:
            raise Conflict(f'"{name}" is woken by {", ".join(users[:5])}', value=name, hint="remove those first")
        return self._drop(principal, "agent", name)

    @needs("govern")
    def set_work_source(self, principal: Principal, name: str, **words: Any) -> SourceDefinition:
        """Where work items come from: kind="tasks" with its path, or kind="github" with its repo."""
        definition = define_source(name, words)
        self._put(principal, "work", name, to_dict(definition), words)
        return definition

    @needs("govern")
    def drop_work_source(self, principal: Principal, name: str) -> bool:
        """Refused while a schedule takes its work from there."""
        with self._store.reading() as transaction:
            users = [s.name for s in all_schedules(transaction) if s.definition.work == name]
        if users:
            raise Conflict(f'"{name}" gives work to {", ".join(users[:5])}', value=name, hint="edit those first")
        return self._drop(principal, "work", name)

    @needs("read")
    def work_sources(self, principal: Principal) -> list[SourceDefinition]:
        return [from_dict(data) for data in self._policies().work.values()]

    @needs("read")
    def agents(self, principal: Principal) -> list[Agent]:
        return list(self._policies().agents.values())

    @needs("read")
    def get_agent(self, principal: Principal, name: str) -> Agent:
        return _named(self._policies(), name)

    @needs("read")
    def threads(self, principal: Principal, before: int | None = None, limit: int = 100) -> list[Thread]:
        """Conversations, the newest first."""
        with self._store.reading() as transaction:
            return transaction.threads(_NEWEST if before is None else before, limit)

    @needs("read")
    def messages(self, principal: Principal, thread_id: int, after: int = 0, limit: int = 100) -> list[Message]:
        with self._store.reading() as transaction:
            if transaction.thread(thread_id) is None:
                raise NotFound(f"There is no thread {thread_id}", value=thread_id, field="thread")
            return transaction.messages(thread_id, after, limit)

    @needs("read")
    def landing(self, principal: Principal, run_id: int) -> Landing | None:
        """Where a run landed; None before it started."""
        with self._store.reading() as transaction:
            self._run(transaction, run_id)
            return transaction.landing(run_id)


def _named(policies: Policies, name: str) -> Agent:
    found = policies.agents.get(name)
    if found is None:
        known = ", ".join(sorted(policies.agents)) or "none yet: set_agent makes one"
        raise NotFound(f'There is no agent "{name}"', value=name, field="agent", hint=f"known: {known}")
    return found
