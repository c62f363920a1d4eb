"""The output of a command: its head in a capped file, its tail in a ring. Both can be read at any time."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable

from matins.executors.processes.redaction import Redactor

CHUNK = 65_536
OUT, ERR = ".out", ".err"
_RING = ".tail"
_HEADER = struct.Struct("<QQ")  # capacity, and number of bytes written
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_CONTINUATION = bytes(range(0x80, 0xC0))


class Output:
    """The writing side. A full disk loses output, but never blocks the command."""

    def __init__(self, runs: int, name: str, head_bytes: int, tail_bytes: int, secrets: Iterable[bytes]) -> None:
        self._runs = runs
        self._name = name
        self._head_left = head_bytes
        self._head: int | None = None
        self._ring = _Ring(runs, name + _RING, tail_bytes)
        self._redactor = Redactor(secrets)
        self.total_bytes = 0
        """Bytes that the command wrote."""
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
        """Number of bytes that fit."""
        try:
            if self._head is None:
                self._head = os.open(self._name, _CREATE, 0o600, dir_fd=self._runs)
            kept = os.write(self._head, data)
        except OSError:
            return 0
        self._head_left -= kept
        return kept


class _Ring:
    """The last bytes, in a file of fixed size. The capacity is one chunk more than readers may request."""

    def __init__(self, runs: int, name: str, tail_bytes: int) -> None:
        self._runs = runs
        self._name = name
        self._capacity = tail_bytes + CHUNK
        self._passed = 0
        self._file: int | None = None

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the disk is full; later bytes may fit
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
    """Bytes of the capped file; empty at its end. The last character may be cut."""
    file = _opened(path)
    if file is None:
        return b""
    try:
        return os.pread(file, limit, offset)
    finally:
        os.close(file)


def read_after(path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
    """The output from an offset on, where it begins, and the total so far.

    It begins later than requested when the offset is in the gap between file and ring.
    """
    ring, first, passed = _read_ring(path + _RING)
    head = _size(path)
    if offset < head:
        return read(path, offset, limit), offset, head + passed
    begin = max(offset - head, first)
    return ring[begin - first :][:limit], head + begin, head + passed


def tail(path: str, limit: int) -> bytes:
    """The last bytes, from the first complete character on."""
    ring, first, _ = _read_ring(path + _RING)
    last = ring[-limit:]
    if first == 0 and len(last) < limit:
        last = _end_of(path, limit - len(last)) + last
    return last if len(last) < limit else _from_whole_character(last)


def stored_bytes(path: str) -> tuple[int, bool]:
    """How many bytes were written to a stream, and whether the file does not hold all of them."""
    _, _, passed = _read_ring(path + _RING)
    return _size(path) + passed, passed > 0


def file_names(name: str) -> list[str]:
    """The names of all files that a run may have."""
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
    """The content, where it begins, and the number of bytes written."""
    file = _opened(path)
    if file is None:
        return b"", 0, 0
    try:
        capacity, passed = _header(file)
        data = os.pread(file, capacity, _HEADER.size)
        _, passed_since = _header(file)
    finally:
        os.close(file)
    if capacity == 0:  # the file was just created
        return b"", 0, 0
    first = max(0, passed_since + CHUNK - capacity)  # a chunk may be being written that is not counted yet
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
