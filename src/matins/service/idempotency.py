"""Idempotency keys: a repeated request gets the response of the first one."""

from __future__ import annotations

from typing import NamedTuple

from matins.errors import Conflict, InvalidInput
from matins.model.access import Principal
from matins.ports import Clock, Store

RETENTION_MS = 24 * 3_600_000
_CUT_OFF_MS = 120_000
"""A request that takes longer has lost its server. It may have been executed, so its key is kept until then."""
_SWEEP_MS = 600_000
_MAX_KEY_LENGTH = 200
_FIELD = "Idempotency-Key"


class StoredResponse(NamedTuple):
    status: int
    body: str


class IdempotencyStore:
    """Responses by principal and key. They are in the store and outlive the process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._next_sweep = 0

    def begin(self, principal: Principal, key: str, digest: str) -> StoredResponse | None:
        """The response of an earlier request with this key; None if this request must be executed now."""
        _check_key(key)
        now, who = self._clock.now_ms(), _owner_of(principal)
        with self._store.transaction(now) as transaction:
            if now >= self._next_sweep:
                transaction.delete_requests(now - RETENTION_MS)
                self._next_sweep = now + _SWEEP_MS
            if transaction.begin_request(who, key, digest, now):
                return None
            found = transaction.idempotent_request(who, key)
            if found is None or now - found.at >= (RETENTION_MS if found.status is not None else _CUT_OFF_MS):
                transaction.delete_request(who, key)
                transaction.begin_request(who, key, digest, now)
                return None
        if found.digest != digest:
            message, hint = "The Idempotency-Key was used for another request.", "Use a new key for each request."
            raise InvalidInput(message, value=key, field=_FIELD, hint=hint)
        if found.status is None:
            message = "A request with this Idempotency-Key is being answered."
            raise Conflict(message, value=key, field=_FIELD, hint="Try again in a moment.")
        return StoredResponse(found.status, found.response or "")

    def store(self, principal: Principal, key: str, response: StoredResponse) -> None:
        with self._store.transaction(self._clock.now_ms()) as transaction:
            transaction.store_response(_owner_of(principal), key, response.status, response.body)

    def discard(self, principal: Principal, key: str) -> None:
        """Delete a request that was not answered; it may be repeated."""
        with self._store.transaction(self._clock.now_ms()) as transaction:
            transaction.delete_request(_owner_of(principal), key)


def _owner_of(principal: Principal) -> str:
    return f"{principal.role}:{principal.name}"


def _check_key(key: str) -> None:
    if not key or len(key) > _MAX_KEY_LENGTH or not key.isprintable():
        allowed = f"1 to {_MAX_KEY_LENGTH} printable characters"
        message = f"The Idempotency-Key must have {allowed}."
        raise InvalidInput(message, value=key[:60], field=_FIELD, allowed=allowed, hint="Use a UUID.")
