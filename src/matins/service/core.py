"""The core of all use cases: the store, the clock, and finding schedules and runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal

from matins.api.use_case import UseCase
from matins.config.file import ConfigFile
from matins.engine.policies import Policies
from matins.engine.settings import ParseContext
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, NotFound
from matins.executors.agent_checks import ToolVersions
from matins.executors.isolation import Isolation
from matins.model.access import Grant, Principal, name_of
from matins.model.clock import Clock
from matins.model.rows import ScheduleRow
from matins.model.run import RunRecord, StepId
from matins.model.schedule import ScheduleRecord
from matins.runtime.catalog import Catalog, CompiledSchedule, run_record, schedule_record
from matins.runtime.engine import EngineOptions
from matins.service.jobs import KnownJobs
from matins.service.permissions import check_not_stopped, check_own, check_reach, covers, rights_of
from matins.store import Store
from matins.store.transaction import Transaction

MAX_ID = 1 << 62
LEASE_MS = EngineOptions().lease_ms
"""The default lease. Other processes may use another one, which is not known here."""
_PAGE = 1_000


@dataclass
class LocalState:
    """State of this process that is not in the store."""

    file: ConfigFile | None = None
    """The file that `file.plan` and `file.apply` use."""
    state_folder: str | None = None
    """The directory of journals and output that the owner named."""
    isolation: Isolation | None = None
    """Whether agents are isolated on this machine."""
    url: Callable[[], str | None] = lambda: None
    """The address under which people reach the page; None without a server."""
    versions: ToolVersions | None = None
    """Asks tools for their versions."""


@dataclass(frozen=True)
class Core:
    store: Store
    clock: Clock
    wake_here: Callable[[], None]
    """Wakes the loops of this process."""
    workdir: str | None
    """The directory of commands and of relative paths."""
    jobs: KnownJobs
    local: LocalState = field(default_factory=LocalState)
    catalog: Catalog = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "catalog", Catalog(cache=False, workdir=self.workdir, out_of_reach=self._out_of_reach))

    def _out_of_reach(self) -> Iterable[str]:
        return () if self.local.isolation is None else self.local.isolation.out_of_reach()

    def notify(self) -> None:
        """Wake the loops after a change: those of this process, and of others."""
        self.store.after_commit(self._wake_all)

    def wake(self) -> None:
        """Wake the loops of this process after a transaction that notifies others itself."""
        self.store.after_commit(self.wake_here)

    def _wake_all(self) -> None:
        self.store.notify()
        self.wake_here()

    def policies(self) -> Policies:
        """The present policies. Mostly one number is read: their revision."""
        known = self.catalog.policies_at(self.store.policy_rev())
        if known is not None:
            return known
        with self.store.reading() as transaction:
            return self.catalog.policies(transaction)

    def limited_reader(self, principal: Principal, transaction: Transaction | None = None) -> str | None:
        """The agent that calls, if it sees only its own content; None if the principal sees all."""
        if principal.role != "agent":
            return None
        policies = self.policies() if transaction is None else self.catalog.policies(transaction)
        return None if policies.rules_for(principal.name).sees == "all" else principal.name

    def parse_context(self, policies: Policies, now: int) -> ParseContext:
        return ParseContext(now, policies.rates, self.clock.local_zone)

    def schedule_for(
        self,
        transaction: Transaction,
        principal: Principal,
        name: str,
        agent: str | None,
        to: Literal["change", "delete"] = "change",
        *,
        lock: bool = True,
    ) -> ScheduleRecord:
        """The schedule, with its cursor locked. Raises NotAllowed unless the principal may change it. Use cases get a
        locked schedule only here, so the check always happens. `lock`: False to read it before a change."""
        if lock:
            transaction.lock_due([self.find(transaction, name, agent).id])
        schedule = self.find(transaction, name, agent)
        self.check_may_change(principal, schedule, to == "delete")
        return schedule

    def check_may_change(self, principal: Principal, schedule: ScheduleRecord, to_delete: bool = False) -> None:
        """Raise NotAllowed unless the principal may change, or delete, this schedule."""
        check_own(principal, schedule)
        check_reach(principal, schedule.agent, schedule.definition)
        if not to_delete:
            check_not_stopped(principal, schedule)

    def with_grants(self, principal: Principal, use_case: UseCase, values: Mapping[str, Any]) -> Principal:
        """The principal, as an operator where a grant makes the person one for what a call is about."""
        if principal.person is None or principal.role == "owner" or use_case.right in ("read", "govern"):
            return principal
        if use_case.right in rights_of(principal) and use_case.right != "approve":
            return principal
        person = self.policies().people.get(principal.person)
        if person is None or not person.grants:
            return principal
        with self.store.reading() as transaction:
            is_covered = self.is_covered(transaction, person.grants, use_case, values)
        return replace(principal, role="operator", granted=person.grants) if is_covered else principal

    def is_covered(
        self, transaction: Transaction, grants: Sequence[Grant], use_case: UseCase, values: Mapping[str, Any]
    ) -> bool:
        """Whether grants are for what a call is about, as it is. What it becomes is checked where it is written."""
        found: ScheduleRecord | None = None
        if use_case.name in ("bulk.apply", "runs.bulk"):
            return True  # what it selects is checked there, before anything changes
        if use_case.name == "schedules.add":
            return not (values.get("replace") or values.get("new_agent") or values.get("create_agent"))
        if (number := values.get("approval_id")) is not None:
            asked = transaction.approval(number)
            found = None if asked is None else self.schedule(transaction, asked.schedule_id)
        elif (number := values.get("backfill_id")) is not None:
            row = transaction.backfill(number)
            found = None if row is None else self.schedule(transaction, row.schedule_id)
            if row is not None and found is not None:  # its runs have the settings of then
                then = self.compiled_at(transaction, found, row.rev).definition
                found = found if covers(grants, found.agent, then) else None
        elif (run_id := values.get("run_id")) is not None:
            found = self.schedule(transaction, self.run(transaction, run_id).schedule_id)
        elif use_case.noun in ("schedules", "missions", "backfills") and "name" in use_case.in_path:
            found = self.find(transaction, values["name"], values.get("agent"), deleted=True)
        return found is not None and covers(grants, found.agent, found.definition)

    def find(self, transaction: Transaction, name: str, agent: str | None, *, deleted: bool = False) -> ScheduleRecord:
        """The schedule of this name. `deleted`: where there is none, the last one that had it and was deleted."""
        rows = transaction.schedules_called(name, agent)
        if not rows and agent is None and "/" in name:
            agent, name = name.split("/", 1)
            rows = transaction.schedules_called(name, agent)
        if len(rows) == 1:
            return schedule_record(rows[0])
        gone = [] if rows else transaction.deleted_called(name, agent)
        if deleted and gone:
            return schedule_record(gone[0])
        if not rows:
            raise _not_found(transaction, name, agent, gone)
        hint = f"Use one of: {', '.join(f'{row.agent}/{row.name}' for row in rows)}."
        raise Conflict(f'Several schedules have the name "{name}".', value=name, field="name", hint=hint)

    def schedule(self, transaction: Transaction, schedule_id: int) -> ScheduleRecord:
        row = transaction.schedule(schedule_id)
        assert row is not None, schedule_id
        return schedule_record(row)

    def schedules(self, transaction: Transaction, schedule_ids: Iterable[int]) -> dict[int, ScheduleRecord]:
        """Schedules by id, in the order of the ids."""
        ids = list(schedule_ids)
        found = {row.id: schedule_record(row) for row in transaction.schedules_with(ids)} if ids else {}
        return {number: found[number] for number in ids}

    def all_schedules(self, transaction: Transaction) -> list[ScheduleRecord]:
        found: list[ScheduleRecord] = []
        after = 0
        while page := transaction.schedules(after, None, _PAGE):
            found += [schedule_record(row) for row in page]
            after = found[-1].id
        return found

    def compiled(self, transaction: Transaction, schedule: ScheduleRecord) -> CompiledSchedule:
        return self.compiled_at(transaction, schedule, schedule.rev)

    def compiled_at(self, transaction: Transaction, schedule: ScheduleRecord, rev: int) -> CompiledSchedule:
        compiled = self.catalog.compiled(transaction, [(schedule.id, rev, 0)])[schedule.id, rev, 0]
        if isinstance(compiled, Exception):
            message = f'The settings of "{schedule.name}" cannot be read.'
            raise Conflict(message, value=schedule.name, hint="Edit the schedule, then resume it.") from compiled
        return compiled

    def run(self, transaction: Transaction, run_id: int | StepId) -> RunRecord:
        if isinstance(run_id, StepId):
            return self._step(transaction, run_id)
        row = transaction.run(run_id)
        if row is None:
            raise NotFound(f"There is no run {run_id}.", value=run_id, field="run")
        return run_record(row)

    def _step(self, transaction: Transaction, step_id: StepId) -> RunRecord:
        whole = self.run(transaction, step_id.run)
        for row in transaction.steps_of(whole.id):
            if row.step == step_id.step:
                return run_record(row)
        message = f"Run {whole.id} has no step {step_id.step}."
        raise NotFound(
            message,
            value=f"{whole.id}/{step_id.step}",
            field="run",
            hint=f"List its steps: matins runs show {whole.id}",
        )


def _not_found(transaction: Transaction, name: str, agent: str | None, gone: Sequence[ScheduleRow]) -> NotFound:
    """What became of a schedule that had this name; else the nearest name."""
    message = f'There is no schedule "{f"{agent}/{name}" if agent else name}".'
    for owner, now, at in transaction.renamed_from(name, agent)[:1]:
        shown = f"{owner}/{now}" if agent or name == now else now
        message += f' It was renamed to "{shown}" on {to_datetime(at):%-d %b}.'
        return NotFound(message, value=name, field="name", hint=f"Use the new name: {shown}")
    if gone and gone[0].paused_by is not None and gone[0].paused_at is not None:
        message += f" It was deleted by {name_of(gone[0].paused_by)} on {to_datetime(gone[0].paused_at):%-d %b}."
        return NotFound(message, value=name, field="name", hint=f"To get it back: matins undelete {shlex.quote(name)}")
    return NotFound(message, value=name, field="name", hint=_nearest(transaction, name))


def _nearest(transaction: Transaction, name: str) -> str | None:
    """The closest name, with its agent if it is the same name: then only the agent is another."""
    found = [schedule_record(row) for row in transaction.schedules(0, None, _PAGE)]
    same = [f"{one.agent}/{one.name}" if one.agent else one.name for one in found if one.name == name]
    close = same or get_close_matches(name, [one.name for one in found], n=1)
    return f'Did you mean "{close[0]}"?' if close else None
