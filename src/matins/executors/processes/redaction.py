"""Redacts secrets in a stream, also across chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MARK = b"[redacted]"


class Redactor:
    """Redacts a stream. Holds back only what may be the start of a secret."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = [secret for secret in secrets if secret]
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
        spans = _merged([(0, self._covered), *self._matches(data)])
        out = b"".join(self._pieces(data, spans, until))
        self._held = data[until:]
        self._covered = max((end - until for start, end in spans if start < until < end), default=0)
        return out

    def _matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        for secret in self._secrets:
            at = data.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = data.find(secret, at + 1)

    def _open_end(self, data: bytes) -> int:
        """Length of the longest suffix that may be the start of a secret."""
        return max(_overlap(data, secret) for secret in self._secrets)

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


def _overlap(data: bytes, secret: bytes) -> int:
    for length in range(min(len(secret) - 1, len(data)), 0, -1):
        if data.endswith(secret[:length]):
            return length
    return 0
