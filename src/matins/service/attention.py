"""What needs a person, what runs, and what comes next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from matins.api.results import AttentionItem, NextRun, RunningRun, Status
from matins.engine.money import format_money
from matins.engine.planning import past_durations
from matins.engine.reasons import local_time
from matins.engine.when.durations import DAY_MS, MINUTE_MS, about, format_duration
from matins.engine.when.triggers import to_datetime, to_ms
from matins.model.access import Principal, name_of
from matins.model.agent import Agent
from matins.model.run import RunRecord, RunState
from matins.model.words import counted
from matins.runtime.catalog import run_record
from matins.service.core import LEASE_MS, MAX_ID, Core
from matins.service.file.plan import missing_agents
from matins.service.gate_reports import state_report
from matins.service.output import silence_ms
from matins.service.run_views import by_schedule
from matins.service.system import midnight
from matins.store.transaction import Transaction

_MAX_ITEMS = 100
_OVERDUE_MS = MINUTE_MS
_PAST_RUNS, _ENOUGH_RUNS = 20, 3
_SHOWN = 5
_INCIDENTS = ("failed", "budget", "limit", "login", "undelivered", "engine", "late", "slow")


@dataclass(frozen=True)
class Attention:
    core: Core

    def attention(self, principal: Principal) -> list[AttentionItem]:
        now, engines = self.core.clock.now_ms(), len(self.core.store.engines(LEASE_MS))
        with self.core.store.reading() as transaction:
            return list(self._items(transaction, engines, now))

    def status(self, principal: Principal) -> Status:
        now, engines = self.core.clock.now_ms(), len(self.core.store.engines(LEASE_MS))
        with self.core.store.reading() as transaction:
            items = list(self._items(transaction, engines, now))
            figures = transaction.counts()
            started = [run_record(row) for row in transaction.runs_in_hand(_MAX_ITEMS)]
            running = [run for run in started if run.state is not RunState.HELD]
            failed = transaction.recent_failures(now - DAY_MS)
            spent = transaction.spend_since(midnight(now, self.core.clock.local_zone()))
            coming = list(self._next(transaction))
        healthy = not any(item.kind in ("no_engine", "overdue") for item in items)
        return Status(
            summary=_summary(items, figures.started_runs, failed, coming, self.core.clock.local_zone()),
            healthy=healthy,
            attention=items,
            running=[RunningRun(str(run.id), run.schedule, to_datetime(run.started_at)) for run in running],
            waiting=figures.waiting_runs,
            failed=failed,
            next=coming,
            spend_today=format_money(sum(row.money for row in spent)),
        )

    def _items(self, transaction: Transaction, engines: int, now: int) -> Iterator[AttentionItem]:
        """What needs a person: what stops everything first, then decisions, then single runs and schedules."""
        yield from self._engine(transaction, engines, now)
        for missing in missing_agents(transaction, self.core.catalog.policies(transaction)):
            yield AttentionItem("no_agent", f"{missing.sentence}.", missing.fix, agent=missing.name)
        yield from self._approvals(transaction)
        runs = [run_record(row) for row in transaction.runs_in_hand(_MAX_ITEMS)]
        yield from (_held(run) for run in runs if run.state is RunState.HELD)
        yield from self._stuck(transaction, [run for run in runs if run.state is not RunState.HELD], now)
        yield from self._stopped(transaction)
        yield from self._incidents(transaction)

    def _incidents(self, transaction: Transaction) -> Iterator[AttentionItem]:
        """Open incidents that are not acknowledged. Other kinds are shown by what they are about."""
        rows = transaction.unresolved_incidents(None, MAX_ID, _MAX_ITEMS)
        shown = [row for row in rows if row.state == "open" and row.kind in _INCIDENTS]
        schedules = self.core.schedules(transaction, {row.schedule_id for row in shown if row.schedule_id})
        for row in shown:
            schedule = schedules.get(row.schedule_id)
            name, often = (
                "" if schedule is None else f"{schedule.name}: ",
                "" if row.times == 1 else f" ({row.times} times)",
            )
            yield AttentionItem(
                "incident",
                f"{name}{row.summary.removesuffix('.')}{often}.",
                f"matins incidents show {row.id}",
                quote=row.quote,
                schedule_id=None if schedule is None else str(schedule.id),
                schedule=None if schedule is None else schedule.name,
                agent=None if schedule is None else schedule.agent,
                run_id=None if row.run_id is None else str(row.run_id),
                incident_id=str(row.id),
                since=to_datetime(row.opened_at),
            )

    def _engine(self, transaction: Transaction, engines: int, now: int) -> Iterator[AttentionItem]:
        due = transaction.counts().next_due_at
        if engines == 0:
            yield AttentionItem("no_engine", "No engine is running, and nothing fires.", "matins up")
        elif due is not None and now - due > _OVERDUE_MS:
            sentence = f"Slots are overdue by {about(now - due)}: the engine does not keep up."
            yield AttentionItem("overdue", sentence, "matins doctor", since=to_datetime(due))

    def _approvals(self, transaction: Transaction) -> Iterator[AttentionItem]:
        pending = transaction.approvals_in("pending", 0, _MAX_ITEMS)
        schedules = self.core.schedules(transaction, {asked.schedule_id for asked in pending})
        for asked in pending:
            schedule = schedules[asked.schedule_id]
            about = {"run": "the run of", "schedule": "the schedule", "budget": "more budget for"}[asked.kind]
            yield AttentionItem(
                "approval",
                f"Approval {asked.id}: {name_of(asked.requested_by)} asks for {about} {schedule.name}.",
                f"matins approvals show {asked.id}",
                schedule_id=str(schedule.id),
                schedule=schedule.name,
                agent=schedule.agent,
                run_id=None if asked.run_id is None else str(asked.run_id),
                approval_id=str(asked.id),
                since=to_datetime(asked.requested_at),
            )

    def _stopped(self, transaction: Transaction) -> Iterator[AttentionItem]:
        for schedule in self.core.schedules(transaction, transaction.stopped_schedules(_MAX_ITEMS)).values():
            broken, report = schedule.state == "broken", state_report(schedule)
            yield AttentionItem(
                "broken" if broken else "paused",
                f"{schedule.name}: {report.sentence}",
                f"matins {'show' if broken else 'resume'} {shlex.quote(schedule.name)}",
                quote=report.quote,
                schedule_id=str(schedule.id),
                schedule=schedule.name,
                agent=schedule.agent,
                since=to_datetime(schedule.paused_at or schedule.updated_at),
            )

    def _stuck(self, transaction: Transaction, runs: list[RunRecord], now: int) -> Iterator[AttentionItem]:
        """Runs that write nothing, or take longer than usual."""
        if not runs:
            return
        places = {place.id: place for place in transaction.run_places([run.id for run in runs])}
        past = by_schedule(transaction.last_records({run.schedule_id for run in runs}, _PAST_RUNS))
        agents = self.core.catalog.policies(transaction).agents
        for run in runs:
            place = places[run.id]
            silent = self._silent(run, agents.get(place.agent), place.starter, now)
            sentence = silent or _too_long(run, past_durations(past.get(run.schedule_id, [])), now)
            if sentence is not None:
                command, since = f"matins logs {run.id}", to_datetime(run.started_at)
                yield AttentionItem("stuck", sentence, command, schedule=run.schedule, run_id=str(run.id), since=since)

    def _silent(self, run: RunRecord, agent: Agent | None, worker: str | None, now: int) -> str | None:
        """What is said of a run that has written nothing for half of its agent's idle timeout."""
        if agent is None or agent.idle_timeout_ms is None:
            return None
        silent = silence_ms(self.core, run, worker, now)
        if silent is None or silent < agent.idle_timeout_ms // 2:
            return None
        left = agent.idle_timeout_ms - silent
        ending = f"; it is ended after {format_duration(agent.idle_timeout_ms)}" if left > 0 else ""
        return f"Run {run.id} of {run.schedule} has written nothing for {about(silent)}{ending}."

    def _next(self, transaction: Transaction) -> Iterator[NextRun]:
        for schedule in self.core.schedules(transaction, transaction.upcoming(_SHOWN)).values():
            if schedule.next_slot is not None:
                zone = schedule.definition.trigger.timezone
                yield NextRun(schedule.name, schedule.agent, to_datetime(schedule.next_slot), zone)


def _held(run: RunRecord) -> AttentionItem:
    return AttentionItem(
        "held",
        f"Run {run.id} of {run.schedule} is held: its outcome is unknown.",
        f"matins resolve {run.id} succeeded|failed|retry",
        schedule=run.schedule,
        run_id=str(run.id),
        since=to_datetime(run.started_at),
    )


def _too_long(run: RunRecord, past: list[int], now: int) -> str | None:
    """What is said of a run that takes more than twice as long as usual, and a minute longer."""
    if run.started_at is None or len(past) < _ENOUGH_RUNS:
        return None
    took, usual = now - run.started_at, int(median(past))
    if took <= 2 * usual or took <= usual + MINUTE_MS:
        return None
    return f"Run {run.id} of {run.schedule} has run for {about(took)}; it usually takes {about(usual)}."


def _summary(items: list[AttentionItem], running: int, failed: int, coming: list[NextRun], zone: str) -> str:
    needs = "Nothing needs you" if not items else f"{counted(len(items), 'thing needs', 'things need')} you"
    parts = [needs, f"{counted(running, 'run is', 'runs are')} running"]
    if failed:
        parts.append(f"{failed} failed in the last 24 hours")
    if coming:
        at = to_ms(coming[0].at) // 1_000 * 1_000
        parts.append(f"next: {coming[0].schedule} at {local_time(at, zone)}")
    return "; ".join(parts) + "."
