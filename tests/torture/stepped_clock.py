"""A clock that is set wrong."""

from __future__ import annotations

import os
from pathlib import Path

from matins.runtime.clock import SystemClock


class SteppedClock(SystemClock):
    """The system's clock, moved by what stands in a file."""

    def __init__(self, offset: Path) -> None:
        self._file = os.open(offset, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def now_ms(self) -> int:
        return super().now_ms() + int(os.pread(self._file, 32, 0) or b"0")
