"""Output: bounded, redacted, matched line by line.

The output of a command: its head in a capped file, its tail in a ring. Both can be read at any time.

The stdout of a command that leaves before its pipe is read, and loses the rest: a file in memory loses nothing.

Redacts secrets in a stream, also across chunks, in every spelling of JSON, and across indentation.

Lines of a tool's output that a warden must recognise while nobody else reads them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

MARK = b"[redacted]"
_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_MAX_BREAK_BYTES, _MAX_ESCAPE_BYTES = 140, 12


class Redactor:
    """Redacts a stream. Holds back only what may be the start of a secret."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = [_Secret(secret) for secret in secrets if secret.strip(b"\r\n")]
        self._held = b""
        self._covered = 0
        """Number of held bytes that end a secret whose start is already written."""
        self._marked = False
        """Whether the last output was a mark, for a secret that may continue."""

    def feed(self, chunk: bytes) -> bytes:
        if not self._secrets:
            return chunk
        data = self._held + chunk
        # The longest suffix that may be the start of a secret is held.
        return self._release(data, len(data) - max(secret.open_end(data) for secret in self._secrets))

    def finish(self) -> bytes:
        return self._release(self._held, len(self._held))

    def _release(self, data: bytes, until: int) -> bytes:
        if not until:  # everything is held, also what is covered
            self._held = data
            return b""
        spans = _merged([(0, self._covered), *self._matches(data)])
        out = b"".join(self._pieces(data, spans, until))
        self._held = data[until:]
        self._covered = max((end - until for start, end in spans if start < until < end), default=0)
        return out

    def _matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        for secret in self._secrets:
            yield from secret.matches(data)

    def _pieces(self, data: bytes, spans: list[tuple[int, int]], until: int) -> Iterator[bytes]:
        """The output: the data between secrets, and one mark for each secret."""
        at = 0
        for start, end in spans:
            if start == end or start >= until:
                continue
            if start > at:
                yield data[at:start]
                self._marked = False
            if not self._marked:
                yield MARK
            self._marked = True
            at = min(end, until)
        if at < until:
            yield data[at:until]
            self._marked = False


class _Unit(NamedTuple):
    """One character of a secret, in all its spellings."""

    pattern: re.Pattern[bytes]
    forms: tuple[bytes, ...]
    """The spellings, with digits in lower case."""

    def may_continue(self, rest: bytes) -> bool:
        """Whether the rest of the data is the beginning of a spelling."""
        return any(len(rest) < len(form) and form.startswith(rest.lower()) for form in self.forms)


_BREAK = _Unit(
    re.compile(rb"(?:\r?\n|\\r\\n|\\n|\\u000[dD]\\u000[aA]|\\u000[aA])(?:[ \t]|\\t){0,64}"),
    (b"\r\n", b"\\r\\n", b"\\n", b"\\u000d\\u000a", b"\\u000a"),
)
"""A line break of a secret: with CRLF, as it is or in JSON, with any indentation after it."""


class _Secret:
    def __init__(self, secret: bytes) -> None:
        text = secret.decode("utf-8", "surrogateescape").strip("\r\n").replace("\r\n", "\n")
        text = re.sub(r"\n[ \t]+", "\n", text).rstrip("\n")  # indentation of its own is as good as any other
        self._units = [_BREAK if character == "\n" else _unit(character) for character in text]
        self._pattern = re.compile(b"".join(b"(?:%s)" % unit.pattern.pattern for unit in self._units))
        self._max_bytes = sum(_MAX_BREAK_BYTES if unit is _BREAK else _MAX_ESCAPE_BYTES for unit in self._units)
        self._plain = re.compile(re.escape(text.encode("utf-8", "surrogateescape")))
        self._has_break = "\n" in text

    def matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """All occurrences, also overlapping ones."""
        # Without a backslash there is no escape, and a plain search is much quicker.
        pattern = self._pattern if self._has_break or b"\\" in data else self._plain
        found = pattern.search(data)
        while found is not None:
            yield found.span()
            found = pattern.search(data, found.start() + 1)

    def open_end(self, data: bytes) -> int:
        """Length of the longest suffix that is the beginning of the secret in some spelling, and not all of it."""
        begin = max(0, len(data) - self._max_bytes)
        starts = {match.start() for match in self._units[0].pattern.finditer(data, begin)}
        starts.update(range(max(begin, len(data) - _MAX_ESCAPE_BYTES), len(data)))
        return max((len(data) - at for at in starts if self._is_open(data, at)), default=0)

    def _is_open(self, data: bytes, at: int) -> bool:
        for unit in self._units:
            if at >= len(data) or unit.may_continue(data[at : at + _MAX_ESCAPE_BYTES]):
                return True
            found = unit.pattern.match(data, at)
            if found is None:
                return False
            if unit is _BREAK and found.end() == len(data):
                return True  # more indentation may follow
            at = found.end()
        return False


def _unit(character: str) -> _Unit:
    """A character as it is, or escaped as in JSON, with digits in any case."""
    plain = character.encode("utf-8", "surrogateescape")
    forms = [plain]
    if not "\udc80" <= character <= "\udcff":  # a byte that is no character has no escape
        units = character.encode("utf-16-be")
        forms.append(b"".join(b"\\u" + units[at : at + 2].hex().encode() for at in range(0, len(units), 2)))
    if character in _SHORT_ESCAPES:
        forms.append(b"\\" + _SHORT_ESCAPES[character].encode())
    patterns = [re.escape(plain), *(_in_any_case(form) for form in forms[1:])]
    return _Unit(re.compile(b"|".join(sorted(patterns, key=len, reverse=True))), tuple(forms))


def _in_any_case(escape: bytes) -> bytes:
    """A pattern for an escape. The letters n, t and so on have one case; digits have two."""
    if not escape.startswith(b"\\u"):
        return re.escape(escape)
    digits = "".join(f"[{digit}{digit.upper()}]" if digit in "abcdef" else digit for digit in escape.decode())
    return digits.replace("\\", "\\\\").encode()


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order; overlapping spans are merged."""
    spans.sort()
    merged = spans[:1]
    for start, end in spans[1:]:
        before, last = merged[-1]
        if start < last or before == start:
            merged[-1] = before, max(last, end)
        else:
            merged.append((start, end))
    return merged


CHUNK = 65_536
OUT, ERR = ".out", ".err"
SUFFIXES = {"stdout": OUT, "stderr": ERR}
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
                chunk, at = data[begin : begin + CHUNK], self._passed % self._capacity
                first = chunk[: self._capacity - at]
                os.pwrite(self._file, first, _HEADER.size + at)
                os.pwrite(self._file, chunk[len(first) :], _HEADER.size)
                self._passed += len(chunk)
                os.pwrite(self._file, _HEADER.pack(self._capacity, self._passed), 0)

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
    return last if len(last) < limit else last[:3].lstrip(_CONTINUATION) + last[3:]


def stored_bytes(path: str) -> tuple[int, bool]:
    """How many bytes were written to a stream, and whether the file does not hold all of them."""
    _, _, passed = _read_ring(path + _RING)
    return _size(path) + passed, passed > 0


def file_names(name: str) -> list[str]:
    """The names of all files that a run may have."""
    return [name + suffix + ring for suffix in (OUT, ERR) for ring in ("", _RING)]


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


_FREE_BYTES = 1 << 20
_KEEP_SIZE_AND_PUNCH_HOLE = 3


class OutputFile:
    """A file that the command appends to, and that is read from its beginning. What was read takes no memory."""

    def __init__(self) -> None:
        path = None
        if sys.platform == "linux":
            self._file = os.memfd_create("stdout")
        else:
            self._file, path = tempfile.mkstemp()
        # Descriptors of their own in children must not begin at the beginning again.
        self.writing_end = os.open(path or f"/proc/self/fd/{self._file}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if path is not None:
            Path(path).unlink()
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


LinePattern = Mapping[str, str] | str
"""A mapping matches an event (a line that is a JSON object) in which each of these keys has this value. `part.reason`
is the key `reason` of the object `part`; a value with a `*` at its end is the beginning of one. A text matches any line
that contains it."""
_MAX_LINE_BYTES = 8 * 1024 * 1024


class Seen(NamedTuple):
    final: bool = False
    """A line was the final event."""
    progress: bool = True
    """There was more than lines that only say that the tool tries again."""


_PROGRESS = Seen()


def matches(pattern: LinePattern, line: bytes) -> bool:
    if isinstance(pattern, str):
        return pattern.encode() in line
    if not all(value.removesuffix("*").encode() in line for value in pattern.values()):
        return False  # quicker than reading the line
    event = _event(line)
    return event is not None and all(_has(event, key, value) for key, value in pattern.items())


class LineWatch:
    """Reads a stream in chunks. Without patterns, every chunk is progress and nothing is kept."""

    def __init__(self, finals: Sequence[LinePattern], retries: Sequence[LinePattern]) -> None:
        self._finals = finals
        self._retries = retries
        self._rest = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> Seen:
        if not self._finals and not self._retries:
            return _PROGRESS
        *lines, rest = (self._rest + chunk).split(b"\n")
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        self._skipping = self._skipping or len(rest) > _MAX_LINE_BYTES
        self._rest = b"" if self._skipping else rest
        final = any(matches(pattern, line) for line in lines for pattern in self._finals)
        retrying = bool(lines) and all(any(matches(pattern, line) for pattern in self._retries) for line in lines)
        return Seen(final, bool(rest) or not retrying)


def _event(line: bytes) -> dict[str, Any] | None:
    begin = line.find(b"{")  # codes of a terminal may precede it
    try:
        event = json.loads(line[begin:].decode("utf-8", "replace"), strict=False) if begin >= 0 else None
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", event) if isinstance(event, dict) else None


def _has(event: dict[str, Any], key: str, value: str) -> bool:
    found: Any = event
    for name in key.split("."):
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    if not isinstance(found, str):
        return False
    return found.startswith(value[:-1]) if value.endswith("*") else found == value
