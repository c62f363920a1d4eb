"""The rules for supervisors that do not answer: when one is asked, continued and replaced. Pure: it gets the time."""

from __future__ import annotations

from typing import NamedTuple

from matins.executors.processes.launch import EndedBy
from matins.executors.processes.process_tree import BUDGET_GRACE_MS


class Watching(NamedTuple):
    """The three layers that keep a run from stopping its supervisor, and the times of the third."""

    prevent: bool = True
    """Whether an isolated command cannot signal its warden. It needs Landlock 6."""
    max_stops: int | None = 3
    """How often the keeper continues a stopped warden in one run; then it ends the run. None: it does neither."""
    take_over: bool = True
    """Whether the engine continues and replaces wardens and keepers that do not answer."""
    turn_ms: int = 1_000
    """How often the watching thread looks at every supervisor."""
    heartbeat_ms: int = 5_000
    """How long after an answer the next heartbeat is sent."""
    continue_ms: int = 10_000
    """The silence after which a warden is continued, again each time as long."""
    stopped_ms: int = 30_000
    """The silence after which the run of a stopped warden is ended."""
    silent_ms: int = 300_000
    """Likewise for a warden that is not stopped: a slow disk is no attack."""
    late_ms: int = 3_000
    """How long after its last moment, timeout and grace included, a run is ended from here."""
    keeper_continue_ms: int = 10_000
    """The silence after which a keeper is continued, again each time as long."""
    keeper_stopped_ms: int = 30_000
    """The silence after which a keeper is replaced: wardens go on without."""


WATCHING = Watching()


class SeenTime:
    """The time that passed while the watching thread was awake. After a suspend, or when the thread is late, the
    supervisors had no time to answer either, so a longer step counts as two turns."""

    def __init__(self, now: int, turn_ms: int) -> None:
        self.at = 0
        self._last = now
        self._max_step_ms = 2 * turn_ms

    def advance(self, now: int) -> int:
        self.at += max(0, min(now - self._last, self._max_step_ms))
        self._last = now
        return self.at


class Silence:
    """How long a supervisor has not answered a heartbeat. All times are seen time."""

    __slots__ = ("_asked_at", "_continued_at", "_heard_at")

    def __init__(self, at: int, *, asked: bool = False) -> None:
        """`asked`: an answer is due already."""
        self._heard_at = at
        self._asked_at = at if asked else None
        self._continued_at: int | None = None

    def is_due(self, at: int, every_ms: int) -> bool:
        """Whether the next heartbeat is to be sent."""
        return self._asked_at is None and at - self._heard_at >= every_ms

    def ask(self, at: int) -> None:
        if self._asked_at is None:
            self._asked_at = at

    def hear(self, at: int) -> None:
        self._asked_at, self._heard_at, self._continued_at = None, at, None

    def lasts(self, at: int) -> int:
        return 0 if self._asked_at is None else at - self._asked_at

    def is_to_be_continued(self, at: int, after_ms: int) -> bool:
        """Whether the process is to be continued now: it may have been stopped again since the last time."""
        last = self._asked_at if self._continued_at is None else self._continued_at
        return last is not None and at - last >= after_ms

    def note_continued(self, at: int) -> None:
        self._continued_at = at


class Deadline:
    """The last moment of a run, and the reason for which it must be over then."""

    __slots__ = ("_over_at", "grace_ms", "reason", "timeout_at")

    def __init__(self, grace_ms: int) -> None:
        self.grace_ms = grace_ms
        self.timeout_at: int | None = None
        """When the run times out, in boot time: an estimate, until the warden sends its own with each heartbeat."""
        self.reason: EndedBy | None = None
        self._over_at: int | None = None
        """When a late run was seen, in seen time: after a suspend, the warden has the whole grace to end it."""

    def require(self, reason: EndedBy, at: int) -> None:
        """The run must end now, within its grace."""
        grace_ms = min(self.grace_ms, BUDGET_GRACE_MS) if reason == "budget" else self.grace_ms
        if self._over_at is None or at + grace_ms < self._over_at:
            self.reason, self._over_at = self.reason or reason, at + grace_ms

    def missed_by(self, now: int, at: int) -> int:
        """Milliseconds since the last moment; negative before it."""
        if self._over_at is None and self.timeout_at is not None and now >= self.timeout_at:
            self.require("timeout", at)
        return -1 if self._over_at is None else at - self._over_at
