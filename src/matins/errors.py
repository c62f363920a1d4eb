"""Every error that Matins raises on purpose.

MatinsError
└── InvalidInput             something given cannot be used: nothing was written
    └── TriggerError         a text or definition of *when*
        ├── CronParseError
        ├── IntervalParseError
        ├── PhraseError      English
        ├── RruleError
        ├── InstantError     an ISO instant, or one that does not exist
        └── TimezoneError

`code` is stable and may be matched on; the sentence may change. Errors carry data, not only words:
the offending `value`, the `field` it stands in, what is `allowed`, and a `hint` that says how to mend it.
"""

from __future__ import annotations


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
