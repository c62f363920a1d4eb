"""Requests that may be repeated: the first with a key is answered, the others are told the same again."""

from __future__ import annotations

from typing import NamedTuple

from matins.errors import Conflict, InvalidInput
from matins.model.principal import Principal
from matins.ports import Clock, Store

KEPT_MS = 24 * 3_600_000
_CUT_OFF_MS = 120_000
"""An answer that takes longer has lost its server. What it asked for may be done, so it is left alone for a while."""
_SWEEP_MS = 600_000
_LONGEST_KEY = 200


class Kept(NamedTuple):
    """What was answered."""

    status: int
    answer: str


class Requests:
    """Answers by principal and key, in the store: they outlive the process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._next_sweep = 0

    def begin(self, principal: Principal, key: str, digest: str) -> Kept | None:
        """None when it is to be answered now; `digest` says what is asked."""
        _check_key(key)
        now, who = self._clock.now_ms(), _who(principal)
        with self._store.transaction(now) as transaction:
            if now >= self._next_sweep:
                transaction.drop_requests(now - KEPT_MS)
                self._next_sweep = now + _SWEEP_MS
            if transaction.open_request(who, key, digest, now):
                return None
            found = transaction.answered(who, key)
            if found is None or now - found.at >= (KEPT_MS if found.status is not None else _CUT_OFF_MS):
                transaction.drop_request(who, key)
                transaction.open_request(who, key, digest, now)
                return None
        if found.digest != digest:
            raise InvalidInput(
                "This Idempotency-Key was used for another request",
                value=key,
                field="Idempotency-Key",
                hint="a new key for each request; the same one only to repeat it",
            )
        if found.status is None:
            raise Conflict(
                "A request with this key is being answered",
                value=key,
                field="Idempotency-Key",
                hint="ask again in a moment",
            )
        return Kept(found.status, found.answer or "")

    def answer(self, principal: Principal, key: str, kept: Kept) -> None:
        with self._store.transaction(self._clock.now_ms()) as transaction:
            transaction.answer_request(_who(principal), key, kept.status, kept.answer)

    def forget(self, principal: Principal, key: str) -> None:
        """It was not answered, and may come again."""
        with self._store.transaction(self._clock.now_ms()) as transaction:
            transaction.drop_request(_who(principal), key)


def _who(principal: Principal) -> str:
    return f"{principal.role}:{principal.name}"


def _check_key(key: str) -> None:
    if not key or len(key) > _LONGEST_KEY or not key.isprintable():
        allowed = f"1 to {_LONGEST_KEY} printable characters"
        raise InvalidInput(
            f"An Idempotency-Key has {allowed}", value=key[:60], field="Idempotency-Key", allowed=allowed
        )
