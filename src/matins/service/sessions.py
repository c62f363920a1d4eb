"""Use cases on browser sessions, and on the links that open them. Only hashes are stored."""

from __future__ import annotations

import builtins
import secrets
from dataclasses import dataclass
from typing import NamedTuple

from matins.api import results
from matins.api.results import NewSession
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, NotAllowed, NotFound
from matins.model.access import BrowserSession, Principal
from matins.model.clock import Clock
from matins.model.rows import NewEvent
from matins.runtime.browser_sessions import end_sessions
from matins.service.core import Core
from matins.service.people import find_person
from matins.service.tokens import hash_of, new_id
from matins.store import Store
from matins.store.transaction import Transaction

LINK_MS = 10 * 60_000
IDLE_MS = 12 * 3_600_000
LONGEST_MS = 7 * 86_400_000
_KEPT_MS = 30 * 86_400_000
_USED_EVERY_MS = 60_000


@dataclass(frozen=True)
class Sessions:
    core: Core

    def create(self, principal: Principal, *, token_id: str | None = None, person: str | None = None) -> NewSession:
        if token_id is not None and person is not None:
            hint = "Omit one of them."
            raise InvalidInput('A link is for a token or for a person: not "token_id" and "person".', hint=hint)
        now, code = self.core.clock.now_ms(), secrets.token_urlsafe(32)
        with self.core.store.transaction(now) as transaction:
            transaction.delete_sessions(now - _KEPT_MS)
            owner = self._whose(transaction, principal, token_id, person, now)
            if owner.role == "agent":
                message, hint = "An agent has no browser session.", "Use the token of a person."
                raise NotAllowed(message, field="token_id", hint=hint)
            rights = None if owner.rights is None else tuple(sorted(owner.rights))
            expires_at = _not_after(transaction, owner.token, now + LINK_MS)
            made = BrowserSession(
                new_id(), hash_of(code), owner.role, owner.name, rights, owner.token, person, now, expires_at
            )
            transaction.insert_session(made)
            data = {"session": made.id, "name": made.name, "role": made.role, "token": made.token, **principal.signed}
            transaction.events.append(NewEvent(now, "session.created", None, None, data))
        return NewSession(id=made.id, path=f"/login?code={code}", expires_at=to_datetime(expires_at))

    def _whose(
        self, transaction: Transaction, principal: Principal, token_id: str | None, person: str | None, now: int
    ) -> Principal:
        """The principal of a new session: a person, that of a token, or the caller."""
        if person is not None:
            transaction.lock_policies()  # a person who is deleted at this moment has no session afterwards
            return find_person(self.core.catalog.policies(transaction), person)
        return principal if token_id is None else _principal_of(transaction, token_id, now)

    def list(self, principal: Principal) -> builtins.list[results.BrowserSession]:
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            return [_result(session) for session in transaction.sessions() if session.is_valid(now)]

    def revoke(self, principal: Principal, session_id: str) -> bool:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            return bool(end_sessions(transaction, now, principal.who, session_id=session_id))


class OpenedSession(NamedTuple):
    secret: str
    lifetime_s: int


class SessionVerifier:
    """Opens, verifies and closes the sessions of browsers. It reads the store each time, so an end takes effect at
    once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def open(self, code: str) -> OpenedSession | None:
        """The session that the code of a link opens; None when the code is unknown, used or expired."""
        secret, now = secrets.token_urlsafe(32), self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            link = transaction.session(hash_of(code))
            if link is None or link.opened_at is not None or not link.is_valid(now):
                return None
            until = _not_after(transaction, link.token, now + IDLE_MS)
            if not transaction.open_session(link.id, link.hash, hash_of(secret), now, until):
                return None
            data = {"session": link.id, "name": link.name, "role": link.role, "token": link.token}
            transaction.events.append(NewEvent(now, "session.opened", None, None, data))
        return OpenedSession(secret, LONGEST_MS // 1000)

    def principal_of(self, secret: str) -> Principal | None:
        now = self._clock.now_ms()
        with self._store.reading() as transaction:
            session = transaction.session(hash_of(secret))
        if session is None or session.opened_at is None or not session.is_valid(now):
            return None
        if abs(now - (session.used_at or session.opened_at)) >= _USED_EVERY_MS:
            self._prolong(session, now)
        return _principal(session)

    def close(self, secret: str) -> None:
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            session = transaction.session(hash_of(secret))
            if session is not None:
                end_sessions(transaction, now, _principal(session).who, session_id=session.id)

    def _prolong(self, session: BrowserSession, now: int) -> None:
        assert session.opened_at is not None
        with self._store.transaction(now) as transaction:
            until = min(now + IDLE_MS, session.opened_at + LONGEST_MS)
            transaction.touch_session(session.id, now, _not_after(transaction, session.token, until))


def _principal(session: BrowserSession) -> Principal:
    rights = None if session.rights is None else frozenset(session.rights)
    return Principal(session.role, session.name, rights=rights, token=session.token)


def _principal_of(transaction: Transaction, token_id: str, now: int) -> Principal:
    token = transaction.token(token_id)
    if token is None or not token.is_valid(now):
        message = f'There is no valid token "{token_id}".'
        raise NotFound(message, value=token_id, field="token_id", hint="List them: matins tokens list")
    return token.principal


def _not_after(transaction: Transaction, token_id: str | None, until: int) -> int:
    """The instant, or the end of the token if that is sooner."""
    token = None if token_id is None else transaction.token(token_id)
    return until if token is None or token.expires_at is None else min(until, token.expires_at)


def _result(session: BrowserSession) -> results.BrowserSession:
    return results.BrowserSession(
        id=session.id,
        name=session.name,
        role=session.role,
        rights=None if session.rights is None else list(session.rights),
        token=session.token,
        person=session.person,
        created_at=to_datetime(session.created_at),
        opened_at=to_datetime(session.opened_at),
        used_at=to_datetime(session.used_at),
        expires_at=to_datetime(session.expires_at),
    )
