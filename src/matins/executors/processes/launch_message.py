"""The message that hands a launch to a warden: one line, and unnamed files."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from matins.executors.processes.channel import close_all, encode
from matins.executors.processes.launch import Launch

_MAX_LINE_BYTES = 16_384


class LaunchMessage:
    """stdin is a file, so a command that does not read it blocks no writer. A long launch is a file too."""

    def __init__(self, key: str, launch: Launch, *, fsync: bool) -> None:
        self.files: list[int] = []
        self.walled = launch.layout is not None
        """Whether it needs a warden with walls."""
        document = _document(key, launch, fsync)
        self.line = encode({"start": document})
        try:
            if len(self.line) > _MAX_LINE_BYTES:
                self.line = encode({"start": None})
                self._add(encode(document))
            if launch.stdin:
                self._add(launch.stdin)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        close_all(self.files)

    def _add(self, data: bytes) -> None:
        self.files.append(_anonymous_file())
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.files[-1], rest) :]
        os.lseek(self.files[-1], 0, os.SEEK_SET)


def _anonymous_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("matins")
    file, path = tempfile.mkstemp()
    Path(path).unlink()
    return file


def _document(key: str, launch: Launch, fsync: bool) -> dict[str, Any]:
    return {
        "key": key,
        "argv": launch.argv,
        "env": dict(launch.env),
        "cwd": launch.cwd,
        "limits": launch.limits._asdict(),
        "secrets": [os.fsencode(secret).decode("latin-1") for secret in launch.secrets],
        "finals": launch.finals,
        "retries": launch.retries,
        "stdout_file": launch.stdout_file,
        "head_bytes": launch.head_bytes,
        "tail_bytes": launch.tail_bytes,
        "fsync": fsync,
        "layout": launch.layout,
        "account": launch.account,
        "attached": bool(launch.name),
    }
