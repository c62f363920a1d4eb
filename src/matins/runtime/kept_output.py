"""Output of runs in a store that several machines share: the node of a run sends it in pieces, and every node reads it.

The beginning and the end of each stream are kept, 1 MB together. Secrets are redacted before the output reaches a file,
so they reach no piece.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from matins.model.clock import Clock
from matins.runtime.attempt import Mark
from matins.store import Store

HEAD_BYTES, TAIL_BYTES = 768 << 10, 256 << 10
"""Bytes that are kept of the beginning and of the end of a stream."""
PIECE_BYTES = 65_536
FOLLOWING_MS = 10_000
"""How long a look counts as following the run."""
_FAST = 1
_MAX_PIECES = 256
"""Pieces that one look reads."""


class Piece(NamedTuple):
    stream: str
    at: int
    data: bytes
    total: int
    """The bytes of the stream when it was read."""


class KeptOutput:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def kept(self, mark: Mark) -> Mapping[str, int]:
        """How much of each stream of an attempt is kept."""
        with self._store.reading() as transaction:
            return transaction.kept_output(*mark)

    def keep(self, mark: Mark, pieces: Sequence[Piece], *, last: bool = False) -> None:
        """Add pieces, and delete what is neither beginning nor end any more. `last`: the attempt has ended."""
        with self._store.transaction(self._clock.now_ms()) as transaction:
            for stream, at, data, total in pieces:
                transaction.insert_output(*mark, stream, at, len(data), total, zlib.compress(data, _FAST))
            for stream, total in {piece.stream: piece.total for piece in pieces}.items():
                if total > HEAD_BYTES + TAIL_BYTES:
                    transaction.trim_output(*mark, stream, HEAD_BYTES, total - TAIL_BYTES)
            if last:
                transaction.delete_followers([mark[0]])

    def followed(self, run_ids: Iterable[int]) -> set[int]:
        """Those of these runs whose output is being read."""
        with self._store.reading() as transaction:
            return transaction.followed_runs(run_ids, self._clock.now_ms())

    def follow(self, run_id: int) -> None:
        """Ask the node of a run to send its output each second for a while."""
        now = self._clock.now_ms()
        with self._store.reading() as transaction:
            if transaction.followed_runs([run_id], now + FOLLOWING_MS // 2):
                return
        with self._store.transaction(now) as transaction:
            transaction.follow_output(run_id, now + FOLLOWING_MS)

    def read(self, mark: Mark, stream: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """The output from an offset on, where it begins, and the total that is known. It begins later than requested
        when the offset is in what was not kept."""
        with self._store.reading() as transaction:
            total = transaction.output_total(*mark, stream)
            pieces = transaction.output_pieces(*mark, stream, offset, _MAX_PIECES)
        found, begin = bytearray(), None
        for at, data in pieces:
            plain = zlib.decompress(data)[max(0, offset - at) :]
            at = max(at, offset)
            begin = at if begin is None else begin
            if at != begin + len(found) or len(found) >= limit:
                break
            found += plain
        return bytes(found[:limit]), total if begin is None else begin, total
