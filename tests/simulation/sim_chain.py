"""The hash chains of the log, followed by the formula alone."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import orjson
from sim_rows import Reader

_GENESIS = bytes(32)
_EVENTS = "SELECT id, writer, seq, at, type, schedule_id, run_id, data, hash FROM events ORDER BY writer, seq"
_WRITERS = "SELECT id, pruned_seq, pruned_hash FROM writers"
_SEALS = "SELECT id, at, heads, hash FROM seals ORDER BY id"


def chain_problems(reader: Reader) -> list[str]:
    """Links that do not follow from those before them, and events that seals name and that are missing."""
    begins = {writer: (seq, bytes(head or _GENESIS)) for writer, seq, head in reader.query(_WRITERS)}
    heads, links, found = dict(begins), {}, []
    before = 0, _GENESIS
    for event, writer, seq, at, kind, schedule, run, data, link in reader.query(_EVENTS):
        last, head = heads.get(writer, (0, _GENESIS))
        expected = sha256(head + f"{seq}|{at}|{kind}|{schedule}|{run}|{data or ''}".encode()).digest()
        if (seq, bytes(link)) != (last + 1, expected):
            found.append(f"event {event} does not follow number {last} of writer {writer}")
        heads[writer] = seq, bytes(link)
        links[writer, seq] = event, bytes(link).hex()
        if kind == "history.pruned":
            number, text = orjson.loads(data)["seal"]
            before = max(before, (number, bytes.fromhex(text)))
    seals = reader.query(_SEALS)
    return found + _seal_problems(seals, before[1], begins, links)


def _seal_problems(
    seals: Iterable[tuple[int, int, str, bytes]],
    before: bytes,
    begins: dict[int, tuple[int, bytes]],
    links: dict[tuple[int, int], tuple[int, str]],
) -> list[str]:
    found: list[str] = []
    for seal, at, text, link in seals:
        if sha256(before + f"{at}|{text}".encode()).digest() != bytes(link):
            found.append(f"seal {seal} does not follow the one before it")
        before = bytes(link)
        for writer, seq, head, event in orjson.loads(text):
            pruned = seq <= begins.get(writer, (0, _GENESIS))[0]
            if not pruned and links.get((writer, seq)) != (event, head):
                found.append(f"seal {seal} names number {seq} of writer {writer}, which is not there")
    return found
