"""A whole log in memory, and what is wrong with it."""

from __future__ import annotations

from typing import NamedTuple

from matins.engine.audit import PRUNED, pruning_of
from matins.model.event import EventLink, SealRow, StoredEvent, WriterRow
from matins.store.chain import ChainCheck, SealCheck


class WholeLog(NamedTuple):
    """Events by chain, writers and seals."""

    events: list[StoredEvent]
    writers: list[WriterRow]
    seals: list[SealRow]


def chain_problems(log: WholeLog) -> list[str]:
    """The problems of a log: the first bad row of each chain, and the first bad seal."""
    check = ChainCheck(log.writers)
    found = list(check.problems(log.events))
    pruned = max((event for event in log.events if event.type == PRUNED), default=None)
    seal, link = pruning_of(pruned).seal
    links = {event.id: EventLink(event.id, event.writer, event.seq, event.hash) for event in log.events}
    problem = SealCheck(check.begins, (seal, bytes.fromhex(link))).problem(
        log.seals, lambda ids: [links[one] for one in ids if one in links]
    )
    return found + ([] if problem is None else [problem])
