"""Policies, throttles, checks, timers and figures, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from matins.model.policy import Throttle
from matins.model.records import Parked


class Governance:
    """Part of a transaction. The store implements `_common`, which runs a named query."""

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        raise NotImplementedError

    # -- policies and throttles

    def policy_rev(self) -> int:
        return self._common("policy_rev")[0][0]

    def lock_policies(self) -> None:
        """Lock policies, throttles and budget usage, before any of them is changed."""
        self._common("lock_policies")

    def policies(self) -> list[tuple[str, str, str]]:
        """(kind, name, definition)."""
        return self._common("policies")

    def put_policy(self, kind: str, name: str, definition: str, now: int, by: str) -> None:
        self._common("raise_policy_rev")
        self._common("put_policy", kind=kind, name=name, definition=definition, now=now, by=by)

    def drop_policy(self, kind: str, name: str) -> bool:
        self.lock_policies()
        dropped = self._common("drop_policy", kind=kind, name=name)
        if dropped:
            self._common("raise_policy_rev")
        return bool(dropped)

    def throttles(self) -> list[Throttle]:
        found: list[Throttle] = []
        for provider, resets_at, activated_at, affects, reason, by in self._common("throttles"):
            found.append(Throttle(provider, resets_at, activated_at, tuple(orjson.loads(affects)), reason, by))
        return found

    def put_throttle(self, throttle: Throttle) -> Throttle:
        """Store a throttle and return the result. Of two that overlap, the later end applies, to the agents of both."""
        self._common("raise_policy_rev")
        for other in self.throttles():
            if other.provider == throttle.provider and other.resets_at > throttle.activated_at:
                everybody = not (other.affects and throttle.affects)
                affects = () if everybody else tuple(sorted({*other.affects, *throttle.affects}))
                throttle = max(throttle, other, key=lambda t: t.resets_at)._replace(affects=affects)
        values = throttle._asdict() | {"affects": orjson.dumps(throttle.affects).decode()}
        self._common("put_throttle", **values)
        return throttle

    def drop_throttle(self, provider: str) -> bool:
        self.lock_policies()
        dropped = self._common("drop_throttle", provider=provider)
        if dropped:
            self._common("raise_policy_rev")
        return bool(dropped)

    def drop_past_throttles(self, now: int) -> list[str]:
        if all(throttle.resets_at > now for throttle in self.throttles()):
            return []
        self.lock_policies()
        dropped = [row[0] for row in self._common("drop_past_throttles", now=now)]
        if dropped:
            self._common("raise_policy_rev")
        return dropped

    # -- timers

    def next_timer(self) -> int | None:
        return self._common("next_timer")[0][0]

    def parked(self, now: int, limit: int) -> list[Parked]:
        return [Parked(*row) for row in self._common("parked", now=now, limit=limit)]

    def parked_for(self, reason: str) -> list[Parked]:
        return [Parked(*row) for row in self._common("parked_for", reason=reason)]

    def put_off(self, run_id: int, epoch: int, until: int) -> None:
        self._common("put_off", run_id=run_id, epoch=epoch, until=until)

    def wake_parked(self, run_id: int, reason: str, now: int) -> None:
        self._common("wake_parked", run_id=run_id, reason=reason, now=now)

    def pauses_over(self, now: int, limit: int) -> list[int]:
        return [row[0] for row in self._common("pauses_over", now=now, limit=limit)]

    def forget(self, before: int, day: str) -> None:
        """Delete approvals, budget usage and workers that ended before an instant, or a day. Pending ones stay."""
        self._common("forget_approvals", before=before)
        self._common("forget_votes")
        self._common("forget_purses", day=day)
        self._common("forget_workers", before=before)

    def paused_by(self, by: str) -> list[tuple[int, str, str]]:
        return self._common("paused_by", by=by)

    def set_paused_until(self, schedule_id: int, until: int | None) -> None:
        self._common("set_paused_until", id=schedule_id, until=until)

    def failures(self, schedule_id: int) -> int:
        return self._common("failures", id=schedule_id)[0][0]

    def forget_failures(self, schedule_id: int) -> None:
        self._common("forget_failures", id=schedule_id)

    def uncount(self, schedule_id: int, run_id: int) -> None:
        self._common("uncount", id=schedule_id, run_id=run_id)

    def forgive_attempt(self, run_id: int) -> None:
        self._common("forgive_attempt", run_id=run_id)

    # -- checks

    def insert_check(
        self,
        run_id: int,
        epoch: int,
        kind: str,
        at: int,
        duration_ms: int,
        exit_code: int | None,
        said: str,
        output: str,
    ) -> None:
        values = {"run_id": run_id, "epoch": epoch, "kind": kind, "at": at, "duration_ms": duration_ms}
        self._common("insert_check", exit_code=exit_code, said=said, output=output, **values)

    def checks(self, run_id: int) -> list[tuple[Any, ...]]:
        return self._common("checks", run_id=run_id)

    def last_started(self, schedule_id: int, run_id: int) -> int | None:
        rows = self._common("last_started", id=schedule_id, run_id=run_id)
        return rows[0][0] if rows else None

    # -- history

    def run_at(self, schedule_id: int, at: int) -> int | None:
        rows = self._common("run_at", id=schedule_id, at=at)
        return rows[0][0] if rows else None

    def run_before(self, schedule_id: int, at: int) -> int | None:
        rows = self._common("run_before", id=schedule_id, at=at)
        return rows[0][0] if rows else None

    def attempts(self, run_id: int) -> list[tuple[int, int, int]]:
        """(epoch, worker, started at)."""
        return self._common("attempts", run_id=run_id)

    def window_used(self, schedule_id: int) -> int:
        return self._common("window_used", id=schedule_id)[0][0]

    def purged_slot(self, schedule_id: int) -> int | None:
        return self._common("purged_slot", id=schedule_id)[0][0]

    def last_change(self, schedule_id: int, at: int) -> tuple[str, int, dict[str, Any]] | None:
        """(type, at, data) of the last event that stopped a schedule or let it continue."""
        rows = self._common("last_change", id=schedule_id, at=at)
        return (rows[0][0], rows[0][1], orjson.loads(rows[0][2] or "{}")) if rows else None

    def figures(self) -> Sequence[int | None]:
        return self._common("figures")[0]

    def recent_failures(self, since: int) -> int:
        return self._common("recent_failures", since=since)[0][0]
