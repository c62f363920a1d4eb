"""Tokens, and browser sessions with the links that open them; only hashes of sessions and links are stored.

`find_person`, `person_in_chat`: the person behind a login or a chat id.
"""

from __future__ import annotations

import builtins
import hmac
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple, get_args

from matins.api import results
from matins.api.results import NewChatLink, NewSession, NewToken
from matins.engine.audit import token_digest
from matins.engine.policies import Policies
from matins.engine.validation import check_name, check_strings, nearest
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound, StoreError
from matins.model.access import BrowserSession, ChatLink, LinkedService, Person, Principal, Role, Token, name_of
from matins.model.clock import Clock
from matins.model.rows import NewEvent
from matins.records.people import check_token_name
from matins.runtime import tokens
from matins.runtime.tokens import end_sessions
from matins.service.core import Core
from matins.service.permissions import GRANTS, rights_of
from matins.store import Store
from matins.store.transaction import Transaction

log = logging.getLogger("matins")
_TOKEN = re.compile(r"mtn_([a-z2-7]{8})_[a-z2-7]{32}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_USED_EVERY_MS = 60_000
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Tokens:
    core: Core

    def create(
        self,
        principal: Principal,
        name: str,
        *,
        role: Role = "owner",
        rights: Iterable[str] | None = None,
        expires_at: int | None = None,
    ) -> NewToken:
        check_name("name", name, "laptop")
        kept = _rights(principal, role, rights)
        now = self.core.clock.now_ms()
        if expires_at is not None and expires_at <= now:
            message = '"expires_at" must be in the future.'
            raise InvalidInput(message, value=expires_at, field="expires_at", hint="Give a later time.")
        token_id, token = _new()
        made = Token(token_id, hash_of(token), name, role, kept, now, principal.who, expires_at)
        with self.core.store.transaction(now) as transaction:
            transaction.lock_policies()  # an agent that is created at this moment has another name
            check_token_name(name, role, self.core.catalog.policies(transaction), transaction.tokens(), now)
            transaction.insert_token(made)
            data = {"token": made.id, "name": name, "role": role, "rights": kept, **principal.signed}
            data["digest"] = token_digest(made)
            transaction.events.append(NewEvent(now, "token.created", None, None, data))
        return NewToken(
            id=made.id,
            token=token,
            name=name,
            role=role,
            rights=None if kept is None else list(kept),
            created_at=to_datetime(now),
            created_by=principal.name,
            expires_at=to_datetime(expires_at),
        )

    def list(self, principal: Principal) -> builtins.list[results.Token]:
        with self.core.store.reading() as transaction:
            return [_token_result(token) for token in transaction.tokens()]

    def revoke(self, principal: Principal, token_id: str) -> bool:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            revoked = transaction.revoke_token(token_id, now)
            if revoked:
                data = {"token": token_id, **principal.signed}
                transaction.events.append(NewEvent(now, "token.revoked", None, None, data))
                end_sessions(transaction, now, principal.who, token=token_id)
        return revoked


def _token_result(token: Token) -> results.Token:
    return results.Token(
        id=token.id,
        name=token.name,
        role=token.role,
        rights=None if token.rights is None else list(token.rights),
        created_at=to_datetime(token.created_at),
        created_by=name_of(token.created_by),
        expires_at=to_datetime(token.expires_at),
        revoked_at=to_datetime(token.revoked_at),
        used_at=to_datetime(token.used_at),
    )


class TokenVerifier:
    """Verifies tokens. It reads the store each time, so a revocation takes effect at once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @property
    def reads_wait(self) -> bool:
        """Whether reading the store waits for other machines."""
        return self._store.reads_wait

    def principal_of(self, token: str) -> Principal | None:
        """The principal of a token; None if the token is unknown, expired or revoked."""
        if token.startswith(tokens.PREFIX):
            return tokens.principal_of_run(self._store, token)
        found, now = self._verified(token), self._clock.now_ms()
        if found is None or not found.is_valid(now):
            return None
        if not _is_marked(found, now):
            try:
                with self._store.transaction(now) as transaction:
                    transaction.touch_token(found.id, now)
            except StoreError as error:  # the token stays valid when the disk is full
                log.warning("the last use of token %s could not be written: %s", found.id, error)
        return found.principal

    def at_once(self, token: str) -> Principal | None:
        """The principal of a valid token, by one reading of the store; None if more is needed."""
        if token.startswith(tokens.PREFIX):
            return None
        found, now = self._verified(token), self._clock.now_ms()
        return found.principal if found is not None and found.is_valid(now) and _is_marked(found, now) else None

    def _verified(self, token: str) -> Token | None:
        """The token as it is stored, if this is its text."""
        form = _TOKEN.fullmatch(token)
        found = None if form is None else self._found(form[1])
        known = _NOBODY if found is None else found.hash
        return found if hmac.compare_digest(hash_of(token), known) else None

    def _found(self, token_id: str) -> Token | None:
        with self._store.reading() as transaction:
            return transaction.token(token_id)


def _is_marked(token: Token, now: int) -> bool:
    """Whether its last use is written, as exactly as it needs to be."""
    return token.used_at is not None and abs(now - token.used_at) < _USED_EVERY_MS


def _rights(principal: Principal, role: Any, rights: Any) -> tuple[str, ...] | None:
    if role not in get_args(Role):
        allowed = ", ".join(get_args(Role))
        raise InvalidInput(
            f'There is no role "{role}".', value=role, field="role", allowed=allowed, hint=f"Use one of: {allowed}."
        )
    granted = GRANTS[role]
    wanted = granted if rights is None else frozenset(check_strings("rights", rights, "a list of rights"))
    allowed = ", ".join(sorted(granted))
    if beyond := sorted(wanted - granted):
        message = f'A token with the role "{role}" cannot have the right "{beyond[0]}".'
        raise InvalidInput(message, value=beyond[0], field="rights", allowed=allowed, hint=f"Use some of: {allowed}.")
    if more := sorted(wanted - rights_of(principal)):
        message = f'{principal.name} does not have the right "{more[0]}" and cannot grant it.'
        raise NotAllowed(message, value=more[0], field="rights", hint="Ask the owner.")
    return None if rights is None else tuple(sorted(wanted))


def new_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(8))


def _new() -> tuple[str, str]:
    """A new token's id, by which it is found, and the token, with 160 random bits."""
    token_id = new_id()
    return token_id, f"mtn_{token_id}_" + "".join(secrets.choice(_LETTERS) for _ in range(32))


def hash_of(token: str) -> str:
    return sha256(token.encode("utf-8", "replace")).hexdigest()


def find_person(policies: Policies, name: str) -> Principal:
    """The principal of a person. Raises NotFound when there is none of this name."""
    person = policies.people.get(name)
    if person is None:
        hint = (
            nearest(name, policies.people) if policies.people else f"Create one: matins people set {name} --role viewer"
        )
        raise NotFound(f'There is no person "{name}".', value=name, field="person", hint=hint)
    return principal_of(person)


def person_in_chat(policies: Policies, chat: Literal["slack", "telegram", "discord"], user: str) -> Person | None:
    """The person behind the id of a chat's user; None for strangers, who may do nothing."""
    return next((person for person in policies.people.values() if getattr(person, chat) == user), None)


def principal_of(person: Person) -> Principal:
    return Principal(person.role, person.name)


LINK_MS = 10 * 60_000
IDLE_MS = 12 * 3_600_000
LONGEST_MS = 7 * 86_400_000
_KEPT_MS = 30 * 86_400_000


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
        if token_id is None:
            return principal
        token = transaction.token(token_id)
        if token is None or not token.is_valid(now):
            message = f'There is no valid token "{token_id}".'
            raise NotFound(message, value=token_id, field="token_id", hint="List them: matins tokens list")
        return token.principal

    def list(self, principal: Principal) -> builtins.list[results.BrowserSession]:
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            return [_result(session) for session in transaction.sessions() if session.is_valid(now)]

    def revoke(self, principal: Principal, session_id: str) -> bool:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            return bool(end_sessions(transaction, now, principal.who, session_id=session_id))


@dataclass(frozen=True)
class ChatLinks:
    core: Core

    def link(self, principal: Principal, name: str, service: LinkedService) -> NewChatLink:
        now, code = self.core.clock.now_ms(), new_id()
        with self.core.store.transaction(now) as transaction:
            find_person(self.core.catalog.policies(transaction), name)
            bot = next((bot.name for bot in transaction.chat_bots() if bot.service == service), None)
            if bot is None:
                hint = f"Set it up, and start the daemon: matins chat set {service} --token env:NAME"
                raise Conflict(f"No bot of {service} is connected.", value=service, field="service", hint=hint)
            transaction.delete_chat_links(service, name, now)
            transaction.insert_chat_link(ChatLink(hash_of(code), service, name, now + LINK_MS))
            data = {"person": name, "service": service, **principal.signed}
            transaction.events.append(NewEvent(now, "link.created", None, None, data))
        return NewChatLink(name, service, bot, code, to_datetime(now + LINK_MS))


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
            with self._store.transaction(now) as transaction:
                until = min(now + IDLE_MS, session.opened_at + LONGEST_MS)
                transaction.touch_session(session.id, now, _not_after(transaction, session.token, until))
        return _principal(session)

    def close(self, secret: str) -> None:
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            session = transaction.session(hash_of(secret))
            if session is not None:
                end_sessions(transaction, now, _principal(session).who, session_id=session.id)


def _principal(session: BrowserSession) -> Principal:
    rights = None if session.rights is None else frozenset(session.rights)
    return Principal(session.role, session.name, rights=rights, token=session.token)


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
