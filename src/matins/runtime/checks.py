"""Gates that leave the transaction: somebody's guard, a pre-check, a hook."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

from matins.model.schedule import Command
from matins.runtime.catalog import Known

CheckKind = Literal["guard", "pre_check", "hook", "file_hook"]
Saying = Literal["pass", "skip", "block"]


class CheckCommand(NamedTuple):
    """A command to run for a check, and how long it may take."""

    kind: CheckKind
    command: Command
    limit_ms: int


class Check(NamedTuple):
    """A run that shall be checked, and what is told to those who check it."""

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
    """What one of them said."""

    kind: CheckKind
    saying: Saying
    reason: str | None
    took_ms: int = 0
    exit_code: int | None = None
    output: str = ""


class Checked(NamedTuple):
    """All passed, or the last one did not."""

    check: Check
    said: tuple[Said, ...]

    @property
    def against(self) -> Said | None:
        return next((said for said in self.said if said.saying != "pass"), None)


class Checks(Protocol):
    guarded: bool
    """Whether there is a guard that every run must pass."""

    def submit(self, batch: list[Check]) -> None:
        """Take these; never blocks. Several are under way at once."""
        ...

    def drain(self) -> list[Checked]: ...
    def room(self) -> int:
        """How many more it would take now."""
        ...

    def stop(self) -> None: ...


class NoChecks:
    """Where nothing can be checked: what needs it stays ready."""

    guarded = False

    def submit(self, batch: list[Check]) -> None:
        raise AssertionError("there is no room")

    def drain(self) -> list[Checked]:
        return []

    def room(self) -> int:
        return 0

    def stop(self) -> None:
        """There is nothing to stop."""
