"""Use cases on the audit: verifying that events, and the records that they speak of, are unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from matins.api.results import Audit as AuditResult
from matins.engine.audit import ENDS, PRUNED, RecordCheck, pruning_of, run_problem, writer_problems
from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.model.approval import Approval
from matins.model.rows import StoredEvent, WriterRow
from matins.ports import Transaction
from matins.service.core import Core
from matins.store.chain import ChainCheck, SealCheck, name_of_seal

_SEAL = re.compile(r"[0-9]{1,19}:[0-9a-f]{64}")
_PAGE = 2_000


@dataclass(frozen=True)
class Audit:
    core: Core

    def verify(self, principal: Principal, *, seal: str | None = None) -> AuditResult:
        if seal is not None and not _SEAL.fullmatch(seal):
            hint = "A seal is a number, a colon and 64 hexadecimal digits, as `matins audit seal` prints it."
            raise InvalidInput(f'"{seal}" is not a seal.', value=seal, field="seal", hint=hint)
        verification = _Verification(self.core, seal)
        result = verification.result()
        while not verification.undisturbed():
            verification = _Verification(self.core, seal)
            result = verification.result()
        return result

    def seal(self, principal: Principal) -> str | None:
        with self.core.store.reading() as transaction:
            newest = transaction.newest_seal()
        return None if newest is None else name_of_seal(newest)


class _Verification:
    """One pass over the log. Each page is read in its own transaction, which lets the engine work, and only what does
    not agree is kept in memory."""

    def __init__(self, core: Core, noted: str | None) -> None:
        self._store = core.store
        self._noted = noted
        with self._store.reading() as transaction:
            self._writers = transaction.writers()
            self._pruning = pruning_of(transaction.last_of_type(PRUNED))
        self._chains = ChainCheck(self._writers)
        seal, link = self._pruning.seal
        self._seals = SealCheck(self._chains.begins, (seal, bytes.fromhex(link)))
        self._approvals: dict[int, Approval | None] = {}
        self._reading: Transaction | None = None
        self._ended = 0
        """Runs whose end is in the log."""

    def undisturbed(self) -> bool:
        """Whether nothing was pruned meanwhile."""
        with self._store.reading() as transaction:
            return _begins(transaction.writers()) == _begins(self._writers)

    def result(self) -> AuditResult:
        found = list(self._log_problems())
        chains = self._chains
        return AuditResult(chains.events, len(chains.chains), self._seals.newest, found)

    def _log_problems(self) -> Iterator[str]:
        bad: list[str] = []
        runs: list[str] = []
        with self._store.reading() as self._reading:
            records = RecordCheck(self._pruning, self._approval)
        after = 0
        while page := self._page(after, bad, records, runs):
            after = page[-1].id
        bad += self._seal_problems()
        yield from bad
        if not bad:  # a changed log says nothing about records
            yield from writer_problems(self._writers, self._pruning)
            yield from runs
            yield from self._record_problems(records)

    def _page(self, after: int, bad: list[str], records: RecordCheck, runs: list[str]) -> list[StoredEvent]:
        with self._store.reading() as transaction:
            self._reading, self._approvals = transaction, {}
            page = transaction.logged(after, _PAGE)
            bad += self._chains.problems(page)
            if bad:  # whatever such events say may be anything
                return page
            ends = {event.run_id: event for event in page if event.run_id is not None and event.type in ENDS}
            for run in transaction.run_ends(ends):
                self._ended += (run.ended_at or 0) >= self._pruning.before
                problem = run_problem(ends[run.id], run)
                if problem is not None and not runs:
                    runs.append(problem)
            for event in page:
                records.feed(event)
        return page

    def _approval(self, number: int) -> Approval | None:
        if number not in self._approvals:
            assert self._reading is not None
            self._approvals[number] = self._reading.approval(number)
        return self._approvals[number]

    def _record_problems(self, records: RecordCheck) -> Iterator[str]:
        since = self._pruning.before
        with self._store.reading() as transaction:
            yield from records.problems(transaction.tokens())
            if transaction.count_ended(since) != self._ended:  # finding them takes memory
                yield from _absent(f"Run {run}" for run in transaction.unlogged_runs(since, ENDS))
            yield from _absent(f"Approval {number}" for number in transaction.unlogged_approvals(since))
            votes = transaction.unlogged_votes(since)
            yield from _absent(f"The vote of {voter} on approval {number}" for number, voter in votes)

    def _seal_problems(self) -> Iterator[str]:
        known = self._noted is None
        while True:
            with self._store.reading() as transaction:
                page = transaction.seals(self._seals.last, _PAGE)
                known = known or any(name_of_seal(row) == self._noted for row in page)
                problem = self._seals.problem(page, transaction.links)
            if problem is not None:
                yield problem
            if problem is not None or not page:
                break
        if not known and self._noted is not None:
            yield self._unknown_seal(self._noted)

    def _unknown_seal(self, noted: str) -> str:
        number = noted.partition(":")[0]
        if int(number) <= self._pruning.seal[0]:
            return f"seal {number}: it was deleted with the old events that it covered; note down a newer one"
        return f"seal {number}: it was changed or deleted after it was sealed"


def _absent(records: Iterable[str]) -> Iterator[str]:
    return (f"{record} is not in the log." for record in records)


def _begins(writers: Iterable[WriterRow]) -> dict[int, int]:
    return {writer.id: writer.pruned_seq for writer in writers if writer.pruned_seq}
