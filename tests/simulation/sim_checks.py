"""Guards, pre-checks and hooks of the simulation: they take virtual time, and say yes or no."""

from __future__ import annotations

from random import Random

from sim_faults import Faults

from matins.runtime.checks import Check, CheckedRun, CheckKind, CheckResult, CheckVerdict
from matins.testing import ManualClock

_AT_ONCE = 2
_TAKES_MS = (0, 0, 400, 2_000, 9_000, 45_000)
"""The longest is told when others have taken the check over."""


class SimulatedChecks:
    """What is under way in a process that dies is never told."""

    def __init__(self, clock: ManualClock, rng: Random, faults: Faults, *, guarded: bool) -> None:
        self._clock = clock
        self._rng = rng
        self._faults = faults
        self.guarded = guarded
        self._under_way: list[tuple[int, CheckedRun]] = []
        self.calm = False

    def submit(self, batch: list[Check]) -> None:
        for check in batch:
            takes = self._rng.choice(_TAKES_MS)
            self._under_way.append((self._clock.boot_ms() + takes, self._judged(check)))

    def drain(self) -> list[CheckedRun]:
        boot = self._clock.boot_ms()
        done = [checked for told_at, checked in self._under_way if self.calm or told_at <= boot]
        self._under_way = [] if self.calm else [item for item in self._under_way if item[0] > boot]
        return done

    def capacity(self) -> int:
        return _AT_ONCE - len(self._under_way)

    def stop(self) -> None: ...

    def _judged(self, check: Check) -> CheckedRun:
        """One after the other, until one is against it."""
        kinds: list[CheckKind] = ["guard"] if self.guarded else []
        kinds += [command.kind for command in check.commands]
        said: list[CheckResult] = []
        for kind in kinds:
            saying = self._saying()
            said.append(CheckResult(kind, saying, None if saying == "pass" else f"{kind} says {saying}"))
            if saying != "pass":
                self._faults.injected["check_says_no"] += 1
                break
        return CheckedRun(check, tuple(said))

    def _saying(self) -> CheckVerdict:
        chance = 1.0 if self.calm else self._rng.random()
        return "skip" if chance < 0.1 else "block" if chance < 0.15 else "pass"
