"""What a command writes: its beginning in a capped file, its end in a ring, both safe to read at any time."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable

from matins.executors.processes.redaction import Redactor

CHUNK = 65_536
OUT, ERR = ".out", ".err"
_RING = ".tail"
_HEADER = struct.Struct("<QQ")  # its room, and how many bytes have passed through it
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_CONTINUATION = bytes(range(0x80, 0xC0))


class Output:
    """The writing side. A full disk costs what does not fit; it never keeps the command waiting."""

    def __init__(self, runs: int, name: str, head_bytes: int, tail_bytes: int, secrets: Iterable[bytes]) -> None:
        self._runs = runs
        self._name = name
        self._head_left = head_bytes
        self._head: int | None = None
        self._ring = _Ring(runs, name + _RING, tail_bytes)
        self._redactor = Redactor(secrets)
        self.total_bytes = 0
        """Bytes that the command has written."""
        self.truncated = False

    def write(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        self._store(self._redactor.feed(chunk))

    def close(self) -> None:
        self._store(self._redactor.finish())
        self._ring.close()
        if self._head is not None:
            os.close(self._head)

    def _store(self, data: bytes) -> None:
        if not data:
            return
        kept = self._write_head(data[: self._head_left]) if self._head_left else 0
        if kept < len(data):
            self.truncated, self._head_left = True, 0
            self._ring.write(data[kept:])

    def _write_head(self, data: bytes) -> int:
        """How much of it there was room for."""
        try:
            if self._head is None:
                self._head = os.open(self._name, _CREATE, 0o600, dir_fd=self._runs)
            kept = os.write(self._head, data)
        except OSError:
            return 0
        self._head_left -= kept
        return kept


class _Ring:
    """The last bytes, in a file that is never larger. There is room for one chunk more than can be asked for."""

    def __init__(self, runs: int, name: str, tail_bytes: int) -> None:
        self._runs = runs
        self._name = name
        self._capacity = tail_bytes + CHUNK
        self._passed = 0
        self._file: int | None = None

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the disk is full; the next bytes may find room
            if self._file is None:
                self._file = os.open(self._name, _CREATE, 0o600, dir_fd=self._runs)
            for begin in range(0, len(data), CHUNK):
                self._write_chunk(self._file, data[begin : begin + CHUNK])

    def _write_chunk(self, file: int, data: bytes) -> None:
        at = self._passed % self._capacity
        first = data[: self._capacity - at]
        os.pwrite(file, first, _HEADER.size + at)
        os.pwrite(file, data[len(first) :], _HEADER.size)
        self._passed += len(data)
        os.pwrite(file, _HEADER.pack(self._capacity, self._passed), 0)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)


# -- the reading side


def read(path: str, offset: int, limit: int) -> bytes:
    """From the capped file; empty at its end. The last character may be cut."""
    file = _opened(path)
    if file is None:
        return b""
    try:
        return os.pread(file, limit, offset)
    finally:
        os.close(file)


def read_after(path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
    """What has come from an offset on, where that begins, and how much there is by now.

    It begins later than asked for where it lies between what the file and the ring keep.
    """
    ring, first, passed = _read_ring(path + _RING)
    head = _size(path)
    if offset < head:
        return read(path, offset, limit), offset, head + passed
    begin = max(offset - head, first)
    return ring[begin - first :][:limit], head + begin, head + passed


def tail(path: str, limit: int) -> bytes:
    """The last bytes, from the first whole character on."""
    ring, first, _ = _read_ring(path + _RING)
    last = ring[-limit:]
    if first == 0 and len(last) < limit:
        last = _end_of(path, limit - len(last)) + last
    return last if len(last) < limit else _from_whole_character(last)


def file_names(name: str) -> list[str]:
    """Of every file that there may be for a run."""
    return [name + suffix + ring for suffix in (OUT, ERR) for ring in ("", _RING)]


def _from_whole_character(data: bytes) -> bytes:
    return data[:3].lstrip(_CONTINUATION) + data[3:]


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _end_of(path: str, limit: int) -> bytes:
    file = _opened(path)
    if file is None:
        return b""
    try:
        return os.pread(file, limit, max(0, os.fstat(file).st_size - limit))
    finally:
        os.close(file)


def _read_ring(path: str) -> tuple[bytes, int, int]:
    """What is in it, where that begins, and how much has passed."""
    file = _opened(path)
    if file is None:
        return b"", 0, 0
    try:
        capacity, passed = _header(file)
        data = os.pread(file, capacity, _HEADER.size)
        _, passed_since = _header(file)
    finally:
        os.close(file)
    if capacity == 0:  # it has just been made
        return b"", 0, 0
    first = max(0, passed_since + CHUNK - capacity)  # somebody may be writing a chunk that is not told yet
    turned = data[first % capacity :] + data[: first % capacity] if first else data
    return turned[: max(0, passed - first)], first, max(passed, first)


def _header(file: int) -> tuple[int, int]:
    header = os.pread(file, _HEADER.size, 0)
    return _HEADER.unpack(header) if len(header) == _HEADER.size else (0, 0)


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
