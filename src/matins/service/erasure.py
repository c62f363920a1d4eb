"""The use case that erases the words of a run, and leaves its record."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

import orjson

from matins.api.results import ErasedRun
from matins.engine.erasure import ERASED, erased_event, erased_evidence, erased_request, is_erased
from matins.errors import Conflict
from matins.executors.processes.output import file_names
from matins.executors.processes.run_folder import name_of, path_in
from matins.model.access import Principal
from matins.model.rows import NewEvent
from matins.runtime.catalog import run_record
from matins.service.core import Core
from matins.service.output import state_folder
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class Erasure:
    core: Core

    def erase(self, principal: Principal, run_id: int) -> ErasedRun:
        core, now = self.core, self.core.clock.now_ms()
        with core.store.transaction(now) as transaction:
            run = core.run(transaction, run_id)
            if run.state.live:
                message, hint = f"Run {run_id} has not ended.", f"Wait, or cancel it: matins cancel {run_id}"
                raise Conflict(message, value=str(run_id), field="run_id", hint=hint)
            parts = [run, *map(run_record, transaction.steps_of(run_id))]
            ids = [part.id for part in parts]
            places = [place for one in ids for place in _places(transaction, one)]
            requests = [request for one in ids for request in transaction.requests_of_run(one)]
            for one in ids:
                _erase(transaction, one)
            for number, request in requests:
                transaction.erase_request(number, erased_request(request))
                transaction.erase_votes(number)
            transaction.delete_run_texts(ids)
            transaction.purge_words()
            transaction.delete_output(ids)
            changed = [event for one in ids for event in _erase_events(transaction, one)]
            data = {"runs": ids, "approvals": [number for number, _ in requests], "events": changed}
            transaction.events.append(NewEvent(now, ERASED, run.schedule_id, None, {**data, **principal.signed}))
        files = self._delete_files([name for _, name in places])
        hosts = {host for host, _ in places if host not in (None, socket.gethostname())}
        return ErasedRun(str(run_id), len(changed), files, sorted(filter(None, hosts)))

    def _delete_files(self, names: list[str]) -> int:
        folder, deleted = state_folder(self.core.store, self.core.local.state_folder), 0
        for name in names:
            for file in (name, *file_names(name)):
                path = Path(path_in(str(folder), file))
                deleted += path.is_file()
                path.unlink(missing_ok=True)
        return deleted


def _places(transaction: Transaction, run_id: int) -> list[tuple[str | None, str]]:
    """The hosts of its attempts, and the names of their files."""
    found: list[tuple[str | None, str]] = []
    for attempt in transaction.attempts(run_id):
        identity = orjson.loads(transaction.worker_of(run_id, attempt.epoch) or "{}")
        found.append((identity.get("host"), name_of(run_id, attempt.epoch, identity.get("incarnation") or "")))
    return found


def _erase(transaction: Transaction, run_id: int) -> None:
    row = transaction.run(run_id)
    assert row is not None
    transaction.erase_run(run_id, erased_evidence(row.evidence), None)
    transaction.erase_reports(run_id)
    transaction.erase_checks(run_id)
    transaction.erase_answers(run_id)
    transaction.erase_messages(run_id)
    transaction.erase_calls(run_id)
    transaction.erase_incidents(run_id, f"erased run {run_id}")
    transaction.erase_responses(f'%"id":"{run_id}","schedule_id"%')


def _erase_events(transaction: Transaction, run_id: int) -> list[tuple[int, str]]:
    """The events that lost words, with their hashes."""
    found: list[tuple[int, str]] = []
    for event in transaction.events_of_run(run_id):
        data = erased_event(event.data)
        if data is not None and not is_erased(event.data):
            transaction.erase_event(event.id, data)
            found.append((event.id, bytes(event.hash).hex()))
    return found
