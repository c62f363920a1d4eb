"""Idempotency keys: a repeated request gets the response of the first one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from matins.errors import Conflict, InvalidInput
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.store import Store
from matins.store.transaction import Transaction

RETENTION_MS = 24 * 3_600_000
_SWEEP_MS = 600_000
_MAX_KEY_LENGTH = 200
IDEMPOTENCY_KEY = "Idempotency-Key"
R = TypeVar("R")


class StoredResponse(NamedTuple):
    status: int
    body: str


class _AnsweredElsewhereError(Exception):
    """Another server has answered the same request meanwhile."""


class IdempotencyStore:
    """Responses by principal and key. A request, what it does and its response are one transaction: whenever the
    process is killed, a repeated request is answered with what was done, or done."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._next_sweep = 0
        self._lock = threading.Lock()
        self._answering: set[tuple[str, str]] = set()

    def once(
        self,
        principal: Principal,
        key: str,
        digest: str,
        answer: Callable[[], R],
        stored: Callable[[R], StoredResponse],
    ) -> R | StoredResponse:
        """The response of an earlier request with this key, or that of `answer`, which is called now."""
        if not key or len(key) > _MAX_KEY_LENGTH or not key.isprintable():
            allowed = f"1 to {_MAX_KEY_LENGTH} printable characters"
            message = f"The Idempotency-Key must have {allowed}."
            raise InvalidInput(message, value=key[:60], field=IDEMPOTENCY_KEY, allowed=allowed, hint="Use a UUID.")
        who = _owner_of(principal)
        with self._alone(who, key):
            found = self._found(who, key, digest)
            if found is not None:
                return found
            try:
                return self._answer(who, key, digest, answer, stored)
            except _AnsweredElsewhereError:
                found = self._found(who, key, digest)
                assert found is not None
                return found

    def refuse(self, principal: Principal, key: str, digest: str, response: StoredResponse) -> None:
        """Store the response of a request that was refused, and so did nothing."""
        now, who = self._clock.now_ms(), _owner_of(principal)
        with self._store.transaction(now) as transaction:
            if self._begin(transaction, who, key, digest, now):
                transaction.store_response(who, key, response.status, response.body)

    def _answer(
        self, who: str, key: str, digest: str, answer: Callable[[], R], stored: Callable[[R], StoredResponse]
    ) -> R:
        now = self._clock.now_ms()

        def begun(transaction: Transaction) -> None:
            if not self._begin(transaction, who, key, digest, now):  # it waits for a server that is answering
                raise _AnsweredElsewhereError

        with self._store.join(begun):
            result = answer()
            with self._store.transaction(now) as transaction:
                transaction.store_response(who, key, *stored(result))
        return result

    def _begin(self, transaction: Transaction, who: str, key: str, digest: str, now: int) -> bool:
        if now >= self._next_sweep:
            transaction.delete_requests(now - RETENTION_MS)
            self._next_sweep = now + _SWEEP_MS
        found = transaction.idempotent_request(who, key)
        if found is not None and _is_old(found.at, now):
            transaction.delete_request(who, key)
        return transaction.begin_request(who, key, digest, now)

    def _found(self, who: str, key: str, digest: str) -> StoredResponse | None:
        with self._store.reading() as transaction:
            found = transaction.idempotent_request(who, key)
        if found is None or found.status is None or _is_old(found.at, self._clock.now_ms()):
            return None
        if found.digest != digest:
            message, hint = "The Idempotency-Key was used for another request.", "Use a new key for each request."
            raise InvalidInput(message, value=key, field=IDEMPOTENCY_KEY, hint=hint)
        return StoredResponse(found.status, found.response or "")

    @contextmanager
    def _alone(self, who: str, key: str) -> Generator[None]:
        """Raise Conflict while this process answers a request with the same key."""
        with self._lock:
            if (who, key) in self._answering:
                message = "A request with this Idempotency-Key is being answered."
                raise Conflict(message, value=key, field=IDEMPOTENCY_KEY, hint="Try again in a moment.")
            self._answering.add((who, key))
        try:
            yield
        finally:
            self._answering.discard((who, key))


def _is_old(at: int, now: int) -> bool:
    return now - at >= RETENTION_MS


def _owner_of(principal: Principal) -> str:
    """The owner may have several tokens, and a new one after a restart."""
    return "owner" if principal.role == "owner" else principal.who
