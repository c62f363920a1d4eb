"""Output of runs whose files are on another machine: it is sent to the store in pieces, and every node reads it.

The beginning and the end of each stream are kept, 1 MB together; whole files, where a node has a URL of object storage.
Secrets are redacted before the output reaches a file, so they reach no piece.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from matins.errors import InvalidInput, StoreUnavailable
from matins.model.clock import Clock
from matins.runtime.attempt import Mark
from matins.store import Store

HEAD_BYTES, TAIL_BYTES = 768 << 10, 256 << 10
"""Bytes that are kept of the beginning and of the end of a stream."""
PIECE_BYTES = 65_536
FOLLOWING_MS = 10_000
"""How long after it was read a run counts as followed."""
_PATIENCE_S = 10
_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[\w./=-]*)?")
log = logging.getLogger("matins")
STREAMS = ("stdout", "stderr")
_FAST = 1
_MAX_PIECES = 256
"""Pieces that one look reads."""


Tails = Mapping[str, tuple[int, bytes]]
"""The end of each stream as zlib packs it, and the bytes of the stream until now."""


class Piece(NamedTuple):
    stream: str
    at: int
    data: bytes
    total: int
    """The bytes of the stream when it was read."""


class ObjectStorage:
    """Files on storage that speaks S3, by obstore (extra `objects`). Keys and the endpoint are in AWS_… variables."""

    def __init__(self, url: str) -> None:
        if not _URL.fullmatch(url):
            hint = "Write s3://BUCKET/PREFIX. Keys and the endpoint belong in AWS_… variables."
            raise InvalidInput("This is not the URL of object storage.", value=url, field="output_url", hint=hint)
        self._url = url.rstrip("/")
        try:
            from obstore.store import from_url
        except ImportError as error:
            hint = "Install the extra: pip install 'matins[objects]'"
            raise InvalidInput("Output cannot be put there: obstore is missing.", value=url, hint=hint) from error
        connect: Any = from_url  # its overloads name every kind of storage
        self._store: Any = connect(
            self._url,
            retry_config={"retry_timeout": timedelta(seconds=_PATIENCE_S), "max_retries": 3},
            client_options={"timeout": f"{_PATIENCE_S}s", "allow_http": True},  # where AWS_ENDPOINT says so
        )

    def put(self, name: str, file: Path) -> str:
        """Put a file there, and return its URL. Raises StoreUnavailable."""
        with _unreachable(self._url):
            import obstore

            obstore.put(self._store, name, file)
        return f"{self._url}/{name}"

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """A part of a file. Raises StoreUnavailable."""
        with _unreachable(self._url):
            import obstore

            return bytes(obstore.get_range(self._store, name, start=offset, length=limit))


@contextmanager
def _unreachable(url: str) -> Generator[None]:
    try:
        yield
    except Exception as error:  # what obstore raises has no common class
        reason = str(error).partition("\n")[0]
        raise StoreUnavailable(f"{url} does not answer: {reason}", hint="Check the AWS_… variables here.") from error


@lru_cache(maxsize=16)
def object_storage(url: str) -> ObjectStorage:
    return ObjectStorage(url)


def tails_of(read: Callable[[str, int, int], tuple[bytes, int, int]], limit: int) -> Tails:
    """The last bytes of each stream. `read` reads a stream from an offset on, as `KeptOutput.read` does."""
    found: dict[str, tuple[int, bytes]] = {}
    for stream in STREAMS:
        _, _, total = read(stream, 0, 1)
        data, at, _ = read(stream, max(0, total - limit), limit)
        if data:
            found[stream] = at + len(data), zlib.compress(data, _FAST)
    return found


class KeptOutput:
    def __init__(self, store: Store, clock: Clock, output_url: str | None = None) -> None:
        self._store = store
        self._clock = clock
        self._objects = None if output_url is None else object_storage(output_url)

    def kept(self, mark: Mark) -> Mapping[str, int]:
        """How much of each stream of an attempt is kept."""
        with self._store.reading() as transaction:
            return dict(transaction.kept_output(*mark))

    def keep(self, mark: Mark, pieces: Sequence[Piece]) -> None:
        """Add pieces, and delete what is neither beginning nor end any more."""
        with self._store.transaction(self._clock.now_ms()) as transaction:
            for stream, at, data, total in pieces:
                transaction.insert_output(*mark, stream, at, len(data), total, zlib.compress(data, _FAST), None)
            for stream, total in {piece.stream: piece.total for piece in pieces}.items():
                if total > HEAD_BYTES + TAIL_BYTES:
                    transaction.trim_output(*mark, stream, HEAD_BYTES, total - TAIL_BYTES)

    def keep_whole(self, mark: Mark, stream: str, file: Path) -> None:
        """Put the file of a stream on object storage, where the store has only its beginning and its end."""
        with self._store.reading() as transaction:
            total = transaction.output_total(*mark, stream)
        if self._objects is None or total <= HEAD_BYTES + TAIL_BYTES or not file.exists():
            return
        size = file.stat().st_size
        try:
            url = self._objects.put(f"{self._store.store_id}/{mark[0]}-{mark[1]}.{stream}", file)
        except StoreUnavailable as error:
            log.warning("The output of run %s is kept without its middle: %s", mark[0], error.message)
            return
        with self._store.transaction(self._clock.now_ms()) as transaction:
            transaction.trim_output(*mark, stream, 0, size)
            transaction.insert_output(*mark, stream, 0, size, total, b"", url)

    def keep_tails(self, mark: Mark, tails: Tails) -> None:
        """Add what is new of the ends of streams. What was between them and the earlier pieces is not kept."""
        known, pieces = self.kept(mark), list[Piece]()
        for stream, (total, packed) in tails.items():
            data = zlib.decompressobj().decompress(packed, TAIL_BYTES)
            at = total - len(data)
            begin = max(at, known.get(stream, 0))
            if begin < total:
                pieces.append(Piece(stream, begin, data[begin - at :], total))
        if pieces:
            self.keep(mark, pieces)

    def followed(self) -> set[int]:
        """The runs whose output is being read."""
        with self._store.reading() as transaction:
            return set(transaction.followed_runs(self._clock.now_ms()))

    def follow(self, run_id: int) -> None:
        """Ask the node of a run to send its output each second for a while."""
        now = self._clock.now_ms()
        with self._store.reading() as transaction:
            if run_id in transaction.followed_runs(now + FOLLOWING_MS // 2):
                return
        with self._store.transaction(now) as transaction:
            transaction.delete_followers(now)
            transaction.follow_output(run_id, now + FOLLOWING_MS)

    def read(self, mark: Mark, stream: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """The output from an offset on, where it begins, and the total that is known. It begins later than requested
        when the offset is in what was not kept."""
        with self._store.reading() as transaction:
            total = transaction.output_total(*mark, stream)
            pieces = transaction.output_pieces(*mark, stream, offset, _MAX_PIECES)
        found, begin = bytearray(), None
        for at, size, data, url in pieces:
            skipped = max(0, offset - at)
            if url is None:
                plain = zlib.decompress(data)[skipped:]
            else:
                folder, _, name = url.rpartition("/")
                plain = object_storage(folder).read(name, skipped, min(limit, size - skipped))
            at = max(at, offset)
            begin = at if begin is None else begin
            if at != begin + len(found) or len(found) >= limit:
                break
            found += plain
        return bytes(found[:limit]), total if begin is None else begin, total
