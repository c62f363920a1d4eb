"""Use cases on the audit: verifying that events, and the records that they name, are unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from matins.api.results import Audit as AuditResult
from matins.engine.audit import (
    CREATED,
    ENDS,
    STARTED,
    DefinitionCheck,
    RecordCheck,
    RunCheck,
    Stored,
    named,
    pruning_of,
    revision_key,
    writer_problems,
)
from matins.errors import InvalidInput
from matins.model.access import Principal, name_of
from matins.model.event import StoredEvent, WriterRow
from matins.model.policies import Approval
from matins.model.rows import AttemptRow
from matins.service.core import Core
from matins.store.chain import ChainCheck, SealCheck, name_of_seal
from matins.store.transaction import Transaction

_SEAL = re.compile(r"[0-9]{1,19}:[0-9a-f]{64}")
_PAGE = 2_000
_ALL = 10**9


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
            self._pruning = pruning_of(transaction.last_pruning())
        self._chains = ChainCheck(self._writers)
        seal, link = self._pruning.seal
        self._seals = SealCheck(self._chains.begins, (seal, bytes.fromhex(link)))
        self._approvals: dict[int, Approval | None] = {}
        self._reading: Transaction | None = None
        self._runs = RunCheck(self._pruning.before)
        self._definitions = DefinitionCheck()

    def undisturbed(self) -> bool:
        """Whether nothing was pruned meanwhile."""
        with self._store.reading() as transaction:
            return _begins(transaction.writers()) == _begins(self._writers)

    def result(self) -> AuditResult:
        bad: list[str] = []
        with self._store.reading() as self._reading:
            records = RecordCheck(self._pruning, self._approval, self._run_is_there)
        after = 0
        while page := self._page(after, bad, records):
            after = page[-1].id
        wrong = self._rest(after, bad, records)
        bad += self._seal_problems()
        chains = self._chains
        # A changed log says nothing about records.
        return AuditResult(chains.events, len(chains.chains), self._seals.newest, bad or wrong)

    def _page(self, after: int, bad: list[str], records: RecordCheck) -> list[StoredEvent]:
        with self._store.reading() as transaction:
            page = transaction.events_after(after, _PAGE)
            self._feed(transaction, page, bad, records)
        return page

    def _rest(self, after: int, bad: list[str], records: RecordCheck) -> list[str]:
        """Events beside which other transactions were still open, and what does not agree after all events: in one
        transaction, since records change with events."""
        with self._store.reading() as transaction:
            self._feed(transaction, transaction.logged(after, _ALL), bad, records)
            bad += self._chains.unexplained()
            return [] if bad else list(self._record_problems(transaction, records))

    def _feed(self, transaction: Transaction, page: list[StoredEvent], bad: list[str], records: RecordCheck) -> None:
        self._reading, self._approvals = transaction, {}
        bad += self._chains.problems(page)
        if bad:  # whatever such events say may be anything
            return
        ids = self._runs.of_runs(page)
        attempts: dict[int, dict[int, AttemptRow]] = {}
        for attempt in transaction.bound_attempts(ids):
            attempts.setdefault(attempt.run_id, {})[attempt.epoch] = attempt
        self._runs.feed(page, {run.id: run for run in transaction.bound_runs(ids)}, attempts)
        revisions, schedules = self._definitions.revised(page)
        self._definitions.compare(revisions, transaction.bound_revisions(schedules) if schedules else ())
        for event in page:
            records.feed(event)

    def _approval(self, number: int) -> Approval | None:
        if number not in self._approvals:
            assert self._reading is not None
            self._approvals[number] = self._reading.approval(number)
        return self._approvals[number]

    def _run_is_there(self, run_id: int) -> bool:
        assert self._reading is not None
        return bool(self._reading.bound_runs([run_id]))

    def _record_problems(self, transaction: Transaction, records: RecordCheck) -> Iterator[str]:
        since = self._pruning.before
        yield from writer_problems(self._writers, self._pruning)
        changed = self._runs.problem_at_end(transaction.bound_runs(self._runs.changed_ranges()))
        if changed is not None:
            yield changed
        yield from records.problems(transaction.tokens())
        yield from self._definitions.problems(
            Stored(
                transaction.current_revisions(),
                transaction.policies(),
                transaction.limits(),
                transaction.subscriptions(),
                transaction.schedules_with(self._definitions.stopped()),
            )
        )
        if transaction.count_revisions() != len(self._definitions.seen):
            for schedule, rev, agent, name in transaction.revisions():
                if revision_key(schedule, rev) not in self._definitions.seen:
                    yield f"schedule {named(agent, name)}: its revision {rev} is not in the log."
        if transaction.count_bound(since) != self._runs.counts:  # finding them takes memory
            yield from _absent(f"Run {run}" for run in transaction.unlogged_runs(since, CREATED, ENDS))
            attempts = transaction.unlogged_attempts(since, STARTED)
            yield from _absent(f"Attempt {epoch} of run {run}" for run, epoch in attempts)
        yield from _absent(f"Approval {number}" for number in transaction.unlogged_approvals(since))
        votes = transaction.unlogged_votes(since)
        yield from _absent(f"The vote of {name_of(voter)} on approval {number}" for number, voter in votes)

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
            number = self._noted.partition(":")[0]
            if int(number) <= self._pruning.seal[0]:
                yield f"seal {number}: it was deleted with the old events that it covered; note down a newer one"
            else:
                yield f"seal {number}: it was changed or deleted after it was sealed"


def _absent(records: Iterable[str]) -> Iterator[str]:
    return (f"{record} is not in the log." for record in records)


def _begins(writers: Iterable[WriterRow]) -> dict[int, int]:
    return {writer.id: writer.pruned_seq for writer in writers if writer.pruned_seq}
