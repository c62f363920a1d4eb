"""Hash chains of events: one per writer, each link over the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

import orjson

from matins.model.rows import AuditRows, ChainHead, NewEvent, SealRow

GENESIS = bytes(32)


class Chain:
    """The chain of one writer. Its head moves only when the linked events are committed."""

    def __init__(self, writer: int, uuid: str = "") -> None:
        self.writer = writer
        self._uuid = uuid
        self._seq = 0
        self._head = GENESIS
        self._pending = (0, GENESIS)

    def link(self, events: Iterable[NewEvent]) -> list[tuple[object, ...]]:
        """Rows for the events, linked to the head."""
        writer, seq, head = self.writer, self._seq, self._head
        rows: list[tuple[object, ...]] = []
        for at, kind, schedule_id, run_id, data in events:
            seq += 1
            text = None if data is None else orjson.dumps(data).decode()
            head = sha256(head + _body(seq, at, kind, schedule_id, run_id, text)).digest()
            rows.append((writer, seq, at, kind, schedule_id, run_id, text, head))
        self._pending = (seq, head)
        return rows

    def committed(self, event_id: int) -> ChainHead:
        """Move the head to the last linked event, and return it."""
        self._seq, self._head = self._pending
        return ChainHead(event_id, self._uuid, self._seq, self._head.hex())


def _body(seq: int, at: int, kind: str, schedule_id: int | None, run_id: int | None, data: str | None) -> bytes:
    return f"{seq}|{at}|{kind}|{schedule_id}|{run_id}|{data or ''}".encode()


def seal_hash(before: bytes, at: int, heads: str) -> bytes:
    return sha256(before + f"{at}|{heads}".encode()).digest()


def chain_problems(rows: AuditRows) -> Iterator[str]:
    """The problems of chains and seals: the first bad row of each."""
    begins = {
        writer.id: (writer.pruned_seq, bytes(writer.pruned_hash) if writer.pruned_hash else GENESIS)
        for writer in rows.writers
    }
    heads = dict(begins)
    hashes: dict[tuple[int, int], bytes] = {}
    last: dict[int, int] = {}
    bad: set[int] = set()
    for event in rows.events:
        if event.writer in bad:
            continue
        seq, head = heads.get(event.writer, (0, GENESIS))
        expected = sha256(
            head + _body(event.seq, event.at, event.type, event.schedule_id, event.run_id, event.data)
        ).digest()
        if event.seq != seq + 1:
            bad.add(event.writer)
            yield f"Event {event.id}: number {seq + 1} of writer {event.writer} is missing."
        elif expected != bytes(event.hash) or event.data == "":  # missing data and an empty string have the same hash
            bad.add(event.writer)
            yield f"Event {event.id} was changed after it was written."
        elif event.id <= last.get(event.writer, 0):
            bad.add(event.writer)
            yield f"Event {event.id} was moved after it was written."
        last[event.writer] = event.id
        heads[event.writer] = (event.seq, expected)
        hashes[event.writer, event.seq] = bytes(event.hash)
    yield from _seal_problems(rows.seals, hashes, begins)


def _seal_problems(
    seals: Iterable[SealRow],
    hashes: dict[tuple[int, int], bytes],
    begins: dict[int, tuple[int, bytes]],
) -> Iterator[str]:
    before = GENESIS
    for seal in seals:
        if seal_hash(before, seal.at, seal.heads) != bytes(seal.hash):
            yield f"Seal {seal.id} was changed after it was written."
            return
        before = bytes(seal.hash)
        for writer, seq, head in orjson.loads(seal.heads):
            pruned, pruned_head = begins.get(writer, (0, GENESIS))
            found = pruned_head if seq == pruned else hashes.get((writer, seq))
            if seq >= pruned and (found is None or found.hex() != head):
                yield f"Seal {seal.id}: event {seq} of writer {writer} was deleted or changed."
                return
