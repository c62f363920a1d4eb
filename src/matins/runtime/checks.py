"""Gates outside the transaction: a guard, a pre-check, a hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

from matins.engine.policies import Policies
from matins.engine.prompts import WorkItem
from matins.model.schedule import CommandLine
from matins.runtime.catalog import CompiledSchedule

CheckKind = Literal["guard", "pre_check", "hook", "file_hook", "work_item"]
CheckVerdict = Literal["pass", "skip", "block", "changed", "again"]
"""`changed`: a file of the command is no longer the one that a person set or approved; the command did not run.
`again`: the source of work items did not answer; it is asked again at the deadline of the check."""

CLAIM_MS = 60_000
"""How long a source of work items may take."""


class CheckCommand(NamedTuple):
    """A command of a check, and its time limit."""

    kind: CheckKind
    command: CommandLine
    timeout_ms: int


class ItemClaim(NamedTuple):
    """A work item to claim for a request: a person decides about it."""

    run_key: str
    former: str | None
    """The work source of the item that an earlier request of the run showed."""
    changed: tuple[str, ...] = ()
    """The files for which approval is requested."""


class Check(NamedTuple):
    """A run to check, and the input of its checks."""

    run_id: int
    epoch: int
    slot: int | None
    compiled: CompiledSchedule
    policies: Policies
    commands: tuple[CheckCommand, ...]
    context: dict[str, Any]
    last_run: int | None
    files: Mapping[str, str] = {}
    """The digests of the files that its commands run, as they were when the check was queued."""

    claim: ItemClaim | None = None
    """With one, nothing is checked: the run gets its work item, and then waits for a person."""

    @property
    def max_duration_ms(self) -> int:
        return CLAIM_MS if self.claim else sum(command.timeout_ms for command in self.commands)


class CheckResult(NamedTuple):
    """The verdict of one check."""

    kind: CheckKind
    verdict: CheckVerdict
    reason: str | None
    duration_ms: int = 0
    exit_code: int | None = None
    output: str = ""


class CheckedRun(NamedTuple):
    """The verdicts on a run. All pass, or the last one does not."""

    check: Check
    results: tuple[CheckResult, ...]
    item: WorkItem | None = None
    """The claimed work item; None if the schedule has no source."""

    @property
    def refusal(self) -> CheckResult | None:
        return next((result for result in self.results if result.verdict != "pass"), None)


class Checks(Protocol):
    guarded: bool
    """Whether there is a guard that every run must pass."""

    def submit(self, batch: list[Check]) -> None:
        """Start these checks, without blocking. Several run at once."""
        ...

    def drain(self) -> list[CheckedRun]: ...
    def capacity(self) -> int:
        """How many more checks can start now."""
        ...

    def stop(self) -> None: ...


class NoChecks:
    """No capacity for checks: runs that need one stay ready."""

    guarded = False

    def submit(self, batch: list[Check]) -> None:
        raise AssertionError("There is no capacity for checks.")

    def drain(self) -> list[CheckedRun]:
        return []

    def capacity(self) -> int:
        return 0

    def stop(self) -> None:
        """Do nothing."""
