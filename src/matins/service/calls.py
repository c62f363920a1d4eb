"""Use cases on calls: fire one, list what arrived, and fire one again."""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from matins.api.results import Call, CallRun
from matins.engine.validation import check_name
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model import call as model
from matins.model.access import Principal
from matins.model.run import RunState
from matins.runtime.calls import fire
from matins.service.core import MAX_ID, Core
from matins.service.permissions import rights_of
from matins.store.transaction import Transaction

MAX_BODY_BYTES = 8 << 20
_MAX_KEY_LENGTH = 150


@dataclass(frozen=True)
class Calls:
    core: Core

    def fire(
        self,
        principal: Principal,
        source: model.CallSource,
        name: str,
        key: str,
        *,
        body: Any = None,
        type: str | None = None,  # noqa: A002 - the name that senders use
        text: str | None = None,
        sender: str | None = None,
        signed: str | None = None,
    ) -> Call:
        _check_source(source)
        key, signed = _checked_key("key", key), None if signed is None else _checked_key("signed", signed)
        name, body = check_name("name", name), _checked_body(body)
        call = model.Call(source, name, key, body, type, text, sender, signed=signed)
        return self._fire(principal, call)

    def list(
        self,
        principal: Principal,
        *,
        source: model.CallSource | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> builtins.list[Call]:
        with self.core.store.reading() as transaction:
            rows = transaction.calls(MAX_ID if before is None else before, limit, source or "", name or "")
            return call_results(transaction, rows)

    def get(self, principal: Principal, call_id: int) -> Call:
        with self.core.store.reading() as transaction:
            whole = "operate" in rights_of(principal)
            return _result(self._row(transaction, call_id), transaction.runs_of_calls([call_id]), whole=whole)

    def replay(self, principal: Principal, call_id: int) -> Call:
        with self.core.store.reading() as transaction:
            row = self._row(transaction, call_id)
        if row.body is None:
            message = f"The body of call {call_id} is no longer kept."
            raise Conflict(message, value=call_id, field="call", hint="Ask the sender to deliver it again.")
        key = f"replay:{call_id}:{uuid.uuid4()}"
        call = model.Call(row.source, row.name, key, orjson.loads(row.body), row.type, row.text, row.sender, row.hops)  # type: ignore[arg-type]
        return self._fire(principal, call)

    def _fire(self, principal: Principal, call: model.Call) -> Call:
        now, core = self.core.clock.now_ms(), self.core
        with core.store.transaction(now) as transaction:
            fired = fire(transaction, core.catalog, call, now, principal.who, self._ignored(transaction, call))
            row, runs = self._row(transaction, fired.call_id), transaction.runs_of_calls([fired.call_id])
            result = _result(row, runs, duplicate=fired.duplicate)
        core.notify()
        return result

    def _ignored(self, transaction: Transaction, call: model.Call) -> str | None:
        """Why the inbound endpoint takes no notice of the call."""
        if call.source != "webhook":
            return None
        endpoint = self.core.catalog.policies(transaction).inbound.get(call.name)
        if endpoint is None:
            raise NotFound(f'There is no inbound endpoint "{call.name}".', value=call.name, field="name")
        if endpoint.events and call.type not in endpoint.events:
            return f"The type {call.type or 'is not given, and'} is not among the endpoint's events."
        if endpoint.kind == "github" and call.type == "ping":
            return "This is GitHub's ping."
        return None

    def _row(self, transaction: Transaction, call_id: int) -> model.CallRow:
        row = transaction.call(call_id)
        if row is None:
            hint = "Calls are kept for 30 days: matins calls."
            raise NotFound(f"There is no call {call_id}.", value=call_id, field="call", hint=hint)
        return row


def call_results(transaction: Transaction, rows: Sequence[model.CallRow]) -> list[Call]:
    """The calls without their bodies."""
    runs: dict[int, list[model.CalledRun]] = {row.id: [] for row in rows}
    for run in transaction.runs_of_calls(runs):
        runs[run.call_id].append(run)
    return [_result(row, runs[row.id], whole=False) for row in rows]


def _result(
    row: model.CallRow, runs: Sequence[model.CalledRun], *, duplicate: bool = False, whole: bool = True
) -> Call:
    return Call(
        id=str(row.id),
        source=row.source,  # type: ignore[arg-type]
        name=row.name.removeprefix("/"),
        key=row.key,
        type=row.type,
        sender=row.sender,
        hops=row.hops,
        at=to_datetime(row.at),
        outcome=row.outcome,  # type: ignore[arg-type]
        reason=row.reason,
        duplicate=duplicate,
        runs=[CallRun(str(run.id), run.schedule, RunState(run.state).displayed, run.reason) for run in runs],  # type: ignore[arg-type]
        text=row.text if whole else None,
        body=None if row.body is None or not whole else orjson.loads(row.body),
    )


def _check_source(source: str) -> None:
    if source == "schedule":
        hint = "Run the schedule that it follows."
        raise InvalidInput("Only the end of a run makes a call of a schedule.", value=source, field="source", hint=hint)


def _checked_key(field: str, key: str) -> str:
    if not key or len(key) > _MAX_KEY_LENGTH or not key.isprintable():
        message = f'"{field}" must be text of 1 to {_MAX_KEY_LENGTH} printable characters.'
        raise InvalidInput(message, value=key[:60], field=field, hint="Shorten it.")
    return key


def _checked_body(body: Any) -> Any:
    try:
        size = len(orjson.dumps(body))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f'"body" must be a JSON value ({error}).', field="body") from None
    if size > MAX_BODY_BYTES:
        raise InvalidInput(f'"body" must be at most {MAX_BODY_BYTES} bytes as JSON, not {size}.', field="body")
    return body
