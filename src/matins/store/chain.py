"""Hash chains of events: one per writer, each link over the one before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256

import orjson

from matins.engine.erasure import ERASED, is_erased
from matins.model.event import ChainHead, EventLink, SealRow, StoredEvent, WriterRow
from matins.model.rows import NewEvent

GENESIS = bytes(32)


class Chain:
    """The chain of one writer. Its head moves only when the linked events are committed."""

    def __init__(self, writer: int, uuid: str = "", seq: int = 0, head: bytes = GENESIS) -> None:
        self.writer = writer
        self._uuid = uuid
        self._seq = seq
        self._head = head
        self._pending = (0, GENESIS)

    def link(self, events: Iterable[NewEvent], *, more: bool = False) -> list[tuple[object, ...]]:
        """Rows for the events, linked to the head, or with `more` to the events that were linked last."""
        writer = self.writer
        seq, head = self._pending if more else (self._seq, self._head)
        rows: list[tuple[object, ...]] = []
        dumps = orjson.dumps
        for at, kind, schedule_id, run_id, data in events:
            seq += 1
            text = None if data is None else dumps(data).decode()
            head = sha256(head + f"{seq}|{at}|{kind}|{schedule_id}|{run_id}|{text or ''}".encode()).digest()
            rows.append((writer, seq, at, kind, schedule_id, run_id, text, head))
        self._pending = (seq, head)
        return rows

    def committed(self, event_id: int) -> ChainHead:
        """Move the head to the last linked event, and return it."""
        self._seq, self._head = self._pending
        return ChainHead(event_id, self._uuid, self._seq, self._head.hex())


def seal_hash(before: bytes, at: int, heads: str) -> bytes:
    return sha256(before + f"{at}|{heads}".encode()).digest()


def heads_text(heads: Iterable[tuple[int, int, bytes, int]]) -> str:
    """What a seal covers: (writer, number, hash, id) of the last event of each chain that grew."""
    return orjson.dumps([(writer, seq, bytes(link).hex(), event) for writer, seq, link, event in heads]).decode()


class ChainCheck:
    """Follows all chains, event by event in the order of ids, in little memory."""

    def __init__(self, writers: Iterable[WriterRow]) -> None:
        self.begins = {writer.id: (writer.pruned_seq, bytes(writer.pruned_hash or GENESIS)) for writer in writers}
        self._heads = dict(self.begins)
        self._bad: set[int] = set()
        self.chains: set[int] = set()
        self.events = 0
        self._erased: dict[int, str] = {}
        """Events without their words, by id, with their hashes: a later event must vouch for each."""

    def problems(self, events: Iterable[StoredEvent]) -> Iterator[str]:
        """The first bad row of each chain, among the next events."""
        heads = self._heads
        for event in events:
            event_id, writer, number, at, kind, schedule_id, run_id, data, link = event
            self.events += 1
            self.chains.add(writer)
            seq, head = heads.get(writer, (0, GENESIS))
            body = f"{number}|{at}|{kind}|{schedule_id}|{run_id}|{data or ''}"
            expected = sha256(head + body.encode()).digest()
            if event.type == ERASED and data:
                for one, known in orjson.loads(data)["events"]:
                    if self._erased.get(one) == known:
                        del self._erased[one]
            if is_erased(data) and number == seq + 1 and expected != link:
                self._erased[event_id], expected = bytes(link).hex(), bytes(link)
            heads[writer] = number, expected
            if (number == seq + 1 and expected == link and data != "") or writer in self._bad:
                continue
            self._bad.add(writer)
            if number != seq + 1:
                yield f"Event {event_id}: number {seq + 1} of writer {writer} is missing."
            else:  # missing data and an empty string have the same hash
                yield f"Event {event_id} was changed after it was written."

    def unexplained(self) -> Iterator[str]:
        """The events without content for which no other event vouches. Call it after all events."""
        return (f"Event {event_id} was changed after it was written." for event_id in self._erased)


class SealCheck:
    """Follows the seals. Each covers events, which must still be there."""

    def __init__(self, begins: Mapping[int, tuple[int, bytes]], before: tuple[int, bytes]) -> None:
        self._begins = begins
        self.last, self._before = before
        """The number of the last seal, and its hash."""
        self.newest: str | None = None

    def problem(self, seals: Iterable[SealRow], links: Callable[[Iterable[int]], Iterable[EventLink]]) -> str | None:
        """The problem of the first bad seal, if there is one among the next seals."""
        covered = [(seal, orjson.loads(seal.heads)) for seal in seals]
        known = {link.id: link for link in links({head[3] for _, heads in covered for head in heads})}
        for seal, heads in covered:
            if seal_hash(self._before, seal.at, seal.heads) != bytes(seal.hash):
                return f"Seal {seal.id} was changed after it was written."
            self.last, self._before = seal.id, bytes(seal.hash)
            self.newest = name_of_seal(seal)
            for writer, seq, head, event in heads:
                if not self._is_there(writer, seq, head, known.get(event)):
                    return f"Seal {seal.id}: event {seq} of writer {writer} was deleted or changed."
        return None

    def _is_there(self, writer: int, seq: int, head: str, found: EventLink | None) -> bool:
        pruned, pruned_head = self._begins.get(writer, (0, GENESIS))
        if seq <= pruned:
            return seq < pruned or pruned_head.hex() == head
        return found is not None and (found.writer, found.seq, bytes(found.hash).hex()) == (writer, seq, head)


def name_of_seal(seal: SealRow) -> str:
    """The seal as people note it down."""
    return f"{seal.id}:{bytes(seal.hash).hex()}"
