"""Detection of wall clock changes."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["steady", "back", "wait"]
MAX_STEP_BACK_MS = 1_000
_MAX_STEP_FORWARD_MS = 3_600_000


class ClockWatch:
    """Compares wall time with boot time. After a step back, schedules are planned again. A leap forward is accepted if
    the second reading confirms it."""

    def __init__(self, now: int, boot: int) -> None:
        self._offset = now - boot
        self._unconfirmed: int | None = None

    def check(self, now: int, boot: int) -> Verdict:
        step = (now - boot) - self._offset
        if step > _MAX_STEP_FORWARD_MS and not self._confirmed(now - boot):
            self._unconfirmed = now - boot
            return "wait"
        taken_back = (
            self._unconfirmed is not None and step <= _MAX_STEP_FORWARD_MS
        )  # records may have been written with that time meanwhile
        self._unconfirmed = None
        self._offset = now - boot
        return "back" if step < -MAX_STEP_BACK_MS or taken_back else "steady"

    def _confirmed(self, offset: int) -> bool:
        return self._unconfirmed is not None and abs(offset - self._unconfirmed) <= MAX_STEP_BACK_MS
