"""Every error that Matins raises on purpose.

MatinsError
├── InvalidInput             an argument cannot be used; nothing was written
│   ├── TriggerError         an invalid *when*
│   │   ├── CronParseError
│   │   ├── IntervalParseError
│   │   ├── PhraseError      English
│   │   ├── RruleError
│   │   ├── InstantError     an invalid ISO instant, or a time that does not exist
│   │   └── TimezoneError
│   ├── NotFound             an unknown schedule, run or other record
│   ├── Conflict             a name that is in use, or a change that the state does not allow
│   │   ├── Stale            a record that was changed since it was read
│   │   └── ManagedByFile    a record that is managed by the file: change it there
│   ├── InvalidFile          an invalid configuration file: all its problems, with line and column
│   ├── NotAllowed           the principal lacks the right
│   │   ├── SignInAgain      the browser signed in too long ago for what is asked
│   │   └── SignInRefused    a link, a password or a provider's answer signs nobody in
│   └── TooManyTries         to sign in
├── StoreError               the database
│   ├── StoreVersionError    created by another version of Matins
│   ├── StoreCorrupt         damaged
│   ├── StoreBusy            owned by another engine
│   ├── StoreMoved           it moved to another store, or is a copy that is not in charge
│   ├── StoreUnavailable     no answer, or no disk space; may be retried
│   └── NetworkFilesystem    a network file system, where SQLite is not safe
├── JobError                 raised by a job, or about one
│   ├── OverBudget           the run spent more than it may
│   ├── RateLimited          the provider refuses requests for now; not a failure of the run
│   └── ScheduleTriggerError a triggered run failed
└── SchedulerShutdownError   jobs were still running when the shutdown timed out

The HTTP client (`matins.net`) adds AddressRefused, an InvalidInput, and Unreachable, a MatinsError.

Programs may match on `code`, which is stable; messages may change. Errors also have the invalid `value`, its `field`,
what is `allowed`, and a `hint`: what to do or type. A hint with settings is an `Example`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


MOVED = "Put it back. If you did not move it, an agent may have: look before you restart."
"""The hint on a file or directory that is no longer where this process found it."""


class Example(str):
    """A hint with settings, such as `For example: retries=2.` Each surface writes them in its own form."""

    settings: Mapping[str, Any]

    def __new__(cls, settings: Mapping[str, Any]) -> Example:
        import json  # most programs have no errors

        text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in settings.items())
        example = super().__new__(cls, f"For example: {text}.")
        example.settings = settings
        return example


class MatinsError(Exception):
    """The base class of all errors."""

    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"Hint: {hint}")  # for tracebacks


class InvalidInput(MatinsError):  # noqa: N818 - it names the input
    """An argument cannot be used; nothing was written."""

    code = "invalid_input"

    def __init__(
        self,
        message: str,
        *,
        value: object = None,
        field: str | None = None,
        allowed: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.value = value
        self.field = field
        self.allowed = allowed


class TriggerError(InvalidInput):
    """A *when* that cannot be parsed."""

    code = "trigger_invalid"


class CronParseError(TriggerError):
    code = "cron_invalid"
    expression: str | None = None
    """The whole expression as given, where the caller of `matins.seeds.herdctl` gave one."""


class IntervalParseError(TriggerError):
    code = "interval_invalid"


class PhraseError(TriggerError):
    code = "phrase_invalid"


class RruleError(TriggerError):
    code = "rrule_invalid"


class InstantError(TriggerError):
    code = "instant_invalid"


class TimezoneError(TriggerError):
    code = "timezone_invalid"


class NotFound(InvalidInput):
    code = "not_found"


class Conflict(InvalidInput):
    code = "conflict"


def name_taken(name: str) -> Conflict:
    """The error for a new schedule whose name another one has."""
    hint = "Edit it, delete it, or use another name."
    return Conflict(f'There is a schedule "{name}" already.', value=name, field="name", hint=hint)


class Stale(Conflict):
    """The record was changed since it was read. Read it again."""

    code = "stale"


class ManagedByFile(Conflict):
    """The record is managed by the file. Change it there."""

    code = "managed_by_file"


class InvalidFile(InvalidInput):
    """An invalid file. `problems` are the single errors, in the order of the file."""

    code = "file_invalid"
    problems: tuple[InvalidInput, ...] = ()


class NotAllowed(InvalidInput):
    code = "not_allowed"


class SignInAgain(NotAllowed):
    """The browser signed in too long ago for what is asked."""

    code = "sign_in_again"


class SignInRefused(NotAllowed):
    """A link, a password or a provider's answer that signs nobody in."""

    code = "sign_in_refused"


class TooManyTries(InvalidInput):
    """Too many tries to sign in."""

    code = "too_many_tries"


class StoreError(MatinsError):
    """An error of the database."""

    code = "store_error"
    retryable = False


class StoreVersionError(StoreError):
    code = "store_version"


class StoreCorrupt(StoreError):  # noqa: N818
    code = "store_corrupt"


class StoreBusy(StoreError):  # noqa: N818
    code = "store_busy"


class StoreMoved(StoreError):  # noqa: N818
    code = "store_moved"


class StoreUnavailable(StoreError):  # noqa: N818
    code = "store_unavailable"
    retryable = True


class NetworkFilesystem(StoreError):  # noqa: N818
    code = "network_filesystem"


class JobError(MatinsError):
    """An error of a job, or about one."""

    code = "job_error"


class OverBudget(JobError):  # noqa: N818 - it names what happened
    code = "over_budget"


class RateLimited(JobError):  # noqa: N818
    """Raised by a job when its provider refuses requests. All runs of that provider wait until `resets_at`.

    Without it, they wait for a minute, and longer each time that the run is refused again. `outage`: the provider has a
    problem of its own. If it lasts, the run fails.
    """

    code = "rate_limited"

    def __init__(
        self, provider: str, resets_at: datetime | None = None, reason: str = "rate limited", *, outage: bool = False
    ) -> None:
        super().__init__(f"{provider}: {reason}", hint="Matins retries the run when the limit resets.")
        self.provider = provider
        self.resets_at = resets_at
        self.reason = reason
        self.outage = outage


class ScheduleTriggerError(JobError):
    """A triggered run failed."""

    code = "trigger_failed"

    def __init__(self, agent_name: str, schedule_name: str, cause: str | None) -> None:
        super().__init__(
            f'Schedule "{schedule_name}" of agent "{agent_name}" failed: {(cause or "no reason given").rstrip(".")}.',
            hint=f"matins why {schedule_name}",
        )
        self.agent_name = agent_name
        self.schedule_name = schedule_name
        self.cause = cause


class SchedulerShutdownError(MatinsError):
    """Jobs were still running when the shutdown timed out."""

    code = "shutdown_timed_out"

    def __init__(self, timeout_ms: int, running_job_count: int) -> None:
        super().__init__(
            f"Scheduler shutdown timed out after {timeout_ms}ms with {running_job_count} job(s) still running",
            hint="Use a longer timeout, or make the jobs stop when they are cancelled.",
        )
        self.timed_out = True
        self.running_job_count = running_job_count


@contextmanager
def unwritable(path: Path) -> Generator[None]:
    """Translate what the system says about a file that cannot be written, as on a disk that is read-only or full."""
    try:
        yield
    except OSError as error:
        hint = f"Check the disk and the owner: df {path.parent}; ls -ld {path.parent}. Or name another place."
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}.", hint=hint) from error
