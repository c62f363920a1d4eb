"""Gates outside the transaction: a guard, a pre-check, a hook."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

from matins.model.schedule import CommandLine
from matins.runtime.catalog import Known

CheckKind = Literal["guard", "pre_check", "hook", "file_hook"]
Saying = Literal["pass", "skip", "block"]


class CheckCommand(NamedTuple):
    """A command of a check, and its time limit."""

    kind: CheckKind
    command: CommandLine
    limit_ms: int


class Check(NamedTuple):
    """A run to check, and the input of its checks."""

    run_id: int
    epoch: int
    slot: int | None
    known: Known
    commands: tuple[CheckCommand, ...]
    context: dict[str, Any]
    last_run: int | None

    @property
    def longest_ms(self) -> int:
        return sum(command.limit_ms for command in self.commands)


class Said(NamedTuple):
    """The verdict of one check."""

    kind: CheckKind
    saying: Saying
    reason: str | None
    duration_ms: int = 0
    exit_code: int | None = None
    output: str = ""


class Checked(NamedTuple):
    """The verdicts on a run. All pass, or the last one does not."""

    check: Check
    said: tuple[Said, ...]

    @property
    def against(self) -> Said | None:
        return next((said for said in self.said if said.saying != "pass"), None)


class Checks(Protocol):
    guarded: bool
    """Whether there is a guard that every run must pass."""

    def submit(self, batch: list[Check]) -> None:
        """Start these checks, without blocking. Several run at once."""
        ...

    def drain(self) -> list[Checked]: ...
    def room(self) -> int:
        """How many more checks can start now."""
        ...

    def stop(self) -> None: ...


class NoChecks:
    """No capacity for checks: runs that need one stay ready."""

    guarded = False

    def submit(self, batch: list[Check]) -> None:
        raise AssertionError("There is no capacity for checks.")

    def drain(self) -> list[Checked]:
        return []

    def room(self) -> int:
        return 0

    def stop(self) -> None:
        """Do nothing."""
