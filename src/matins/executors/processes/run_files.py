"""The stored output of runs, during a run and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from matins.executors.processes import output
from matins.executors.processes.launch import HEAD_BYTES, TAIL_BYTES
from matins.executors.processes.run_folder import RunFolder


class RunFiles:
    def __init__(self, run_folder: RunFolder, name: Callable[[int, int], str]) -> None:
        self._run_folder = run_folder
        self._name = name
        """Of the files of a run, by run and epoch."""

    @property
    def folder(self) -> str:
        return self._run_folder.path

    def open_output(self, run_id: int, epoch: int, secrets: Iterable[str]) -> output.Output:
        """The stored stdout of a run without a process."""
        needles = [secret.encode() for secret in secrets]
        return output.Output(
            self._run_folder.runs_fd, self._name(run_id, epoch) + output.OUT, HEAD_BYTES, TAIL_BYTES, needles
        )

    def tail(self, run_id: int, epoch: int, *, stream: str = output.OUT, limit: int = TAIL_BYTES) -> bytes:
        """The last bytes of stdout."""
        return output.tail(self._path(run_id, epoch, stream), limit)

    def read(self, run_id: int, epoch: int, offset: int, limit: int, *, stream: str = output.OUT) -> bytes:
        """The first bytes, from the capped file, as they arrive. A character may be cut at both ends."""
        return output.read(self._path(run_id, epoch, stream), offset, limit)

    def read_after(self, run_id: int, epoch: int, offset: int, limit: int) -> tuple[bytes, int, int]:
        """stdout from an offset on, where it begins, and the total. Beyond the capped file, the ring is read."""
        return output.read_after(self._path(run_id, epoch, output.OUT), offset, limit)

    def delete(self, run_id: int, epoch: int) -> None:
        """Delete the files of a run that will not be started or read again."""
        self.delete_named(self._name(run_id, epoch))

    def delete_named(self, key: str) -> None:
        for name in (key, *output.file_names(key)):
            Path(self._run_folder.run_path(name)).unlink(missing_ok=True)

    def _path(self, run_id: int, epoch: int, stream: str) -> str:
        return self._run_folder.run_path(self._name(run_id, epoch) + stream)
