"""Policies, throttles, checks, timers and figures, in SQL that both stores share."""

from __future__ import annotations

from typing import Any

import orjson

from matins.model.rows import AttemptRow, CheckRow, Figures, PolicyRow, ScheduleChange, WaitingRun
from matins.model.throttle import Throttle
from matins.store.common.statements import Statements


class PolicyQueries(Statements):
    # -- policies and throttles

    def policy_rev(self) -> int:
        return self._value("policy_rev")

    def lock_policies(self) -> None:
        self._all("lock_policies")

    def policies(self) -> list[PolicyRow]:
        return self._rows(PolicyRow, "policies")

    def upsert_policy(self, kind: str, name: str, definition: str, now: int, by: str) -> None:
        self._all("increment_policy_rev")
        self._all("upsert_policy", kind=kind, name=name, definition=definition, now=now, by=by)

    def delete_policy(self, kind: str, name: str) -> bool:
        self.lock_policies()
        return bool(self._raised(self._all("delete_policy", kind=kind, name=name)))

    def throttles(self) -> list[Throttle]:
        rows: list[Any] = self._rows(Throttle, "throttles")
        return [row._replace(affects=tuple(orjson.loads(row.affects))) for row in rows]

    def upsert_throttle(self, throttle: Throttle) -> Throttle:
        self._all("increment_policy_rev")
        for other in self.throttles():
            if other.provider == throttle.provider and other.resets_at > throttle.activated_at:
                everybody = not (other.affects and throttle.affects)
                affects = () if everybody else tuple(sorted({*other.affects, *throttle.affects}))
                throttle = max(throttle, other, key=lambda t: t.resets_at)._replace(affects=affects)
        values = throttle._asdict() | {"affects": orjson.dumps(throttle.affects).decode()}
        self._all("upsert_throttle", **values)
        return throttle

    def delete_throttle(self, provider: str) -> bool:
        self.lock_policies()
        return bool(self._raised(self._all("delete_throttle", provider=provider)))

    def delete_ended_throttles(self, now: int) -> list[str]:
        if all(throttle.resets_at > now for throttle in self.throttles()):
            return []
        self.lock_policies()
        return self._raised(self._column("delete_ended_throttles", now=now))

    def last_one_shot(self, agent: str) -> int | None:
        return self._value("last_one_shot", agent=agent)

    def set_last_one_shot(self, agent: str, now: int) -> None:
        self._all("set_last_one_shot", agent=agent, now=now)

    # -- timers

    def next_timer(self) -> int | None:
        return self._value("next_timer")

    def waiting_due(self, now: int, limit: int) -> list[WaitingRun]:
        return self._rows(WaitingRun, "waiting_due", now=now, limit=limit)

    def waiting_for(self, reason: str) -> list[WaitingRun]:
        return self._rows(WaitingRun, "waiting_for", reason=reason)

    def defer_run(self, run_id: int, epoch: int, until: int) -> None:
        self._all("defer_run", run_id=run_id, epoch=epoch, until=until)

    def wake_run(self, run_id: int, reason: str, now: int) -> None:
        self._all("wake_run", run_id=run_id, reason=reason, now=now)

    def ended_pauses(self, now: int, limit: int) -> list[int]:
        return self._column("ended_pauses", now=now, limit=limit)

    def prune_records(self, before: int, day: str) -> None:
        self._all("prune_approvals", before=before)
        self._all("prune_votes")
        self._all("prune_budget_usage", day=day)
        self._all("prune_workers", before=before)

    def paused_by(self, by: str) -> list[tuple[int, str, str]]:
        return self._all("paused_by", by=by)

    def set_paused_until(self, schedule_id: int, until: int | None) -> None:
        self._all("set_paused_until", id=schedule_id, until=until)

    def failures(self, schedule_id: int) -> int:
        return self._value("failures", id=schedule_id)

    def reset_failures(self, schedule_id: int) -> None:
        self._all("reset_failures", id=schedule_id)

    def uncount_execution(self, schedule_id: int, run_id: int) -> None:
        self._all("uncount_execution", id=schedule_id, run_id=run_id)

    def uncount_attempt(self, run_id: int) -> None:
        self._all("uncount_attempt", run_id=run_id)

    # -- checks

    def insert_check(self, check: CheckRow) -> None:
        self._all("insert_check", **check._asdict())

    def checks(self, run_id: int) -> list[CheckRow]:
        return self._rows(CheckRow, "checks", run_id=run_id)

    def last_started(self, schedule_id: int, run_id: int) -> int | None:
        return self._value("last_started", id=schedule_id, run_id=run_id)

    # -- history

    def run_at(self, schedule_id: int, at: int) -> int | None:
        return self._value("run_at", id=schedule_id, at=at)

    def run_before(self, schedule_id: int, at: int) -> int | None:
        return self._value("run_before", id=schedule_id, at=at)

    def attempts(self, run_id: int) -> list[AttemptRow]:
        return self._rows(AttemptRow, "attempts", run_id=run_id)

    def window_used(self, schedule_id: int) -> int:
        return self._value("window_used", id=schedule_id)

    def purged_slot(self, schedule_id: int) -> int | None:
        return self._value("purged_slot", id=schedule_id)

    def last_change(self, schedule_id: int, at: int) -> ScheduleChange | None:
        row: Any = self._row(ScheduleChange, "last_change", id=schedule_id, at=at)
        return None if row is None else row._replace(data=orjson.loads(row.data or "{}"))

    def counts(self) -> Figures:
        return self._rows(Figures, "counts")[0]

    def recent_failures(self, since: int) -> int:
        return self._value("recent_failures", since=since)
