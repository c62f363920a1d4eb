"""The stdout of a command that leaves before its pipe is read, and loses the rest: a file in memory loses nothing."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from pathlib import Path

_FREE_BYTES = 1 << 20
_KEEP_SIZE_AND_PUNCH_HOLE = 3


class OutputFile:
    """A file that the command appends to, and that is read from its beginning. What was read takes no memory."""

    def __init__(self) -> None:
        self._file, self.writing_end = _memory_file() if sys.platform == "linux" else _unnamed_file()
        self._offset = self._freed = 0

    def read(self, limit: int) -> bytes:
        """The next bytes; empty when there are none yet."""
        chunk = os.pread(self._file, limit, self._offset)
        self._offset += len(chunk)
        if self._offset - self._freed >= _FREE_BYTES:
            self._free()
        return chunk

    def skip_to_last(self, count: int) -> int:
        """Continue with the last bytes, and return how many are left out."""
        skipped = max(0, os.fstat(self._file).st_size - count - self._offset)
        self._offset += skipped
        return skipped

    def close(self) -> None:
        os.close(self._file)

    def _free(self) -> None:
        if sys.platform == "linux":
            libc = ctypes.CDLL(None)
            offset, length = ctypes.c_int64(self._freed), ctypes.c_int64(self._offset - self._freed)
            libc.fallocate(self._file, _KEEP_SIZE_AND_PUNCH_HOLE, offset, length)  # a failure only costs memory
        self._freed = self._offset


def _memory_file() -> tuple[int, int]:
    file = os.memfd_create("stdout")
    # Descriptors of their own in children must not begin at the beginning again.
    return file, os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


def _unnamed_file() -> tuple[int, int]:
    file, path = tempfile.mkstemp()
    writing_end = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    Path(path).unlink()
    return file, writing_end
