"""What a schedule said when a run of it was made; later edits do not touch it."""

from __future__ import annotations

from typing import Any, NamedTuple

from matins.engine.schedules import decode
from matins.model.principal import Principal
from matins.service.base import UseCases
from matins.service.rights import needs
from matins.service.wording import words_of


class Snapshot(NamedTuple):
    run_id: int
    schedule_id: int
    schedule: str
    agent: str
    rev: int
    do: str
    prompt: str | None
    payload: Any
    words: dict[str, Any]
    """All that it said and that is not the usual, as people write it."""


class Snapshots(UseCases):
    @needs("read")
    def snapshot(self, principal: Principal, run_id: int) -> Snapshot:
        """What the schedule said when this run was made."""
        with self._store.reading() as transaction:
            run = self._run(transaction, run_id)
            (said,) = transaction.definitions([(run.schedule_id, run.rev)])
        then = decode(said.definition)
        return Snapshot(
            run.id, run.schedule_id, said.name, said.agent, run.rev, then.do, then.prompt, then.payload, words_of(then)
        )
