"""A walk without aim over everything that can happen to schedules that need leave."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from security_cast import ADA, BOB, CYN, OWNER, SCOUT, Watched

from matins.api.results import Approval, Run
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput

MINUTE = 60_000
_PLACE = 999_999
HOURLY = {"when": "5 * * * *", "job": "work", "approval": "owner_approve", "approval_timeout": "45m"}
COUNCIL = {"approval": "council_approve", "approvers": ["ada", "bob", "cyn"], "approvals_required": 2}
NAMES = ("asked", "council", "silent", "proposed", "often")
VOTERS = (OWNER, ADA, BOB, CYN, SCOUT)


class Walk:
    """Each step is one thing that somebody does, or time that passes. What is refused is refused, and that is all: any
    other error, and any start that the bench's watch does not allow, ends the walk."""

    def __init__(self, seed: int, bench: Watched, again: Callable[[], Watched] | None) -> None:
        self._random = random.Random(seed)
        self.bench = bench
        self._again = again
        """Opens the store anew, as after a crash."""
        self.journal: list[str] = [f"seed {seed}"]
        self.done: Counter[str] = Counter()
        self.started = 0
        bench.limits.set("global", size=2)
        bench.quiet_hours.set("noon", windows=["12:00-12:30"], mode="defer")
        bench.add("asked", **HOURLY)
        bench.add("council", **{**HOURLY, **COUNCIL}, quiet_hours="noon")
        bench.add("silent", **HOURLY, approval_default="approve", retries=2)
        bench.add("often", **{**HOURLY, "when": "every 10m"}, overlap="queue", pre_check="true")
        bench.acting_as(SCOUT).add("proposed", **HOURLY)

    def step(self) -> None:
        acts = [self._tick, self._tick, self._tick, self._vote, self._vote, self._vote, self._edit, self._pause]
        acts += [self._resume, self._cancel, self._run, self._fill, self._clear, self._restart, self._long_while]
        acts += [self._replay]
        act = self._random.choice(acts)
        self.journal.append(act.__name__)
        try:
            act()
            self.done[act.__name__] += 1
        except InvalidInput as error:
            self.journal.append(f"  refused: {error.message}")
            self.done[type(error).__name__] += 1
        self._look()

    def end(self) -> None:
        """People answer all that is asked, and in the end everything is over."""
        self._clear()
        for name in NAMES:
            if self.bench.get(name).state == "paused":
                self.bench.resume(name)
        for _ in range(3):
            for asked in self.bench.approvals.list():
                for voter in (OWNER,) if not asked.approvers else (BOB, CYN):
                    if self.bench.approval(asked.id).state == "pending":
                        self.bench.acting_as(voter).approvals.approve(asked.id)
            self.bench.settle()
        stuck = [run for name in NAMES for run in self._live(name) if run.state in ("waiting", "queued", "ready")]
        waiting = [run for run in stuck if run.status not in ("queued", "awaiting_approval", "ready", "quiet_hours")]
        assert waiting == [], waiting
        live = [run.id for name in NAMES for run in self._live(name)]
        for name in NAMES:
            self.bench.delete(name)
        self.bench.settle()
        assert [run for run in map(self.bench.runs.get, live) if run.live] == []
        assert self.bench.approvals.list() == []
        assert self.bench.audit.verify().problems == []

    # -- what happens

    def _tick(self) -> None:
        self.bench.run_until(self.bench.clock.now_ms() + self._random.randrange(1, 25) * MINUTE)

    def _long_while(self) -> None:
        self.bench.run_until(self.bench.clock.now_ms() + 50 * MINUTE)

    def _vote(self) -> None:
        asked = self._random.choice(self.bench.approvals.list() or [None])
        if asked is None:
            return
        able = (OWNER,) if not asked.approvers else (ADA, BOB, CYN)
        acting = self.bench.acting_as(self._random.choice(able if self._random.random() < 0.7 else VOTERS))
        if self._random.random() < 0.2:
            acting.approvals.deny(asked.id)
        elif self._random.random() < 0.2:
            acting.approvals.approve(asked.id, edits={"payload": self._random.random()})
        else:
            acting.approvals.approve(asked.id, digest=self._random.choice([None, asked.digest]))

    def _replay(self) -> None:
        spent = [
            a
            for state in ("used", "approved", "denied", "expired", "void")
            for a in self.bench.approvals.list(state=state)
        ]
        if spent:
            again = self._random.choice(spent)
            self.bench.acting_as(self._random.choice(VOTERS)).approvals.approve(again.id)
            raise AssertionError(f"an answer was taken to {again}")

    def _edit(self) -> None:
        changes: list[dict[str, Any]] = [
            {"payload": self._random.random()},
            {"job": self._random.choice(["work", "deploy", "send_message"])},
            {"when": self._random.choice(["5 * * * *", "*/20 * * * *", "every 10m"])},
            {"approval_timeout": self._random.choice(["15m", "45m", "2h"])},
            {"approval": self._random.choice(["auto", "owner_approve"])},
        ]
        who, name = self._random.choice([OWNER, OWNER, ADA, SCOUT, SCOUT]), self._random.choice(NAMES)
        if who is SCOUT:
            name = "proposed"
        self.bench.acting_as(who).edit(name, **self._random.choice(changes))

    def _pause(self) -> None:
        self.bench.acting_as(self._random.choice([OWNER, ADA, SCOUT])).pause(self._random.choice(NAMES))

    def _resume(self) -> None:
        self.bench.acting_as(self._random.choice([OWNER, ADA, SCOUT])).resume(self._random.choice(NAMES))

    def _cancel(self) -> None:
        live = self._live(self._random.choice(NAMES))
        if live:
            self.bench.runs.cancel(self._random.choice(live).id)

    def _run(self) -> None:
        self.bench.acting_as(self._random.choice([OWNER, ADA, SCOUT])).run(self._random.choice(NAMES))

    def _fill(self) -> None:
        """No place is free: what has leave must wait, and much can happen meanwhile."""
        self.bench.limits.set("global", size=1)
        with self.bench._store.transaction(self.bench.clock.now_ms()) as transaction:
            transaction.take_permits("global", [_PLACE])

    def _clear(self) -> None:
        with self.bench._store.transaction(self.bench.clock.now_ms()) as transaction:
            transaction.release_permits([_PLACE])
        self.bench.settle()

    def _restart(self) -> None:
        if self._again is not None:
            self.started += len(self.bench.ran)
            self.bench = self._again()

    # -- what must hold

    def _live(self, name: str) -> list[Run]:
        return [run for run in self.bench.runs.list(schedule=name, limit=1_000) if run.live]

    def _look(self) -> None:
        open_ones = self.bench.approvals.list(limit=1_000)
        assert len({a.run_id for a in open_ones if a.kind == "run"}) == sum(a.kind == "run" for a in open_ones)
        for asked in open_ones:
            if asked.kind == "run":
                self._look_at(asked)

    def _look_at(self, asked: Approval) -> None:
        """A question that is open is about a run that waits for it, under the words that it would run by."""
        assert asked.run_id is not None
        run = self.bench.runs.get(asked.run_id)
        assert run.state == "waiting", (asked, run)
        assert run.rev == asked.rev, (asked, run)
        assert to_ms(asked.expires_at) > self.bench.clock.now_ms(), asked
