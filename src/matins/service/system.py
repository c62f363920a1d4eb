"""Use cases on the installation: figures, checks, backups, jobs, the principal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matins.api.results import Backup, Finding, Job, Stats, Throttled, Tool, Whoami
from matins.engine.money import format_money
from matins.engine.validation import check_strings
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import to_datetime
from matins.engine.when.zones import load_zone
from matins.errors import Conflict, InvalidInput
from matins.model.access import Principal
from matins.model.rows import NewEvent
from matins.runtime.catalog import GLOBAL
from matins.service.agent_tools import list_tools
from matins.service.core import LEASE_MS, Core
from matins.service.doctor import Doctor
from matins.service.permissions import rights_of


@dataclass(frozen=True)
class System:
    core: Core
    doctors: Doctor

    def stats(self, principal: Principal) -> Stats:
        now, engines = self.core.clock.now_ms(), len(self.core.store.engines(LEASE_MS))
        with self.core.store.reading() as transaction:
            figures = transaction.counts()
            sizes = {row.scope: row.size for row in transaction.limits()}
            spent = transaction.spend_since(midnight(now, self.core.clock.local_zone()))
            return Stats(
                running=engines > 0,
                active_schedules=figures.active_schedules,
                paused_schedules=figures.paused_schedules,
                pending_schedules=figures.pending_schedules,
                running_executions=figures.started_runs,
                max_concurrent=sizes.get(GLOBAL),
                recent_failures=transaction.recent_failures(now - DAY_MS),
                planner_lag_ms=0 if figures.next_due_at is None else max(0, now - figures.next_due_at),
                ready_runs=figures.ready_runs,
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
        return Whoami(principal.role, principal.name, run_id, sorted(rights_of(principal)), zone, now)

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
