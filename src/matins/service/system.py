"""Use cases on the installation: figures, checks, backups, jobs, the principal."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec import structs

from matins.api.results import Backup, Finding, Job, Stats, Throttled, Tool, Whoami
from matins.engine.money import format_money
from matins.engine.validation import check_strings
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import to_datetime
from matins.engine.when.zones import load_zone
from matins.errors import Conflict, InvalidInput
from matins.executors.agent_checks import ToolVersions, credential_of, needs_of
from matins.executors.registry import runners
from matins.model.access import Principal
from matins.model.agent import Agent
from matins.model.rows import NewEvent, WorkerRow
from matins.runtime.catalog import GLOBAL
from matins.service.core import LEASE_MS, Core
from matins.service.doctor import Doctor
from matins.service.permissions import rights_of
from matins.store.transaction import Transaction


def list_tools(core: Core, *, versions: bool) -> list[Tool]:
    """The agents with their tools, then installed tools without an agent."""
    agents = list(core.policies().agents.values())
    used = {agent.runner for agent in agents}
    free = [name for name, runner in sorted(runners().items()) if needs_of(runner) is not None and name not in used]
    found: list[Tool] = [*map(_of_agent, agents), *map(_of_runner, free)]
    ask = core.local.versions
    if not versions or ask is None:
        return found
    asked = [*agents, *(Agent(name, name) for name in free)]
    paths = [tool.path if tool.needs_credential else None for tool in found]
    with ThreadPoolExecutor() as pool:  # a tool takes a second to print its version
        told = pool.map(partial(_version, ask), asked, paths)
        return [structs.replace(tool, version=version) for tool, version in zip(found, told, strict=True)]


def _version(ask: ToolVersions, agent: Agent, path: str | None) -> str | None:
    return None if path is None else ask(agent, path)


def _of_agent(agent: Agent) -> Tool:
    runner = runners().get(agent.runner)
    needs = needs_of(runner)
    program = agent.command[0] if agent.command else getattr(runner, "program", "")
    path = shutil.which(program) if program else None
    permission = needs.permission if needs else None
    return Tool(
        agent.name,
        agent.runner,
        path,
        None,
        credential_of(agent, needs) if needs else None,
        needs is not None,
        agent.permission_mode,
        permission.risk if permission and permission.asks else None,
        needs.install if needs else None,
    )


def _of_runner(name: str) -> Tool:
    runner = runners()[name]
    needs = needs_of(runner)
    assert needs is not None
    path = shutil.which(getattr(runner, "program", ""))
    permission = needs.permission
    return Tool(
        None,
        name,
        path,
        None,
        needs.credential(dict(os.environ), dict(os.environ)),
        True,
        permission.mode if permission else None,
        permission.risk if permission and permission.asks else None,
        needs.install,
    )


@dataclass(frozen=True)
class System:
    core: Core
    doctors: Doctor

    def stats(self, principal: Principal) -> Stats:
        now, engines = self.core.clock.now_ms(), self.core.store.engines(LEASE_MS)
        with self.core.store.reading() as transaction:
            figures = transaction.counts()
            sizes = {row.scope: row.size for row in transaction.limits()}
            spent = transaction.spend_since(midnight(now, self.core.clock.local_zone()))
            return Stats(
                running=bool(engines),
                active_schedules=figures.active_schedules,
                paused_schedules=figures.paused_schedules,
                pending_schedules=figures.pending_schedules,
                running_executions=figures.started_runs,
                max_concurrent=sizes.get(GLOBAL),
                recent_failures=transaction.recent_failures(now - DAY_MS),
                planner_lag_ms=0 if figures.next_due_at is None else max(0, now - figures.next_due_at),
                ready_runs=figures.ready_runs,
                runs_without_node=self._without_node(transaction, engines) if figures.ready_runs else 0,
                waiting_runs=figures.waiting_runs,
                waiting_approvals=figures.pending_approvals,
                oldest_approval=to_datetime(figures.oldest_approval_at),
                spend_today=format_money(sum(row.money for row in spent)),
                tokens_today=sum(row.tokens for row in spent),
                throttles=[
                    Throttled(throttle.provider, to_datetime(throttle.resets_at))
                    for throttle in transaction.throttles()
                    if throttle.resets_at > now
                ],
            )

    def _without_node(self, transaction: Transaction, engines: Sequence[WorkerRow]) -> int:
        """How many ready runs no live node can run."""
        needs = {row.id: row.needs for row in transaction.places()} if engines else {}
        waiting = [row.place for row in transaction.ready_places() if row.place in needs] if needs else []
        unserved = [
            place
            for place in waiting
            if self.core.jobs.no_node_for(frozenset(json.loads(needs[place])), engines) is not None
        ]
        return sum(transaction.count_ready(place) for place in unserved)

    def doctor(self, principal: Principal) -> list[Finding]:
        return self.doctors.findings(principal)

    def tools(self, principal: Principal, *, versions: bool = True) -> list[Tool]:
        # An agent may have replaced a tool, and must not have it started outside its walls.
        return list_tools(self.core, versions=versions and principal.role == "owner")

    def jobs(self, principal: Principal) -> list[Job]:
        return self.core.jobs.listed(self.core.store.engines(LEASE_MS))

    def whoami(self, principal: Principal) -> Whoami:
        run_id = None if principal.run_id is None else str(principal.run_id)
        person = self.core.policies().people.get(principal.name)
        zone = (person.timezone if person is not None else None) or self.core.clock.local_zone()
        now = to_datetime(self.core.clock.now_ms())
        return Whoami(principal.role, principal.name, run_id, sorted(rights_of(principal)), zone, now, principal.person)

    def backup(self, principal: Principal, path: str) -> Backup:
        target = Path(check_strings("path", [path], "the path of a new file")[0])
        if not target.is_absolute():
            hint = str(target.absolute())
            raise InvalidInput(
                f'"{path}" is not an absolute path.', value=path, field="path", hint=f"For example: {hint}."
            )
        if target.exists():
            raise Conflict(f"{target} exists already.", value=path, field="path", hint="Use the name of a new file.")
        self.core.store.backup(target)
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            data = {**principal.signed, "path": str(target)}
            transaction.events.append(NewEvent(now, "store.backed_up", None, None, data))
        return Backup(str(target), target.stat().st_size)


def midnight(now: int, zone_name: str) -> int:
    """The start of this day in a time zone."""
    zone = load_zone(zone_name)
    wall = zone.wall_of(now)
    return zone.resolve(wall - wall % DAY_MS)
