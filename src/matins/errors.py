"""Every error that Matins raises on purpose.

MatinsError
├── InvalidInput             something given cannot be used: nothing was written
│   ├── TriggerError         a text or definition of *when*
│   │   ├── CronParseError
│   │   ├── IntervalParseError
│   │   ├── PhraseError      English
│   │   ├── RruleError
│   │   ├── InstantError     an ISO instant, or one that does not exist
│   │   └── TimezoneError
│   ├── NotFound             no such schedule or run
│   ├── Conflict             a name that is taken, or a change that does not fit the state
│   │   ├── Stale            it was changed since it was read
│   │   └── BelongsToFile    a file defines it: change it there
│   ├── FileInvalid          a file that people wrote: all that is wrong with it, each with its place
│   └── NotAllowed           who asks may not do this
├── StoreError               the database
│   ├── StoreVersionError    made by another version of Matins
│   ├── StoreCorrupt         it cannot be read
│   ├── StoreBusy            another engine owns it
│   ├── StoreUnavailable     it does not answer, or has no room: try again
│   └── NetworkFilesystem    SQLite is not safe there
├── JobError                 raised in or by a job
│   ├── OverBudget           it has spent what one run may
│   ├── ProviderLimited      its provider does not serve it for now: not its failure
│   └── ScheduleTriggerError a run failed: of which schedule, and whose
└── SchedulerShutdownError   jobs were still running when the time to stop was up

The door to other machines (`matins.net`) adds AddressRefused, an InvalidInput, and Unreachable, a MatinsError.

`code` is stable and may be matched on; the sentence may change. Errors carry data, not only words:
the offending `value`, the `field` it stands in, what is `allowed`, and a `hint` that says how to mend it.
"""

from __future__ import annotations

from datetime import datetime


class MatinsError(Exception):
    """The root of the tree."""

    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInput(MatinsError):  # noqa: N818 - it names what was given, not a fault of ours
    """Something given cannot be used; nothing was written."""

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
    """A text or definition that says when, and cannot be understood."""

    code = "trigger_invalid"


class CronParseError(TriggerError):
    code = "cron_invalid"


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


class Stale(Conflict):
    """Somebody changed it since it was read: read it again."""

    code = "stale"


class BelongsToFile(Conflict):
    """A file defines it, and would define it again: it is changed there."""

    code = "belongs_to_file"


class FileInvalid(InvalidInput):
    """`problems` are the single errors, in the order in which they stand in the file."""

    code = "file_invalid"
    problems: tuple[InvalidInput, ...] = ()


class NotAllowed(InvalidInput):
    code = "not_allowed"


class StoreError(MatinsError):
    """The database."""

    code = "store_error"
    retryable = False


class StoreVersionError(StoreError):
    code = "store_version"


class StoreCorrupt(StoreError):  # noqa: N818
    code = "store_corrupt"


class StoreBusy(StoreError):  # noqa: N818
    code = "store_busy"


class StoreUnavailable(StoreError):  # noqa: N818
    code = "store_unavailable"
    retryable = True


class NetworkFilesystem(StoreError):  # noqa: N818
    code = "network_filesystem"


class JobError(MatinsError):
    """Raised in or by a job."""

    code = "job_error"


class OverBudget(JobError):  # noqa: N818 - it names what happened
    code = "over_budget"


class ProviderLimited(JobError):  # noqa: N818
    """For a job to raise when its provider refuses: the run, and all of that provider, wait until `resets_at`."""

    code = "provider_limited"

    def __init__(self, provider: str, resets_at: datetime | None = None, reason: str = "rate limited") -> None:
        super().__init__(f"{provider}: {reason}", hint="it goes on by itself when the provider serves again")
        self.provider = provider
        self.resets_at = resets_at
        self.reason = reason


class ScheduleTriggerError(JobError):
    """A run that was triggered has failed."""

    code = "trigger_failed"

    def __init__(self, agent_name: str, schedule_name: str, cause: str | None) -> None:
        super().__init__(
            f'Schedule "{schedule_name}" of agent "{agent_name}" failed: {cause or "it did not say why"}',
            hint=f"matins why {schedule_name}",
        )
        self.agent_name = agent_name
        self.schedule_name = schedule_name
        self.cause = cause


class SchedulerShutdownError(MatinsError):
    """Jobs were still running when the time to stop was up."""

    code = "shutdown_timed_out"

    def __init__(self, timeout_ms: int, running_job_count: int) -> None:
        super().__init__(
            f"Scheduler shutdown timed out after {timeout_ms}ms with {running_job_count} job(s) still running",
            hint="give it more time, or let the jobs honour their limits",
        )
        self.timed_out = True
        self.running_job_count = running_job_count
