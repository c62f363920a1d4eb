"""Redacts secrets in a stream, also across chunks, in every spelling of JSON, and across indentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

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
        return self._release(data, len(data) - self._open_end(data))

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

    def _open_end(self, data: bytes) -> int:
        """Length of the longest suffix that may be the start of a secret."""
        return max(secret.open_end(data) for secret in self._secrets)

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
